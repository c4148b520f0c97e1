//! Keeps in the journal that somebody was refused at the door: one event for the first, then one a
//! minute at most with the counts, so that whoever knocks cannot fill the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relight_core::event::EventKind;
use relight_runtime::os::clock;
use relight_store::{Store, StoreError, StoreEvent};
use serde_json::json;

use crate::backend::Backend;
use crate::error::ApiError;

/// Events come at least so far apart.
const PAUSE: Duration = Duration::from_secs(60);
/// The name of the count among the store's small records.
const NAME: &str = "audit";
/// How often the count is written again because somebody else was faster.
const ROUNDS_MAX: usize = 10;

/// Refusals that are not in the journal yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audit(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    counts: BTreeMap<&'static str, u64>,
    /// Somebody writes them down already.
    is_being_told: bool,
}

impl Audit {
    /// Somebody was refused. One who showed nothing at all has not tried.
    pub(crate) fn refused(&self, backend: &Backend, error: &ApiError) {
        let is_worth_it = match error.code.name {
            "forbidden" | "rate_limited" => true,
            "unauthorized" => error.message != "a token is needed here",
            _ => false,
        };
        if !is_worth_it {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting.counts.entry(error.code.name).or_default() += 1;
        if !std::mem::replace(&mut waiting.is_being_told, true) {
            tokio::spawn(self.clone().tell(backend.clone()));
        }
    }

    fn take(&self) -> BTreeMap<&'static str, u64> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_being_told = !waiting.counts.is_empty();
        std::mem::take(&mut waiting.counts)
    }

    async fn tell(self, backend: Backend) {
        loop {
            let counts = self.take();
            if counts.is_empty() {
                return;
            }
            if let Err(error) = write(backend.engine.store().as_ref(), &counts).await {
                (backend.complain)(&format!("refusals cannot be kept: {error}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn write(store: &dyn Store, counts: &BTreeMap<&'static str, u64>) -> Result<(), StoreError> {
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(NAME).await?;
        let so_far = before
            .as_ref()
            .and_then(|kept| kept["refused"].as_u64())
            .unwrap_or(0);
        let now = json!({"refused": so_far + counts.values().sum::<u64>()});
        let detail = json!({"what": "refused at the daemon's door", "counts": counts});
        let told = vec![StoreEvent {
            at: clock::now(),
            kind: EventKind::Audit,
            detail,
        }];
        if store.keep_and_tell(NAME, before, now, told).await? {
            return Ok(());
        }
    }
    Ok(())
}
