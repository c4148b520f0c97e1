//! Reads store, files and ledger after the fact and says which promises were broken.
//!
//! Knows nothing of how things were killed: it looks only at what is there.

mod events;
mod files;
pub mod fleet;
mod history;
pub mod queue;
pub mod supervision;

use std::collections::BTreeMap;

use anyhow::Context as _;
use relight_core::ids::{StepName, TaskId};
use relight_core::step::{RepeatRule, StepKey};
use relight_runtime::EngineAccess as _;
use relight_runtime::Relight;
use serde_json::Value;

use crate::driver::DriverKind;
use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Violation};

pub use files::{check_file, check_files_whole};

/// What must hold after every kill: all that was acknowledged is there, nothing finished ran again.
pub fn check_running(stage: &Stage, kind: DriverKind) -> anyhow::Result<Vec<Violation>> {
    let entries = stage.ledger.entries(&stage.task)?;
    let mut found = match kind {
        DriverKind::Cli | DriverKind::Library | DriverKind::Python | DriverKind::Node => Vec::new(),
        DriverKind::Checkpoint => files::check_acks(stage, &entries)?,
    };
    let task = match stage.task_shown() {
        Ok(Some(task)) => task,
        Ok(None) if entries.is_empty() => return Ok(found),
        Ok(None) => {
            found.push(Violation::new(
                Promise::Lost,
                "the task was started and is not there",
            ));
            return Ok(found);
        }
        Err(error) => {
            found.push(Violation::new(Promise::Damage, format!("{error:#}")));
            return Ok(found);
        }
    };
    found.extend(check_told(&entries, &task));
    Ok(found)
}

/// What drivers were told against the task as the CLI shows it.
pub fn check_told(entries: &[Entry], task: &Value) -> Vec<Violation> {
    let mut found = history::check(entries);
    found.extend(check_acks(entries, task));
    found
}

/// What must hold once the driver said that the task is completed.
pub fn check_completed(stage: &Stage, kind: DriverKind) -> anyhow::Result<Vec<Violation>> {
    let mut found = check_running(stage, kind)?;
    let entries = stage.ledger.entries(&stage.task)?;
    let shown = stage.task_shown()?.context("the task is there")?;
    if shown["status"] != "completed" {
        found.push(Violation::new(
            Promise::Lost,
            format!("status {}", shown["status"]),
        ));
    }
    match kind {
        DriverKind::Cli | DriverKind::Library | DriverKind::Python | DriverKind::Node => {
            found.extend(check_effects(&entries));
        }
        DriverKind::Checkpoint => found.extend(files::check_end(stage, &entries)?),
    }
    found.extend(check_recorded(stage, &entries)?);
    Ok(found)
}

/// Outputs, events and pages of a completed task against what drivers were told.
pub fn check_recorded(stage: &Stage, entries: &[Entry]) -> anyhow::Result<Vec<Violation>> {
    let mut found = block_on(check_store(stage, entries))?;
    found.extend(check_pages(stage)?);
    Ok(found)
}

/// Every page of the store.
pub fn check_pages(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let damage = block_on(async {
        let relight = Relight::open(&stage.store_url()).await?;
        Ok(relight.engine().store().inventory(true).await?.damage)
    });
    Ok(match damage {
        Ok(damage) => damage
            .iter()
            .map(|text| Violation::new(Promise::Damage, text))
            .collect(),
        Err(error) => vec![Violation::new(Promise::Damage, format!("{error:#}"))],
    })
}

/// Every acknowledged step is done in what the CLI shows, and the task's end too.
fn check_acks(entries: &[Entry], task: &Value) -> Vec<Violation> {
    let states: BTreeMap<&str, &Value> = task["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| Some((step["name"].as_str()?, &step["state"])))
        .collect();
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Entry::Ack { step, .. } if states.get(step.as_str()).is_none_or(|s| *s != "done") => {
                let state = states.get(step.as_str());
                let text = format!("{step} was acknowledged and is {state:?}");
                found.push(Violation::new(Promise::Lost, text));
            }
            Entry::Done if task["status"] != "completed" => {
                let text = format!("its end was acknowledged and it is {}", task["status"]);
                found.push(Violation::new(Promise::Lost, text));
            }
            Entry::Started { fence } if task["fence"].as_u64() < Some(*fence) => {
                let text = format!("fence {fence} was given and it is at {}", task["fence"]);
                found.push(Violation::new(Promise::Lost, text));
            }
            _ => {}
        }
    }
    found
}

/// Each step acted as often as its rule allows.
fn check_effects(entries: &[Entry]) -> Vec<Violation> {
    let mut found = Vec::new();
    for step in plan::step_names() {
        let effects = history::effects_of(entries, &step).count();
        let right = match plan::rule_of(&step) {
            RepeatRule::Once | RepeatRule::Verify => effects == 1,
            RepeatRule::Keyed | RepeatRule::Repeatable => effects >= 1,
        };
        if !right {
            found.push(Violation::new(
                Promise::Rule,
                format!("{step} acted {effects} times"),
            ));
        }
    }
    found
}

/// Outputs and events, as the library gives them.
async fn check_store(stage: &Stage, entries: &[Entry]) -> anyhow::Result<Vec<Violation>> {
    let relight = Relight::open(&stage.store_url()).await?;
    let store = relight.engine().store();
    let task = TaskId::new(&stage.task)?;
    let mut found = Vec::new();
    for entry in entries {
        let Entry::Ack { step, output } = entry else {
            continue;
        };
        let recorded = store
            .output(&task, &StepKey::first(StepName::new(step)?))
            .await?;
        let recorded = text_of(&recorded.map(|output| output.body).unwrap_or_default());
        let acted = history::effects_of(entries, step).any(|token| token == output);
        if recorded != *output || !(acted || output.is_empty()) {
            let text = format!("{step} gave {output:?}, recorded is {recorded:?}");
            found.push(Violation::new(Promise::Lost, text));
        }
    }
    found.extend(events::check(store, task).await?);
    Ok(found)
}

/// What a command printed, or the library's value, as the ledger writes it.
fn text_of(body: &[u8]) -> String {
    match serde_json::from_slice::<Option<String>>(body) {
        Ok(value) => value.unwrap_or_default(),
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
