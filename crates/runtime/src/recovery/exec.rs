//! A user's command as a strategy: gets the case as JSON on its standard input and prints a
//! decision.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use relight_core::recovery::{Decision, HolderDeath, RecoveryContext};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::strategy::{RecoveryAnswer, RecoveryStrategy, StrategyError};
use crate::os::{child, clock, process};
use crate::store_url;

/// Maximum size of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Maximum deferral.
const DEFER_MAX: Span = Span::from_secs(366 * 24 * 3_600);

/// A strategy command.
#[derive(Debug, Clone)]
pub struct Exec {
    /// The program and its arguments, run without a shell.
    pub command: Vec<String>,
    /// The folder it runs in; ours when none.
    pub folder: Option<PathBuf>,
    /// Time limit; it is killed afterwards.
    pub time_max: Duration,
}

/// Why a strategy command failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It cannot be run.
    #[error("{program} cannot be run: {source}")]
    NotRun {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It exited with an error.
    #[error("{program} ended with {status}")]
    Failed {
        /// Which.
        program: String,
        /// How.
        status: std::process::ExitStatus,
    },
    /// It exceeded its time limit and was killed.
    #[error("{program} did not answer within {time_max:?}")]
    TooSlow {
        /// Which.
        program: String,
        /// The time limit.
        time_max: Duration,
    },
    /// Its output is not a decision.
    #[error("{program} gave no decision: {why}")]
    Nonsense {
        /// Which.
        program: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Output of a command.
#[derive(Debug, Deserialize)]
struct StrategyOutput {
    decision: String,
    reason: Option<String>,
    until: Option<String>,
    keep_progress: Option<bool>,
}

impl RecoveryStrategy for Exec {
    fn recover(
        &self,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError> {
        let case = case(task, death, context);
        Ok(self.ask(&case.to_string(), context.is_store_shared)?)
    }
}

/// What a strategy that is not written in Rust is told.
pub fn case(task: &Task, death: &HolderDeath, context: &RecoveryContext) -> Value {
    json!({
        "task": {
            "id": task.id, "title": task.spec.title, "status": task.status, "agent": task.agent,
            "strategy": task.spec.strategy, "priority": task.spec.priority,
            "needs": task.spec.needs, "context": task.context,
        },
        "death": death,
        "context": context,
    })
}

impl Exec {
    fn ask(&self, case: &str, is_store_shared: bool) -> Result<RecoveryAnswer, ExecError> {
        let program = self.command.first().cloned().unwrap_or_default();
        let not_run = |source| ExecError::NotRun {
            program: program.clone(),
            source,
        };
        let mut command = process::command(&program, self.command.get(1..).unwrap_or_default());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.process_group(0);
        if is_store_shared {
            store_url::withhold(&mut command);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut running = command.spawn().map_err(not_run)?;
        let mut input = running.stdin.take().expect("it is piped");
        let output = running.stdout.take().expect("it is piped");
        let case = format!("{case}\n");
        // In threads, because it may read late or leave its output to a child process.
        let (said, hears) = mpsc::channel();
        std::thread::spawn(move || input.write_all(case.as_bytes()));
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = output.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
            said.send(read.map(|_| text))
        });
        let Some(status) = child::wait_or_kill_group(&mut running, self.time_max) else {
            return Err(ExecError::TooSlow {
                program,
                time_max: self.time_max,
            });
        };
        if !status.success() {
            return Err(ExecError::Failed { program, status });
        }
        let text = match hears.recv_timeout(self.time_max) {
            Ok(text) => text.map_err(not_run)?,
            Err(_) => {
                return Err(ExecError::TooSlow {
                    program,
                    time_max: self.time_max,
                });
            }
        };
        read(&text, clock::now()).map_err(|why| ExecError::Nonsense { program, why })
    }
}

/// Reads the answer of such a strategy.
pub fn read(text: &str, now: Time) -> Result<RecoveryAnswer, String> {
    let said: StrategyOutput =
        serde_json::from_str(text.trim()).map_err(|error| error.to_string())?;
    let decision = match said.decision.as_str() {
        "resume" => Decision::Resume,
        "reassign" => Decision::Reassign {
            keep_progress: said.keep_progress.unwrap_or(true),
        },
        "suspend" => Decision::Suspend,
        "give_up" => Decision::GiveUp,
        "defer" => Decision::Defer {
            until: until(said.until.as_deref(), now)?,
        },
        other => {
            return Err(format!(
                "{other:?} is not one of resume, reassign, suspend, defer, give_up"
            ));
        }
    };
    Ok(RecoveryAnswer {
        decision,
        reason: said.reason,
    })
}

fn until(text: Option<&str>, now: Time) -> Result<Time, String> {
    let text = text.ok_or("defer needs `until`, a time or a duration")?;
    let at = match text.parse::<Span>() {
        Ok(span) => now.plus(span),
        Err(_) => text
            .parse::<Time>()
            .map_err(|_| format!("{text:?} is not a time or duration"))?,
    };
    if at > now.plus(DEFER_MAX) {
        return Err(format!("{text} is further away than {DEFER_MAX}"));
    }
    Ok(at.max(now))
}
