//! The program of `docs/guides/rust-library.md`: `report --crash` is ended in the middle, `report` continues.

use relight::{Relight, RepeatRule};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Report {
    title: String,
    words: usize,
}

async fn fetch() -> Result<String, std::io::Error> {
    println!("fetching");
    Ok("one two three".to_owned())
}

async fn publish(report: &Report, key: &str) -> Result<(), std::io::Error> {
    println!("publishing {:?} with key {key}", report.title);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let relight = Relight::open("sqlite:state/relight.db").await?;
    let task = relight
        .task("report-7")?
        .title("Weekly report")
        .start()
        .await?;
    if task.resumed() {
        println!("resuming; done so far: {:?}", task.progress().done_steps);
    }

    // Runs once. After a crash its value comes from the store.
    let text: String = task.step("fetch", fetch).await?;

    // A value of any type that serde can write and read.
    let report: Report = task
        .step("count", || async {
            let report = Report {
                title: "Week 18".into(),
                words: text.split(' ').count(),
            };
            Ok::<_, std::io::Error>(report)
        })
        .await?;

    if std::env::args().any(|word| word == "--crash") {
        std::process::abort();
    }

    // With its own rule, an input that must not change, and the key for the other side.
    task.plan("publish")?
        .rule(RepeatRule::Once)
        .input(&report)
        .run(|step| {
            let report = &report;
            async move { publish(report, &step.idempotency_key).await }
        })
        .await?;

    task.set("stage", "published").await?;
    task.done().await?;
    Ok(())
}
