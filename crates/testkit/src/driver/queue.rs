//! Workers of a queue, and somebody who looks after them: killed at any moment, started again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relight_core::time::Span;
use relight_runtime::{Relight, RunningTask, TaskPolicy};

use crate::world::fleet_log::FleetLog;
use crate::world::ledger::{Entry, Ledger};
use crate::world::queue_plan::{self, Fate};
use crate::world::stage::Stage;

/// What every worker takes tasks as.
pub const AGENT: &str = "w";
/// A lease that ends while its holder is frozen.
pub const LEASE: Span = Span::from_ms(400);
/// Tasks that one worker works on at a time.
const AT_ONCE: usize = 4;
/// Who acts in a fleet. Workers are guarded by nobody: any of them may act late, and be refused.
pub const FLEET_TOKEN: &str = "fleet";
/// How long a step of a fleet takes.
const STEP: Duration = Duration::from_millis(250);
/// Tasks that one worker of a fleet works on at a time.
const AT_ONCE_IN_FLEET: usize = 2;
/// How often the sweeper looks.
const PAUSE: Duration = Duration::from_millis(15);

/// A queue in which nothing but retries ends a task, and nothing has to be waited for.
pub async fn open(url: &str) -> anyhow::Result<Relight> {
    let policy = TaskPolicy {
        max_attempts: u32::MAX,
        cooldown: Span::ZERO,
        attempts_total_max: u32::MAX,
        ..TaskPolicy::default()
    };
    Ok(Relight::builder(url).policy(policy).open().await?)
}

/// Works through the queue until it is killed.
pub fn work(stage: &Stage, by_clock: bool) -> anyhow::Result<u8> {
    run(async {
        let relight = open(&stage.store_url()).await?;
        let mut worker = relight.worker(AGENT)?.at_once(AT_ONCE);
        if by_clock {
            worker = worker.lease(LEASE);
        }
        // Whoever was frozen acts late; what it did is told apart by its process.
        let habits = Habits {
            ledger: stage.ledger.clone(),
            token: std::process::id().to_string(),
            log: None,
        };
        worker.run(move |task| one(task, habits.clone())).await?;
        Ok(super::UNEXPECTED)
    })
}

/// The same for a fleet, at leisure, until it is killed: a database that is gone is waited for.
pub fn work_for_fleet(url: &str, folder: &Path, by_clock: bool) -> anyhow::Result<u8> {
    let log = FleetLog::at(folder)?;
    let ledger = log.ledger();
    let habits = Habits {
        ledger,
        token: FLEET_TOKEN.to_owned(),
        log: Some(log),
    };
    run(async {
        loop {
            // Whatever ended it: an error of the store is no end of a worker.
            let _ = work_once(url, habits.clone(), by_clock).await;
            tokio::time::sleep(PAUSE).await;
        }
    })
}

async fn work_once(url: &str, habits: Habits, by_clock: bool) -> anyhow::Result<()> {
    let relight = open(url).await?;
    let mut worker = relight.worker(AGENT)?.at_once(AT_ONCE_IN_FLEET);
    if by_clock {
        worker = worker.lease(LEASE);
    }
    worker.run(move |task| one(task, habits.clone())).await?;
    Ok(())
}

/// Gives what dead workers left to its strategy until it is killed.
pub fn sweep(stage: &Stage) -> anyhow::Result<u8> {
    run(async {
        let relight = open(&stage.store_url()).await?;
        loop {
            relight.recover().await?;
            tokio::time::sleep(PAUSE).await;
        }
    })
}

fn run(work: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// How a worker works.
#[derive(Debug, Clone)]
struct Habits {
    ledger: Ledger,
    /// Who acts.
    token: String,
    /// Of a fleet: as long as it is not enough, steps take their time.
    log: Option<FleetLog>,
}

impl Habits {
    async fn take_time(&self) {
        if self.log.as_ref().is_some_and(|log| !log.is_enough()) {
            tokio::time::sleep(STEP).await;
        }
    }
}

/// Every step acts once for its key; then the task ends as it is meant to.
async fn one(task: Arc<RunningTask>, habits: Habits) -> anyhow::Result<()> {
    let ledger = &habits.ledger;
    let id = task.id().to_string();
    for step in queue_plan::STEPS {
        let act = |run: relight_runtime::StepRun| {
            let (id, habits) = (&id, &habits);
            async move {
                let token = habits.token.clone();
                let (step, key) = (step.to_owned(), run.idempotency_key);
                let acted = Entry::Effect { step, key, token };
                let acted = habits.ledger.append_unsynced(id, &acted);
                habits.take_time().await;
                acted
            }
        };
        task.plan(step)?.run(act).await?;
        let (step, output) = (step.to_owned(), String::new());
        ledger.append_unsynced(&id, &Entry::Ack { step, output })?;
    }
    match queue_plan::fate(&id) {
        Fate::Completes { .. } => Ok(()),
        Fate::Fails { .. } => anyhow::bail!("as it is meant to"),
        Fate::Panics { .. } => panic!("as it is meant to"),
    }
}
