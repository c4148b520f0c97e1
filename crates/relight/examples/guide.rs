//! What the guides show of the library in parts: `guide order`, `guide mailer` or `guide gateway`.

use relight::{
    Decision, HolderDeath, Policy, RecoveryAnswer, RecoveryContext, RecoveryStrategy, Relight,
    Rules, Span, StrategyError, Task, TaskPolicy, Usage,
};
use serde_json::{Value, json};
use std::io::Error;

struct Patient;

impl RecoveryStrategy for Patient {
    fn recover(
        &self,
        _: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError> {
        if context.recoveries == 0 {
            let until = death.at.plus(Span::from_secs(60));
            return Ok(RecoveryAnswer::from(Decision::Defer { until })
                .because("the server may be back soon"));
        }
        Ok(RecoveryAnswer::from(Decision::Suspend).because("it failed twice"))
    }
}

async fn order() -> anyhow::Result<()> {
    let relight = Relight::builder("sqlite:state/relight.db")
        .strategy("patient", Patient)
        .default_strategy("patient")
        .policy(TaskPolicy {
            cost_micros_max: Some(5_000_000),
            ..TaskPolicy::default()
        })
        .open()
        .await?;

    let order = "two books".to_owned();
    // the library: Rust here, and Python and TypeScript alike
    let task = relight.task("order-7")?.start().await?;
    let payment = task.step("charge", || charge(&order)).await?;
    task.step("ship", || ship(&order, &payment)).await?;

    let id: u64 = task
        .plan("create invoice")?
        .run_or_verify(
            |step| async move { find_invoice(&step.idempotency_key).await },
            |step| async move { create_invoice(&step.idempotency_key).await },
        )
        .await?;
    println!("invoice {id}");
    task.done().await?;
    Ok(())
}

async fn mailer() -> anyhow::Result<()> {
    let relight = Relight::open("sqlite:state/relight.db").await?;
    relight
        .task("mail-ann")?
        .payload(json!({"to": "ann"}))
        .priority(5)
        .add()
        .await?;

    relight
        .worker("mailer")?
        .at_once(4)
        .until(async {
            tokio::signal::ctrl_c().await.ok();
        })
        .run(|task| async move {
            let to = task.payload().expect("every mail has one")["to"].clone();
            task.step("send", || send(&to)).await?;
            task.spend(Usage {
                cost_micros: 1_200,
                turns: 1,
                ..Usage::default()
            })
            .await?;
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    Ok(())
}

async fn gateway() -> anyhow::Result<()> {
    let relight = Relight::open("sqlite:state/relight.db").await?;
    let rules = Rules {
        policy: Policy::ResumePending,
        ..Rules::default()
    };
    for cut_off in relight.recover_sessions(&rules).await? {
        // Notify them, or run the turn again: the id and the context are there.
        println!(
            "{} ({}): {:?}",
            cut_off.key, cut_off.session_id, cut_off.reason
        );
    }

    let turn = relight
        .session("telegram:dm:42")?
        .set("model", "opus")
        .begin("conversation-7")
        .await?;
    let answer = ask_the_model().await; // if killed here, the next start finds it
    turn.end().await?; // on disk before it returns

    relight.shutdown_sessions().await?; // a clean stop
    println!("{answer}");
    Ok(())
}

async fn charge(order: &str) -> Result<String, Error> {
    Ok(format!("payment for {order}"))
}

async fn ship(order: &str, payment: &str) -> Result<(), Error> {
    println!("shipping {order} after the {payment}");
    Ok(())
}

async fn find_invoice(_key: &str) -> Result<Option<u64>, Error> {
    Ok(None)
}

async fn create_invoice(_key: &str) -> Result<u64, Error> {
    Ok(7)
}

async fn send(to: &Value) -> Result<(), Error> {
    println!("sent to {to}");
    Ok(())
}

async fn ask_the_model() -> String {
    if std::env::args().any(|word| word == "--crash") {
        std::process::abort();
    }
    "an answer".to_owned()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("order") => order().await,
        Some("mailer") => mailer().await,
        Some("gateway") => gateway().await,
        _ => anyhow::bail!("guide order, guide mailer or guide gateway"),
    }
}
