//! Detects stale unfinished work, once per episode, while a daemon runs.
//!
//! Wakes only when the next task would become stale: activity only moves that time later, and a
//! task added later is due later.

use std::collections::HashMap;
use std::time::Duration;

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::decide::{Right, TaskEvent};
use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::time::{Span, Time};
use relight_store::TaskGlance;
use serde_json::json;
use tokio::time::sleep;

use super::dedup;
use crate::boxed::boxed;
use crate::engine::{ActError, Engine};
use crate::os::clock;
use crate::stale_check;

/// Alerts that already say that a task waits.
const TOLD_OTHERWISE: [AlertKind; 5] = [
    AlertKind::Stale,
    AlertKind::Blocked,
    AlertKind::Parked,
    AlertKind::GivenUp,
    AlertKind::Suspended,
];
/// The minimum pause between two checks is this fraction of the limit.
const LOOKS_MAX: u64 = 20;
/// Pause after the store failed.
const TROUBLE_PAUSE: Duration = Duration::from_secs(30);

/// Watches for stale work.
#[derive(Debug)]
pub struct StaleWatch {
    engine: Engine,
    stale: Span,
    /// Tasks already reported, with their last activity.
    told: HashMap<TaskId, Time>,
}

impl StaleWatch {
    /// Work is stale after this time without activity.
    pub fn new(engine: Engine, stale: Span) -> Self {
        Self {
            engine,
            stale,
            told: HashMap::new(),
        }
    }

    /// Watches for as long as it is polled.
    #[boxed]
    pub async fn serve(mut self) {
        let at_least = Span::from_ms(self.stale.as_ms() / LOOKS_MAX).max(Span::from_secs(1));
        loop {
            let pause = match self.look(clock::now()).await {
                Ok(next) => next.max(at_least).as_duration(),
                Err(_) => TROUBLE_PAUSE,
            };
            sleep(pause).await;
        }
    }

    /// Writes an alert for each stale task not yet reported. Returns the time of the next check.
    #[boxed]
    pub async fn look(&mut self, now: Time) -> Result<Span, ActError> {
        let tasks = self.engine.store().unfinished().await?;
        let mut next = self.stale;
        let mut told = HashMap::new();
        for task in &tasks {
            match stale_check::stale_in(task, self.stale, now) {
                Some(Span::ZERO) => {
                    if self.told.get(&task.id) != Some(&task.updated_at) {
                        self.note(task, now).await?;
                    }
                    told.insert(task.id.clone(), task.updated_at);
                }
                Some(wait) => next = next.min(wait),
                None => {}
            }
        }
        self.told = told;
        Ok(next)
    }

    async fn note(&self, task: &TaskGlance, now: Time) -> Result<(), ActError> {
        let alert = alert(task, now.since(task.updated_at));
        for kind in TOLD_OTHERWISE {
            let of_kind = Alert {
                kind,
                ..alert.clone()
            };
            if dedup::is_told(self.engine.store().as_ref(), &of_kind).await? {
                return Ok(());
            }
        }
        let event = TaskEvent::Note(EventKind::Alert, alert.detail());
        match self.engine.act(&task.id, Right::Unfenced, event).await {
            // It was resumed or removed meanwhile.
            Ok(_) | Err(ActError::NoSuchTask(_) | ActError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn alert(task: &TaskGlance, age: Span) -> Alert {
    let (id, status): (&TaskId, _) = (&task.id, task.status);
    let whose = task
        .agent
        .as_ref()
        .map(|agent| format!(" of {agent}"))
        .unwrap_or_default();
    let text = format!("task {id}{whose} is {status} and was not touched for {age}");
    Alert::new(AlertKind::Stale, Subject::Task(id.clone()), text)
        .hint(format!("relight task show {id}"))
        .more(json!({"status": status, "agent": task.agent, "age_ms": age.as_ms()}))
}
