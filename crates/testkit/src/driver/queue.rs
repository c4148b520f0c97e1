//! Workers of a queue, and somebody who looks after them: killed at any moment, started again.

use std::sync::Arc;
use std::time::Duration;

use relight::{Relight, RunningTask, TaskPolicy};
use relight_core::time::Span;

use crate::world::ledger::{Entry, Ledger};
use crate::world::queue_plan::{self, Fate};
use crate::world::stage::Stage;

/// What every worker takes tasks as.
pub const AGENT: &str = "w";
/// A lease that ends while its holder is frozen.
pub const LEASE: Span = Span::from_ms(400);
/// Tasks that one worker works on at a time.
const AT_ONCE: usize = 4;
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
        let ledger = stage.ledger.clone();
        worker.run(move |task| one(task, ledger.clone())).await?;
        Ok(super::UNEXPECTED)
    })
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
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(work)
}

/// Every step acts once for its key; then the task ends as it is meant to.
async fn one(task: Arc<RunningTask>, ledger: Ledger) -> anyhow::Result<()> {
    let id = task.id().to_string();
    for step in queue_plan::STEPS {
        let act = |run: relight::StepRun| {
            let (id, ledger) = (&id, &ledger);
            async move {
                // Whoever was frozen acts late; what it did is told apart by its process.
                let token = std::process::id().to_string();
                let (step, key) = (step.to_owned(), run.idempotency_key);
                ledger.append_unsynced(id, &Entry::Effect { step, key, token })
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
