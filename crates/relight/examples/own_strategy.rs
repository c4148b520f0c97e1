//! A program that works through a queue with a strategy of its own.
//!
//! `own_strategy STORE` adds three mails and sends them. Sending the second one fails twice; the
//! strategy puts it off the first time and asks a person the second.

use std::sync::Arc;
use std::time::Duration;

use relight::{
    Decision, Ended, HolderDeath, RecoveryAnswer, RecoveryContext, RecoveryStrategy, Relight,
    RunningTask, Span, StrategyError, Task,
};

/// Mail is patient: what cannot be sent is tried once more a little later, then a person is asked.
struct Patient;

impl RecoveryStrategy for Patient {
    fn recover(
        &self,
        _task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError> {
        if context.recoveries == 0 {
            let until = death.at.plus(Span::from_ms(50));
            return Ok(RecoveryAnswer::from(Decision::Defer { until })
                .because("the server may be back soon"));
        }
        Ok(RecoveryAnswer::from(Decision::Suspend).because("it failed twice"))
    }
}

async fn send(task: Arc<RunningTask>) -> anyhow::Result<()> {
    let to = task
        .payload()
        .and_then(|payload| payload["to"].as_str())
        .unwrap_or("nobody")
        .to_owned();
    task.step("send", || async {
        anyhow::ensure!(to != "bob", "no route to {to}");
        println!("sent to {to}");
        Ok(())
    })
    .await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let store = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "memory:".to_owned());
    let relight = Relight::builder(&store)
        .strategy("patient", Patient)
        .default_strategy("patient")
        .open()
        .await?;

    // What an earlier life of this program left is decided before anything else.
    for task in relight.recover().await?.recovered {
        println!("{} is {} again", task.task, task.status);
    }
    for to in ["ann", "bob", "carl"] {
        let mail = relight
            .task(&format!("mail-{to}"))?
            .payload(serde_json::json!({ "to": to }));
        mail.add().await?;
    }

    let worker = relight
        .worker("mailer")?
        .at_once(2)
        .until(tokio::time::sleep(SHORT));
    let worker = worker.on_end(|task, ended| match ended {
        Ok(Ended::Failed { error, recovered }) => {
            println!("{task}: {error}; now {}", recovered.status);
        }
        Ok(_) => {}
        Err(error) => eprintln!("{task}: {error}"),
    });
    let worked = worker.run(send).await?;
    println!("{} sent, {} failures", worked.done, worked.failed);
    Ok(())
}

/// How long this example works; a real worker goes on until it is told to stop.
const SHORT: Duration = Duration::from_millis(1_500);
