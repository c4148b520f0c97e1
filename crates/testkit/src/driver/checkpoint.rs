//! The driver that speaks the checkpoint dialect: `resume` (or `start`), `update` for each step,
//! `complete`.

use anyhow::Context as _;

use super::{COMPLETED, cli::ending};
use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::product::Answer;
use crate::world::stage::Stage;

/// Works through the workflow from wherever it is.
pub fn run(stage: &Stage) -> anyhow::Result<u8> {
    let mut answer = resume(stage)?;
    if answer.code == 1 {
        let started = start(stage)?;
        if started.code != 0 {
            return Ok(ending("checkpoint start", &started));
        }
        if started.json()?["outcome"] == "completed" {
            return Ok(COMPLETED);
        }
        answer = resume(stage)?;
    }
    if answer.code != 0 {
        return Ok(ending("checkpoint resume", &answer));
    }
    let resumed = answer.json()?;
    let fence = resumed["fence"].as_u64().context("resume gives a fence")?;
    stage
        .ledger
        .append(&stage.task, &Entry::Started { fence })?;
    let done = resumed["done_steps"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    work(stage, &done, &fence.to_string())
}

fn work(stage: &Stage, done: &[serde_json::Value], fence: &str) -> anyhow::Result<u8> {
    let names: Vec<String> = plan::step_names().collect();
    for (at, step) in names.iter().enumerate() {
        if done.iter().any(|finished| finished == step) {
            continue;
        }
        let mut words = vec!["update", "--workflow", &stage.task, "--fence", fence];
        words.extend(["--complete", step]);
        words.extend(
            names
                .get(at + 1)
                .into_iter()
                .flat_map(|next| ["--step", next]),
        );
        let answer = call(stage, &words)?;
        if answer.code != 0 {
            return Ok(ending("checkpoint update", &answer));
        }
        let ack = Entry::Ack {
            step: step.clone(),
            output: String::new(),
        };
        stage.ledger.append(&stage.task, &ack)?;
    }
    let answer = call(
        stage,
        &["complete", "--workflow", &stage.task, "--fence", fence],
    )?;
    if answer.code != 0 {
        return Ok(ending("checkpoint complete", &answer));
    }
    stage.ledger.append(&stage.task, &Entry::Done)?;
    Ok(COMPLETED)
}

fn resume(stage: &Stage) -> anyhow::Result<Answer> {
    let pid = std::process::id().to_string();
    // However often it was killed: no limit of the task is part of this proof.
    call(
        stage,
        &[
            "resume",
            "--workflow",
            &stage.task,
            "--owner-pid",
            &pid,
            "--force",
        ],
    )
}

fn start(stage: &Stage) -> anyhow::Result<Answer> {
    let names: Vec<String> = plan::step_names().collect();
    let mut words = vec![
        "start",
        "--workflow",
        &stage.task,
        "--agent",
        "prover",
        "--json",
    ];
    words.extend([
        "--idempotency",
        &stage.task,
        "--step",
        &names[0],
        "--remaining",
    ]);
    words.extend(names.iter().skip(1).map(String::as_str));
    call(stage, &words)
}

fn call(stage: &Stage, words: &[&str]) -> anyhow::Result<Answer> {
    let folder = stage.checkpoints.display().to_string();
    let mut all = vec!["checkpoint"];
    all.extend(words);
    all.extend(["--dir", &folder]);
    stage.product.call(&stage.home, &all)
}
