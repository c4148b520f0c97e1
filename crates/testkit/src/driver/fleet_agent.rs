//! An agent of a fleet: holds a lock that only one copy can have, shouts when it cannot, and works
//! through steps by the API of its node, until it is told that it is enough.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use relight_core::time::Span;
use relight_runtime::os::environment;
use relight_server::client;
use serde_json::{Value, json};

use super::{COMPLETED, UNEXPECTED};
use crate::world::clock;
use crate::world::fleet_log::{Deed, FleetLog};

/// How it ends when it was told that its lease is no longer valid.
const FENCED: u8 = 77;
/// How long it waits between two steps, and before it asks again.
const PAUSE: Duration = Duration::from_millis(80);
/// How long an answer may take.
const PATIENCE: Span = Span::from_secs(20);

/// What it was told by whoever started it.
struct Agent {
    name: String,
    log: FleetLog,
    attempt: u32,
    task: String,
    fence: u64,
    socket: PathBuf,
}

/// What the node said.
enum Said {
    Yes(Value),
    /// Nothing of it counts any more.
    Fenced,
    /// Neither of the two.
    Odd,
}

/// Lives until its task is completed, or somebody ends it.
pub fn run(folder: &Path, name: &str) -> anyhow::Result<u8> {
    let log = FleetLog::at(folder)?;
    let all = environment::variables();
    let told = |wanted: &str| {
        let found = environment::texts(&all).find(|(name, _)| *name == wanted);
        found
            .map(|(_, value)| value.to_owned())
            .with_context(|| format!("no {wanted}"))
    };
    let agent = Agent {
        name: name.to_owned(),
        log,
        attempt: told("RELIGHT_ATTEMPT_NUMBER")?.parse()?,
        task: told("RELIGHT_TASK")?,
        fence: told("RELIGHT_FENCE")?.parse()?,
        socket: told("RELIGHT_SOCKET")?.into(),
    };
    agent.tell(&Deed::Born {
        node: told("RELIGHT_NODE")?,
        fence: agent.fence,
    })?;
    let _lock = match agent.log.lock(name, agent.attempt)? {
        Ok(lock) => Some(lock),
        Err(holder) => {
            agent.tell(&Deed::Doubled { holder })?;
            None
        }
    };
    agent.work()
}

impl Agent {
    fn tell(&self, deed: &Deed) -> anyhow::Result<()> {
        self.log.tell(&self.name, self.attempt, deed)
    }

    fn work(&self) -> anyhow::Result<u8> {
        let task = match self.ask("GET", "", None)? {
            Said::Yes(task) => task,
            Said::Fenced => return Ok(FENCED),
            Said::Odd => return Ok(UNEXPECTED),
        };
        let mut number = 1 + task["done_steps"].as_array().map_or(0, Vec::len);
        loop {
            let said = match self.log.is_enough() {
                true => return self.end(),
                false => self.step(&format!("s{number}"))?,
            };
            match said {
                Said::Yes(_) => number += 1,
                Said::Fenced => return Ok(FENCED),
                Said::Odd => return Ok(UNEXPECTED),
            }
            clock::pause(PAUSE);
        }
    }

    fn step(&self, step: &str) -> anyhow::Result<Said> {
        let fence = json!({"fence": self.fence});
        let begun = self.ask("POST", &format!("/steps/{step}/begin"), Some(&fence))?;
        let Said::Yes(advice) = &begun else {
            return Ok(begun);
        };
        match advice["advice"].as_str() {
            Some("finished") => return Ok(begun),
            Some("go" | "again") => {}
            _ => {
                self.tell(&Deed::Odd {
                    what: format!("begin {step}: {advice}"),
                })?;
                return Ok(Said::Odd);
            }
        }
        let key = advice["idempotency_key"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.tell(&Deed::Effect {
            step: step.to_owned(),
            key,
        })?;
        let ended = self.ask("POST", &format!("/steps/{step}/end"), Some(&fence))?;
        if matches!(ended, Said::Yes(_)) {
            self.tell(&Deed::Ack {
                step: step.to_owned(),
            })?;
        }
        Ok(ended)
    }

    fn end(&self) -> anyhow::Result<u8> {
        let done = self.ask("POST", "/done", Some(&json!({"fence": self.fence})))?;
        // The first answer may have been lost on its way.
        let is_done = match done {
            Said::Yes(_) => true,
            Said::Fenced | Said::Odd => match self.ask("GET", "", None)? {
                Said::Yes(task) => task["status"] == "completed",
                Said::Fenced | Said::Odd => false,
            },
        };
        if !is_done {
            return Ok(FENCED);
        }
        self.tell(&Deed::Done)?;
        Ok(COMPLETED)
    }

    /// Asks until there is an answer: daemons come back, and so does the database.
    fn ask(&self, method: &str, rest: &str, body: Option<&Value>) -> anyhow::Result<Said> {
        let path = format!("/api/tasks/{}{rest}", self.task);
        loop {
            let answered = client::send(&self.socket, method, &path, body, PATIENCE);
            let Ok(answered) = answered else {
                clock::pause(PAUSE);
                continue;
            };
            let code = answered.body["error"]["code"].as_str().unwrap_or_default();
            match (answered.status, code) {
                (200..300, _) => return Ok(Said::Yes(answered.body)),
                (409, "fenced") => {
                    self.tell(&Deed::Fenced)?;
                    return Ok(Said::Fenced);
                }
                (408 | 503, _) => clock::pause(PAUSE),
                // What ends a task twice finds it ended.
                (409, "illegal" | "ended" | "waits_for_person") if rest == "/done" => {
                    return Ok(Said::Odd);
                }
                (status, _) => {
                    let what = format!("{method} {rest}: {status} {}", answered.body);
                    self.tell(&Deed::Odd { what })?;
                    return Ok(Said::Odd);
                }
            }
        }
    }
}
