//! Finishing what runs and beginning nothing: before an upgrade, a reboot, a move.
//!
//! The mark is in the store, so it holds for every process and survives a restart of the daemon. One
//! from before a reboot does not count: whoever drained did it for that boot.

use relight_core::event::EventKind;
use relight_core::time::Time;
use relight_store::{Store, StoreError, StoreEvent};
use serde::{Deserialize, Serialize};

use crate::boxed::boxed;
use crate::os::{clock, process};

/// The name of the mark among the store's small records.
pub const NAME: &str = "drain";
/// How often a mark is written again because somebody else was faster.
const ROUNDS_MAX: usize = 100;

/// Nothing is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Since when.
    pub since: Time,
    /// In which boot of the machine.
    boot: String,
}

/// The mark, where one counts.
#[boxed]
pub async fn now(store: &dyn Store) -> Result<Option<Drain>, StoreError> {
    let kept = store.kept(NAME).await?;
    let drain: Option<Drain> = kept.and_then(|kept| serde_json::from_value(kept).ok());
    Ok(drain.filter(|drain| drain.boot == process::boot_id()))
}

/// Sets the mark; answers the one that counts.
#[boxed]
pub async fn begin(store: &dyn Store) -> Result<Drain, StoreError> {
    for _ in 0..ROUNDS_MAX {
        if let Some(drain) = now(store).await? {
            return Ok(drain);
        }
        let drain = Drain {
            since: clock::now(),
            boot: process::boot_id(),
        };
        let mark = serde_json::to_value(&drain).expect("a mark is plain JSON");
        let before = store.kept(NAME).await?;
        if store
            .keep_and_tell(NAME, before, mark, vec![told(true)])
            .await?
        {
            return Ok(drain);
        }
    }
    Err(busy())
}

/// Takes the mark away; whether there was one.
#[boxed]
pub async fn cancel(store: &dyn Store) -> Result<bool, StoreError> {
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(NAME).await?;
        if now(store).await?.is_none() {
            return Ok(false);
        }
        let told = vec![told(false)];
        if store
            .keep_and_tell(NAME, before, serde_json::Value::Null, told)
            .await?
        {
            return Ok(true);
        }
    }
    Err(busy())
}

/// Wakes whoever waits for work, or for its end.
fn told(draining: bool) -> StoreEvent {
    let detail = serde_json::json!({"draining": draining});
    StoreEvent {
        at: clock::now(),
        kind: EventKind::Drain,
        detail,
    }
}

fn busy() -> StoreError {
    StoreError::Busy {
        place: "the mark of draining".to_owned(),
    }
}
