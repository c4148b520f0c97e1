//! The driver that embeds the library, and one that holds many tasks at once.

use std::sync::Arc;

use relight_core::decide::Refusal;
use relight_core::status::TaskStatus;
use relight_core::step::RepeatRule;
use relight_runtime::engine::ActError;
use relight_runtime::{Relight, RunningTask, StepError};

use super::{COMPLETED, IN_DOUBT, UNEXPECTED, effect};
use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::stage::Stage;

/// Works through the task from wherever it is.
pub fn run(stage: &Stage) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let relight = Relight::open(&stage.store_url()).await?;
        one(&relight, stage).await
    })
}

/// Works through `count` tasks at once in one process.
pub fn run_many(stage: &Stage, count: usize) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let relight = Arc::new(Relight::open(&stage.store_url()).await?);
        let mut running = Vec::new();
        for number in 0..count {
            let stage = Stage {
                task: format!("{}-{number}", stage.task),
                ..stage.clone()
            };
            let relight = Arc::clone(&relight);
            running.push(tokio::spawn(async move { one(&relight, &stage).await }));
        }
        let mut worst = COMPLETED;
        for task in running {
            worst = worst.max(task.await??);
        }
        Ok(worst)
    })
}

async fn one(relight: &Relight, stage: &Stage) -> anyhow::Result<u8> {
    let mut builder = relight.task(&stage.task)?.agent("prover")?;
    for name in plan::step_names() {
        builder = builder.declare(&name)?;
    }
    // However often it was killed: no limit of the task is part of this proof.
    let task = match builder.force().start().await {
        Ok(task) => task,
        Err(ActError::Refused(Refusal::Illegal {
            from: TaskStatus::Completed,
            ..
        })) => {
            return Ok(COMPLETED);
        }
        Err(error) => return Ok(unexpected("start", &error)),
    };
    stage.ledger.append(
        &stage.task,
        &Entry::Started {
            fence: task.fence().0,
        },
    )?;
    for step in plan::step_names() {
        match run_step(&task, stage, &step).await {
            Ok(output) => {
                let output = output.unwrap_or_default();
                stage
                    .ledger
                    .append(&stage.task, &Entry::Ack { step, output })?;
            }
            Err(StepError::InDoubt(_)) => return Ok(IN_DOUBT),
            Err(error) => return Ok(unexpected(&step, &error)),
        }
    }
    match task.done().await {
        Ok(()) => stage.ledger.append(&stage.task, &Entry::Done)?,
        Err(error) => return Ok(unexpected("done", &error)),
    }
    Ok(COMPLETED)
}

async fn run_step(
    task: &RunningTask,
    stage: &Stage,
    step: &str,
) -> Result<Option<String>, StepError<std::io::Error>> {
    let act = |run: relight_runtime::StepRun| async move {
        effect::act(&stage.ledger, &stage.task, step, &run.idempotency_key).map(Some)
    };
    let rule = plan::rule_of(step);
    if rule != RepeatRule::Verify {
        return task.plan(step)?.rule(rule).run(act).await;
    }
    // What it gave is in the ledger; that it gave something is all that is asked here.
    let ask = |_| async {
        let happened = stage.ledger.happened(&stage.task, step)?;
        Ok(happened.then_some(None))
    };
    task.plan(step)?.run_or_verify(ask, act).await
}

fn unexpected(what: &str, error: &dyn std::fmt::Display) -> u8 {
    eprintln!("{what}: {error}");
    UNEXPECTED
}
