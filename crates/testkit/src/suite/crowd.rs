//! Sixteen processes at once on one store, and one more that holds 64 tasks through the library.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::checker;
use crate::driver::DriverKind;
use crate::world::clock;
use crate::world::group::Group;
use crate::world::product::{Answer, Product, plain};
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

const WORKERS: usize = 16;
/// Tasks of the process that embeds the library.
const MANY: usize = 64;
/// Every call is over by then, however many wait.
const MANY_MAX: Duration = Duration::from_secs(120);

/// Lets them loose for a while.
pub fn run(
    product: &Product,
    work: &Path,
    span: Duration,
    seed: u64,
    tally: &Tally,
) -> anyhow::Result<()> {
    let folder = work.join("crowd");
    let crowd = Crowd {
        stage: Stage::in_folder(product, &folder, "many")?,
        until: clock::now() + span,
        seen: Mutex::default(),
        over: Barrier::new(WORKERS),
    };
    let home = crowd.stage.home.display().to_string();
    let ledger = crowd.stage.ledger.path().display().to_string();
    let words = ["many", &home, "-", &ledger, "many", &MANY.to_string()];
    let mut many = product.driver(&words);
    let said = std::fs::File::create(folder.join("said"))?;
    let many = Group::spawn(many.stdout(Stdio::null()).stderr(said))?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let crowd = &crowd;
                    move || crowd.work(worker)
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker never panics"))
    })?;
    let (code, in_time) = many.wait_for_all(MANY_MAX)?;
    let mut seen = crowd.seen.lock().expect("nothing panics here");
    if code != 0 || !in_time {
        let said = std::fs::read_to_string(folder.join("said")).unwrap_or_default();
        seen.broken(
            Promise::Answer,
            format!("the library's process: exit {code}: {said}"),
        );
    }
    let counts = (
        seen.calls,
        seen.rounds,
        seen.fences.len(),
        seen.claims.len(),
    );
    let mut found = std::mem::take(&mut seen.found);
    found.extend(crowd.check(&seen)?);
    println!(
        "crowd: {} calls of {WORKERS} processes, {} rounds, {} leases of one task, {} claims, {} failed (seed {seed})",
        counts.0,
        counts.1,
        counts.2,
        counts.3,
        found.len()
    );
    tally.trial("./prove crowd", &found);
    Ok(())
}

struct Crowd {
    stage: Stage,
    until: Instant,
    seen: Mutex<Seen>,
    /// A holder that went before the others are through would hand its tasks to them.
    over: Barrier,
}

/// What the workers were told.
#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    rounds: usize,
    /// Who won the race for a task: the task, once for each winner.
    winners: Vec<String>,
    /// The leases of the one task that goes from hand to hand.
    fences: Vec<u64>,
    /// What was set under them.
    set: Vec<String>,
    claims: Vec<String>,
    own: Vec<String>,
    found: Vec<Violation>,
}

impl Seen {
    fn broken(&mut self, promise: Promise, text: String) {
        self.found.push(Violation::new(promise, text));
    }
}

impl Crowd {
    /// One of the sixteen: a live process to hold leases with, and calls on its behalf.
    fn work(&self, worker: usize) -> anyhow::Result<()> {
        let mut owner = plain(Path::new("sleep"), &["600"]);
        let owner = Group::spawn(owner.stdout(Stdio::null()))?;
        let pid = owner.leader().as_raw_nonzero().to_string();
        let worked = self.rounds(worker, &pid);
        self.over.wait();
        owner.kill_all();
        owner.wait_for_all(MANY_MAX)?;
        worked
    }

    fn rounds(&self, worker: usize, pid: &str) -> anyhow::Result<()> {
        let mut round = 0;
        while clock::now() < self.until {
            self.races(round, pid)?;
            self.relay(worker, round, pid)?;
            self.queue(worker, round, pid)?;
            self.own_task(worker, round, pid)?;
            round += 1;
        }
        let mut seen = self.seen();
        seen.rounds = seen.rounds.max(round);
        Ok(())
    }

    /// All start the same task, and resume the same workflow; one of them gets it.
    fn races(&self, round: usize, pid: &str) -> anyhow::Result<()> {
        let task = format!("race-{round}");
        self.compete(
            &task,
            &["task", "start", &task, "--agent", "r", "--owner-pid", pid],
        )?;
        let flow = format!("flow-{round}");
        let folder = self.stage.checkpoints.display().to_string();
        let start = [
            "checkpoint",
            "start",
            "--workflow",
            &flow,
            "--agent",
            "a",
            "--step",
            "s01",
        ];
        let start = [&start[..], &["--idempotency", &flow, "--dir", &folder]].concat();
        self.call(&start, &[0])?;
        let resume = [
            "checkpoint",
            "resume",
            "--workflow",
            &flow,
            "--owner-pid",
            pid,
        ];
        self.compete(&flow, &[&resume[..], &["--dir", &folder]].concat())
    }

    fn compete(&self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        if self.call(words, &[0, 75])?.code == 0 {
            self.seen().winners.push(name.to_owned());
        }
        Ok(())
    }

    /// One task from hand to hand: whoever has it writes under its fence and lets it go. By force, because
    /// it is started more often than the limit of starts allows.
    fn relay(&self, worker: usize, round: usize, pid: &str) -> anyhow::Result<()> {
        let words = [
            "task",
            "start",
            "relay",
            "--force",
            "--agent",
            "r",
            "--owner-pid",
            pid,
            "--json",
        ];
        let answer = self.call(&words, &[0, 75])?;
        if answer.code != 0 {
            return Ok(());
        }
        let fence = answer.json()?["fence"].as_u64().context("a fence")?;
        self.seen().fences.push(fence);
        let (key, fence) = (format!("w{worker}-{round}"), fence.to_string());
        self.call(
            &[
                "task",
                "set",
                "relay",
                &format!("{key}=1"),
                "--fence",
                &fence,
            ],
            &[0],
        )?;
        self.seen().set.push(key);
        self.call(&["task", "release", "relay", "--fence", &fence], &[0])?;
        Ok(())
    }

    /// Each adds to the queue and takes from it.
    fn queue(&self, worker: usize, round: usize, pid: &str) -> anyhow::Result<()> {
        self.call(
            &[
                "task",
                "add",
                &format!("queued-{worker}-{round}"),
                "--agent",
                "q",
            ],
            &[0],
        )?;
        let words = [
            "task",
            "claim",
            "--agent",
            "q",
            "--owner-pid",
            pid,
            "--json",
        ];
        let answer = self.call(&words, &[0, 1])?;
        if answer.code == 0 {
            let task = answer.json()?["task"]
                .as_str()
                .context("a task")?
                .to_owned();
            self.seen().claims.push(task);
        }
        Ok(())
    }

    /// A task that nobody else touches.
    fn own_task(&self, worker: usize, round: usize, pid: &str) -> anyhow::Result<()> {
        let task = format!("own-{worker}-{round}");
        let words = [
            "task",
            "start",
            &task,
            "--agent",
            "r",
            "--owner-pid",
            pid,
            "--json",
        ];
        let fence = self.call(&words, &[0])?.json()?["fence"].to_string();
        let held = ["--task", &task, "--fence", &fence];
        self.call(
            &[&["step", "run", "s01"], &held[..], &["--", "echo", &task]].concat(),
            &[0],
        )?;
        self.call(
            &[&["step", "begin", "s02", "--repeat", "once"], &held[..]].concat(),
            &[0],
        )?;
        self.call(&[&["step", "end", "s02"], &held[..]].concat(), &[0])?;
        self.call(&["task", "done", &task, "--fence", &fence], &[0])?;
        self.seen().own.push(task);
        Ok(())
    }

    fn call(&self, words: &[&str], wanted: &[i32]) -> anyhow::Result<Answer> {
        let answer = self.stage.product.call(&self.stage.home, words)?;
        let held = answer.code != 75 || answer.stderr.contains(" held by ");
        let mut seen = self.seen();
        seen.calls += 1;
        if !wanted.contains(&answer.code) || !held {
            let text = format!("{words:?}: exit {}: {}", answer.code, answer.stderr.trim());
            seen.broken(Promise::Answer, text);
        }
        Ok(answer)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics while it is locked")
    }

    /// Afterwards, alone: all that was acknowledged is there, and nobody shared a lease.
    fn check(&self, seen: &Seen) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        let winners: BTreeSet<&String> = seen.winners.iter().collect();
        for round in 0..seen.rounds {
            for race in [format!("race-{round}"), format!("flow-{round}")] {
                let count = seen.winners.iter().filter(|won| **won == race).count();
                if count != 1 {
                    let text = format!("{race} has {count} winners of {}", winners.len());
                    found.push(Violation::new(Promise::Fence, text));
                }
            }
        }
        found.extend(twice("fence of the relay", &seen.fences));
        found.extend(twice("claim", &seen.claims));
        let relay = self.shown("relay")?;
        for key in seen
            .set
            .iter()
            .filter(|key| relay["context"][key.as_str()] != "1")
        {
            found.push(Violation::new(
                Promise::Lost,
                format!("relay: {key} was acknowledged"),
            ));
        }
        for task in &seen.own {
            let shown = self.shown(task)?;
            let whole = shown["status"] == "completed" && shown["steps_done"] == 2;
            if !whole {
                let text = format!("{task} was acknowledged as done and is {shown}");
                found.push(Violation::new(Promise::Lost, text));
            }
        }
        for number in 0..MANY {
            let stage = Stage {
                task: format!("many-{number}"),
                ..self.stage.clone()
            };
            found.extend(checker::check_completed(&stage, DriverKind::Library)?);
        }
        found.extend(checker::check_files_whole(&self.stage)?);
        Ok(found)
    }

    fn shown(&self, task: &str) -> anyhow::Result<Value> {
        let stage = Stage {
            task: task.to_owned(),
            ..self.stage.clone()
        };
        Ok(stage.task_shown()?.unwrap_or_default())
    }
}

fn twice<T: Ord + std::fmt::Debug>(what: &str, all: &[T]) -> Option<Violation> {
    let distinct: BTreeSet<&T> = all.iter().collect();
    let text = format!(
        "{what} given twice: {} of {}",
        all.len() - distinct.len(),
        all.len()
    );
    (distinct.len() < all.len()).then(|| Violation::new(Promise::Fence, text))
}
