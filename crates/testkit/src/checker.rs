//! Reads store and ledger after the fact and says which promises were broken.
//!
//! Knows nothing of how things were killed: it looks only at what is there.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use relight::Relight;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{StepName, TaskId};
use relight_core::step::{RepeatRule, StepKey};
use relight_store::EventQuery;
use serde_json::Value;

use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Violation};

/// More events than any trial makes.
const EVENTS_MAX: usize = 100_000;

/// What must hold after every kill: all that was acknowledged is there, nothing finished ran again.
pub fn check_running(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let entries = stage.ledger.entries(&stage.task)?;
    let mut found = check_ledger(&entries);
    let shown = match stage.task_shown() {
        Ok(shown) => shown,
        Err(error) => {
            found.push(Violation::new(Promise::Damage, format!("{error:#}")));
            return Ok(found);
        }
    };
    let started = entries.iter().any(|entry| matches!(entry, Entry::Started { .. }));
    let Some(task) = shown else {
        if started {
            found.push(Violation::new(Promise::Lost, "the task was started and is not there"));
        }
        return Ok(found);
    };
    found.extend(check_acks(&entries, &task));
    Ok(found)
}

/// What must hold once the driver said that the task is completed.
pub fn check_completed(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let mut found = check_running(stage)?;
    let entries = stage.ledger.entries(&stage.task)?;
    let shown = stage.task_shown()?.context("the task is there")?;
    if shown["status"] != "completed" {
        found.push(Violation::new(Promise::Lost, format!("status {}", shown["status"])));
    }
    for step in plan::step_names() {
        let effects = effects_of(&entries, &step).count();
        let wanted = match plan::rule_of(&step) {
            RepeatRule::Once | RepeatRule::Verify => effects == 1,
            RepeatRule::Keyed | RepeatRule::Repeatable => effects >= 1,
        };
        if !wanted {
            found.push(Violation::new(Promise::Rule, format!("{step} acted {effects} times")));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    found.extend(runtime.block_on(check_store(stage, &entries))?);
    Ok(found)
}

/// What the ledger alone shows.
fn check_ledger(entries: &[Entry]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut acked: BTreeMap<&str, &str> = BTreeMap::new();
    let mut keys: BTreeMap<&str, &str> = BTreeMap::new();
    let mut once: BTreeSet<&str> = BTreeSet::new();
    let mut newest_fence = 0;
    for entry in entries {
        match entry {
            Entry::Effect { step, key, .. } => {
                if acked.contains_key(step.as_str()) {
                    let text = format!("{step} acted after its end was acknowledged");
                    found.push(Violation::new(Promise::Repeated, text));
                }
                if *keys.entry(step).or_insert(key) != key || key.is_empty() {
                    found.push(Violation::new(Promise::Rule, format!("{step} got another key")));
                }
                let single = matches!(plan::rule_of(step), RepeatRule::Once | RepeatRule::Verify);
                if single && !once.insert(step) {
                    found.push(Violation::new(Promise::Rule, format!("{step} acted twice")));
                }
            }
            Entry::Ack { step, output } => {
                if *acked.entry(step).or_insert(output) != output {
                    let text = format!("{step} gave another output when it was asked again");
                    found.push(Violation::new(Promise::Lost, text));
                }
            }
            Entry::Started { fence } => {
                if *fence <= newest_fence {
                    let text = format!("fence {fence} was given after {newest_fence}");
                    found.push(Violation::new(Promise::Fence, text));
                }
                newest_fence = *fence;
            }
            Entry::Done => {}
        }
    }
    found
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
                let text =
                    format!("{step} was acknowledged and is {:?}", states.get(step.as_str()));
                found.push(Violation::new(Promise::Lost, text));
            }
            Entry::Done if task["status"] != "completed" => {
                let text = format!("its end was acknowledged and it is {}", task["status"]);
                found.push(Violation::new(Promise::Lost, text));
            }
            _ => {}
        }
    }
    found
}

/// Outputs, events and the pages themselves.
async fn check_store(stage: &Stage, entries: &[Entry]) -> anyhow::Result<Vec<Violation>> {
    let relight = Relight::open(&stage.store_url()).await?;
    let store = relight.engine().store();
    let task = TaskId::new(&stage.task)?;
    let mut found = Vec::new();
    for entry in entries {
        let Entry::Ack { step, output } = entry else { continue };
        let recorded = store.output(&task, &StepKey::first(StepName::new(step)?)).await?;
        let recorded = recorded.map(|output| output.body).unwrap_or_default();
        if text_of(&recorded) != *output {
            let text = format!("{step} gave {output:?}, recorded is {:?}", text_of(&recorded));
            found.push(Violation::new(Promise::Lost, text));
        }
        let acted = effects_of(entries, step).any(|token| token == output);
        if !output.is_empty() && !acted {
            let text = format!("{step} gave {output:?}, which no effect gave");
            found.push(Violation::new(Promise::Lost, text));
        }
    }
    let query =
        EventQuery { after: 0, task: Some(task), kinds: vec![], limit: EVENTS_MAX, newest: false };
    found.extend(check_events(&store.events(query).await?));
    for damage in store.inventory(true).await?.damage {
        found.push(Violation::new(Promise::Damage, damage));
    }
    Ok(found)
}

/// Each step ended well exactly once, and so did the task.
fn check_events(events: &[Event]) -> Vec<Violation> {
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    let mut completed = 0;
    for event in events {
        let well = match event.kind {
            EventKind::StepDone => true,
            EventKind::StepResolved => event.detail["happened"] == true,
            _ => false,
        };
        if let (true, Some(step)) = (well, &event.step) {
            *ends.entry(step.to_string()).or_default() += 1;
        }
        completed +=
            u32::from(event.kind == EventKind::TaskStatus && event.detail["to"] == "completed");
    }
    let mut found = Vec::new();
    for step in plan::step_names() {
        let count = ends.get(&step).copied().unwrap_or_default();
        if count != 1 {
            let text = format!("{step} has {count} events of its end");
            found.push(Violation::new(Promise::Repeated, text));
        }
    }
    if completed != 1 {
        let text = format!("the task has {completed} events of its completion");
        found.push(Violation::new(Promise::Repeated, text));
    }
    found
}

fn effects_of<'a>(entries: &'a [Entry], step: &'a str) -> impl Iterator<Item = &'a str> {
    entries.iter().filter_map(move |entry| match entry {
        Entry::Effect { step: found, token, .. } if found == step => Some(token.as_str()),
        _ => None,
    })
}

/// What a command printed, or the library's value, as the ledger writes it.
fn text_of(body: &[u8]) -> String {
    match serde_json::from_slice::<Option<String>>(body) {
        Ok(value) => value.unwrap_or_default(),
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}
