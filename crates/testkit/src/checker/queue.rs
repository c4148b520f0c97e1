//! A queue that was worked through under kills: nothing lost, nothing done twice, every count right.

use std::collections::{BTreeMap, BTreeSet};

use relight_core::event::{Event, EventKind};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_runtime::EngineAccess as _;
use relight_runtime::Relight;
use relight_store::{EventQuery, TaskQuery};

use crate::world::ledger::{Entry, Ledger};
use crate::world::queue_plan::{self, Fate, STEPS};
use crate::world::tally::{Promise, Violation};

/// Events that are read at a time.
const EVENTS_PAGE: usize = 10_000;

/// Whether every task has come to its end.
pub async fn is_over(relight: &Relight, tasks: usize) -> anyhow::Result<bool> {
    let store = relight.engine().store();
    let open = store.unfinished().await?;
    let mut open = open
        .iter()
        .filter(|task| queue_plan::is_of(task.id.as_str()));
    if open.any(|task| task.status != TaskStatus::Failed) {
        return Ok(false);
    }
    let statuses = vec![TaskStatus::Failed];
    let mut failed = store
        .tasks(TaskQuery {
            statuses,
            ..TaskQuery::default()
        })
        .await?;
    failed.retain(|task| queue_plan::is_of(task.id.as_str()));
    Ok(failed.len() < tasks && failed.iter().all(|task| !task.has_retry_left()))
}

/// Everything that must hold at the end; `frozen` are the processes that may have acted late.
pub async fn check(
    relight: &Relight,
    tasks: usize,
    ledger: &Ledger,
    frozen: &BTreeSet<String>,
) -> anyhow::Result<Vec<Violation>> {
    let store = relight.engine().store();
    let mut by_task: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    let mut after = 0;
    loop {
        let (task, agent, kinds) = (None, None, vec![]);
        let limit = EVENTS_PAGE;
        let query = EventQuery {
            after,
            before: None,
            task,
            agent,
            kinds,
            limit,
            newest: false,
        };
        let page = store.events(query).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for event in page {
            let task = event
                .task
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            by_task.entry(task).or_default().push(event);
        }
    }
    let mut entries = ledger.by_task()?;
    let mut found_tasks = store.tasks(TaskQuery::default()).await?;
    found_tasks.retain(|task| queue_plan::is_of(task.id.as_str()));
    let mut found = Vec::new();
    if found_tasks.len() != tasks {
        let text = format!("{} tasks of {tasks} are there", found_tasks.len());
        found.push(Violation::new(Promise::Lost, text));
    }
    for task in &found_tasks {
        let id = task.id.as_str();
        let events = by_task.remove(id).unwrap_or_default();
        let entries = entries.remove(id).unwrap_or_default();
        let broken = [
            check_end(task),
            check_counts(task, &events),
            check_writes(&events),
            check_effects(task, &entries, frozen),
        ];
        let named = |mut violation: Violation| {
            violation.text = format!("{id}: {}", violation.text);
            violation
        };
        found.extend(broken.into_iter().flatten().map(named));
    }
    Ok(found)
}

/// It ended as it had to, and nobody holds it.
fn check_end(task: &Task) -> Vec<Violation> {
    let wanted = match queue_plan::fate(task.id.as_str()) {
        Fate::Completes { .. } => TaskStatus::Completed,
        Fate::Fails { .. } | Fate::Panics { .. } => TaskStatus::Failed,
    };
    let mut found = Vec::new();
    if task.status != wanted {
        let text = format!("it is {} and not {wanted}", task.status);
        found.push(Violation::new(Promise::Lost, text));
    }
    if let Some(held) = &task.lease.held {
        let text = format!("it is over and held by {}", held.holder);
        found.push(Violation::new(Promise::Record, text));
    }
    found
}

/// Every start but the first follows one decision, or somebody who gave it back; every decision to reassign but the last of a
/// failed task is one retry.
fn check_counts(task: &Task, events: &[Event]) -> Vec<Violation> {
    let count = |kind: EventKind, field: &str, word: &str| {
        let is_so = |event: &&Event| event.kind == kind && event.detail[field] == word;
        events.iter().filter(is_so).count() as u32
    };
    let resumed = count(EventKind::TaskRecovery, "outcome", "resume");
    let reassigned = count(EventKind::TaskRecovery, "outcome", "reassign");
    let used_up = count(EventKind::TaskRecovery, "outcome", "retries_used_up");
    let completed = count(EventKind::TaskStatus, "to", "completed");
    // By a worker that ended, or by a person who resolved a step that was parked.
    let given_back = count(EventKind::TaskStatus, "reason", "its handle was dropped")
        + events
            .iter()
            .filter(|event| event.kind == EventKind::StepResolved)
            .count() as u32;
    let fate = queue_plan::fate(task.id.as_str());
    let is_completed = matches!(fate, Fate::Completes { .. });
    let mut found = Vec::new();
    let mut expect = |what: &str, is: u32, wanted: u32| {
        if is != wanted {
            let text = format!("{what}: {is} instead of {wanted}");
            found.push(Violation::new(Promise::Record, text));
        }
    };
    expect(
        "events of its completion",
        completed,
        u32::from(is_completed),
    );
    expect(
        "decisions that no retry was left",
        used_up,
        u32::from(!is_completed),
    );
    expect("retries", task.retries, reassigned);
    expect("starts", task.starts, 1 + resumed + reassigned + given_back);
    if !is_completed {
        expect(
            "retries of one that fails",
            task.retries,
            fate.max_retries(),
        );
    }
    if fate == (Fate::Completes { resumes: true }) {
        expect("retries of one that is resumed", task.retries, 0);
    }
    found
}

/// Each step ended well once, and every write came under the newest fence.
pub(super) fn check_writes(events: &[Event]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut newest = 0;
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for event in events {
        if let Some(fence) = event.fence.filter(|fence| fence.0 != newest) {
            let text = format!(
                "{} came under fence {fence}, the newest was {newest}",
                event.kind.as_str()
            );
            found.push(Violation::new(Promise::Fence, text));
        }
        newest += u64::from(matches!(
            event.kind,
            EventKind::LeaseTaken | EventKind::FenceRaised
        ));
        if let (EventKind::StepDone, Some(step)) = (event.kind, &event.step) {
            *ends.entry(step.to_string()).or_default() += 1;
        }
    }
    for (step, count) in ends.into_iter().filter(|(_, count)| *count != 1) {
        let text = format!("{step} has {count} events of its end");
        found.push(Violation::new(Promise::Repeated, text));
    }
    found
}

/// One key for each step, and nothing after its end was acknowledged; where a process was frozen, it
/// may have acted late, with the same key.
fn check_effects(task: &Task, entries: &[Entry], frozen: &BTreeSet<String>) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_completed = task.status == TaskStatus::Completed;
    for wanted in STEPS {
        let mut keys = BTreeSet::new();
        let mut acked = false;
        for entry in entries {
            match entry {
                Entry::Effect { step, key, token } if step == wanted => {
                    keys.insert(key);
                    if acked && !frozen.contains(token) {
                        let text = format!("{step} acted after its end was acknowledged");
                        found.push(Violation::new(Promise::Repeated, text));
                    }
                }
                Entry::Ack { step, .. } if step == wanted => acked = true,
                _ => {}
            }
        }
        if keys.len() > 1 || (is_completed && keys.is_empty()) {
            let text = format!("{wanted} acted under {} keys", keys.len());
            found.push(Violation::new(Promise::Repeated, text));
        }
    }
    found
}
