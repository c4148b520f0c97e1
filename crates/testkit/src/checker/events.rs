//! What the store's own record of events shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_store::{EventQuery, Store};

use crate::world::plan;
use crate::world::tally::{Promise, Violation};

/// More events than any trial makes.
const EVENTS_MAX: usize = 100_000;

/// Each step of a completed task ended well exactly once, and so did the task.
pub(super) async fn check(store: &Arc<dyn Store>, task: TaskId) -> anyhow::Result<Vec<Violation>> {
    let query = EventQuery {
        after: 0,
        before: None,
        task: Some(task),
        agent: None,
        kinds: vec![],
        limit: EVENTS_MAX,
        newest: false,
    };
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    let mut completed = 0;
    for event in store.events(query).await? {
        let well = match event.kind {
            EventKind::StepDone => true,
            EventKind::StepResolved => event.detail["happened"] == true,
            _ => false,
        };
        if let (true, Some(step)) = (well, &event.step) {
            *ends.entry(step.to_string()).or_default() += 1;
        }
        let end = event.kind == EventKind::TaskStatus && event.detail["to"] == "completed";
        completed += u32::from(end);
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
    Ok(found)
}
