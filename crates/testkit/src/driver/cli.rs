//! The driver that calls the CLI: `task start`, `step run` twenty times, `task done`.

use std::time::Duration;

use anyhow::Context as _;
use relight_core::step::RepeatRule;

use super::{COMPLETED, IN_DOUBT, KILLED, UNEXPECTED};
use crate::world::clock;
use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::product::Answer;
use crate::world::stage::Stage;

/// How often a step that is still being run is asked for again.
const WAITS_MAX: u32 = 1_000;

/// Works through the task from wherever it is.
pub fn run(stage: &Stage) -> anyhow::Result<u8> {
    let fence = match start(stage)? {
        Begun::Fence(fence) => fence,
        Begun::Ended(code) => return Ok(code),
    };
    for step in plan::step_names() {
        let answer = step_run(stage, &step, &fence)?;
        if answer.code != 0 {
            return Ok(ending(&format!("step run {step}"), &answer));
        }
        stage.ledger.append(
            &stage.task,
            &Entry::Ack {
                step,
                output: answer.stdout,
            },
        )?;
    }
    let answer = stage.product.call(
        &stage.home,
        &["task", "done", &stage.task, "--fence", &fence],
    )?;
    if answer.code != 0 {
        return Ok(ending("task done", &answer));
    }
    stage.ledger.append(&stage.task, &Entry::Done)?;
    Ok(COMPLETED)
}

enum Begun {
    Fence(String),
    Ended(u8),
}

fn start(stage: &Stage) -> anyhow::Result<Begun> {
    let pid = std::process::id().to_string();
    // However often it was killed: no limit of the task is part of this proof.
    let mut words = vec![
        "task",
        "start",
        &stage.task,
        "--owner-pid",
        &pid,
        "--force",
        "--json",
    ];
    let names: Vec<String> = plan::step_names().collect();
    words.extend(names.iter().flat_map(|name| ["--step", name]));
    let mut answer = stage.product.call(&stage.home, &words)?;
    // What an earlier life left running is waited for, as a script would.
    for _ in 0..WAITS_MAX {
        if answer.code != 75 || !answer.stderr.contains("still being run") {
            break;
        }
        clock::pause(Duration::from_millis(5));
        answer = stage.product.call(&stage.home, &words)?;
    }
    match answer.code {
        0 => {
            let fence = answer.json()?["fence"]
                .as_u64()
                .context("task start gives a fence")?;
            stage
                .ledger
                .append(&stage.task, &Entry::Started { fence })?;
            Ok(Begun::Fence(fence.to_string()))
        }
        1 => Ok(Begun::Ended(refused(stage, &answer)?)),
        _ => Ok(Begun::Ended(ending("task start", &answer))),
    }
}

/// A task that was completed in an earlier life cannot be started, and need not be.
fn refused(stage: &Stage, start: &Answer) -> anyhow::Result<u8> {
    let shown = stage
        .product
        .call(&stage.home, &["task", "show", &stage.task, "--json"])?;
    match shown.code {
        0 if shown.json()?["status"] == "completed" => Ok(COMPLETED),
        0 => Ok(ending("task start", start)),
        _ => Ok(ending("task show", &shown)),
    }
}

fn step_run(stage: &Stage, step: &str, fence: &str) -> anyhow::Result<Answer> {
    let rule = plan::rule_of(step);
    let driver = stage.product.driver.display().to_string();
    let ledger = stage.ledger.path().display().to_string();
    let question = format!("exec {driver} happened {ledger} {} {step}", stage.task);
    let mut words = vec![
        "step",
        "run",
        step,
        "--task",
        &stage.task,
        "--fence",
        fence,
        "--repeat",
        rule.as_str(),
    ];
    if rule == RepeatRule::Verify {
        words.extend(["--verify", &question]);
    }
    words.extend(["--", &driver, "effect", &ledger, &stage.task, step]);
    stage.product.call(&stage.home, &words)
}

/// A process killed under us, or a step in doubt, is no surprise here; anything else is.
pub(super) fn ending(verb: &str, answer: &Answer) -> u8 {
    match answer.code {
        137 => KILLED,
        75 if answer.stderr.contains("in doubt") => IN_DOUBT,
        code => {
            eprintln!("{verb}: exit {code}: {}", answer.stderr.trim());
            UNEXPECTED
        }
    }
}
