//! How long steps took, from the journal.

use std::collections::HashMap;

use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::step::StepKey;
use relight_core::time::{Span, Time};
use relight_store::{EventQuery, StoreError};
use serde::Serialize;

use super::Context;

use crate::boxed::boxed;

/// So many records of a task are looked through, the newest.
const EVENTS_MAX: usize = 20_000;

/// The newest try of a step. The begin of one that ended before it had to be on disk is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StepTime {
    /// When it began.
    pub begun_at: Option<Time>,
    /// When it ended; none while it runs, or is in doubt.
    pub ended_at: Option<Time>,
}

impl StepTime {
    /// How long it took.
    pub fn took(&self) -> Option<Span> {
        Some(self.ended_at?.since(self.begun_at?))
    }
}

impl Context {
    /// When the steps of a task began and ended.
    #[boxed]
    pub async fn step_times(
        &self,
        task: &TaskId,
    ) -> Result<HashMap<StepKey, StepTime>, StoreError> {
        let query = EventQuery {
            after: 0,
            before: None,
            task: Some(task.clone()),
            agent: None,
            kinds: vec![
                EventKind::StepBegun,
                EventKind::StepDone,
                EventKind::StepFailed,
            ],
            limit: EVENTS_MAX,
            newest: true,
        };
        let mut times: HashMap<StepKey, StepTime> = HashMap::new();
        for event in self.engine.store().events(query).await? {
            let Some(step) = event.step else { continue };
            let time = times.entry(step).or_default();
            match event.kind {
                EventKind::StepBegun => {
                    *time = StepTime {
                        begun_at: Some(event.at),
                        ended_at: None,
                    }
                }
                // A second end has no begin of its own.
                _ if time.ended_at.is_some() => {
                    *time = StepTime {
                        begun_at: None,
                        ended_at: Some(event.at),
                    }
                }
                _ => time.ended_at = Some(event.at),
            }
        }
        Ok(times)
    }
}
