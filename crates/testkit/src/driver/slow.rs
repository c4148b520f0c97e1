//! A holder with a short lease that takes its time in a step, to be frozen there.

use std::time::Duration;

use relight_core::time::Span;
use relight_runtime::{Relight, StepError};

use super::{COMPLETED, UNEXPECTED, effect};
use crate::world::stage::Stage;

/// How it ends when the lease was somebody else's.
pub const FENCED: u8 = 77;

/// One step under a lease of half a second.
pub fn run(stage: &Stage) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let relight = Relight::open(&stage.store_url()).await?;
        let task = relight
            .task(&stage.task)?
            .lease(Span::from_ms(500))
            .start()
            .await?;
        let slow = |run: relight_runtime::StepRun| async move {
            let token = effect::act(&stage.ledger, &stage.task, "s04", &run.idempotency_key)?;
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok::<_, std::io::Error>(token)
        };
        match task.plan("s04")?.run(slow).await {
            Ok(_) => Ok(COMPLETED),
            Err(StepError::Fenced(refusal)) => {
                eprintln!("{refusal}");
                Ok(FENCED)
            }
            Err(error) => {
                eprintln!("{error}");
                Ok(UNEXPECTED)
            }
        }
    })
}
