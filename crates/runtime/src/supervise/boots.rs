//! Stores the machine's boot history, for boot loop detection.

use std::time::Duration;

use relight_core::agent::boots::{self, BootHistory, BootVerdict, KEPT_NAME};
use relight_core::alert::Alert;
use relight_core::event::EventKind;
use relight_store::{Store, StoreError, StoreEvent};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::boxed::boxed;
use crate::os::{clock, fleet};

/// How long it may take to find out whether the store can be written.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// Maximum number of retries on conflicts.
const ROUNDS_MAX: usize = 100;

/// Records a daemon's start and returns whether it may resume work. A person can reset the history.
/// When a boot loop is detected, an alert is sent once per boot.
pub async fn at_start(
    store: &dyn Store,
    boot_id: &str,
    resumes: bool,
    forgive: bool,
) -> Result<BootVerdict, StoreError> {
    let mut verdict = BootVerdict::Resume;
    change_and_tell(store, |history| {
        let history = if forgive {
            boots::forgive(history, boot_id)
        } else {
            history
        };
        let was_held_back = boots::is_held_back(&history, boot_id);
        let (history, judged) = boots::at_start(history, boot_id, resumes);
        verdict = judged;
        let told = match judged {
            BootVerdict::HoldBack { boots } if !was_held_back => told_of_loop(boots, boot_id),
            BootVerdict::HoldBack { .. } | BootVerdict::Resume => Vec::new(),
        };
        (history, told)
    })
    .await?;
    Ok(verdict)
}

fn told_of_loop(boots: u32, boot_id: &str) -> Vec<StoreEvent> {
    let at = clock::now();
    let detail = json!({"boots": boots, "boot_id": boot_id});
    vec![
        StoreEvent {
            at,
            kind: EventKind::BootLoop,
            detail,
        },
        StoreEvent {
            at,
            kind: EventKind::Alert,
            detail: Alert::boot_loop(boots).detail(),
        },
    ]
}

/// A person allows work to be resumed.
pub async fn forgive(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::forgive(history, boot_id)).await
}

/// The daemon has been stable.
pub async fn stable(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::stable(history, boot_id)).await
}

/// The daemon shuts down cleanly.
pub async fn clean_end(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::clean_end(history, boot_id)).await
}

/// The error of a store whose files were removed or replaced: then no end of an agent can be recorded,
/// and waiting for one would have no end.
#[boxed]
pub async fn replaced_store(store: &dyn Store) -> Option<StoreError> {
    match timeout(PROBE_MAX, rewrite(store)).await {
        Ok(Err(error @ StoreError::Replaced { .. })) => Some(error),
        Ok(_) | Err(_) => None,
    }
}

/// Rewrites the history unchanged, to check that the store is writable.
async fn rewrite(store: &dyn Store) -> Result<(), StoreError> {
    let name = kept_name();
    if let Some(history) = store.kept(&name).await? {
        store
            .keep_and_tell(&name, Some(history.clone()), history, Vec::new())
            .await?;
    }
    Ok(())
}

async fn change(
    store: &dyn Store,
    mut next: impl FnMut(BootHistory) -> BootHistory,
) -> Result<(), StoreError> {
    change_and_tell(store, |history| (next(history), Vec::new())).await
}

async fn change_and_tell(
    store: &dyn Store,
    mut next: impl FnMut(BootHistory) -> (BootHistory, Vec<StoreEvent>),
) -> Result<(), StoreError> {
    let name = kept_name();
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(&name).await?;
        // An unreadable record is replaced.
        let history: BootHistory = before
            .clone()
            .and_then(|kept| serde_json::from_value(kept).ok())
            .unwrap_or_default();
        let (history, told) = next(history);
        let after: Value = serde_json::to_value(history).expect("a history has string keys");
        let is_as_before = before.as_ref() == Some(&after);
        if is_as_before || store.keep_and_tell(&name, before, after, told).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Each machine of a fleet has its own history.
fn kept_name() -> String {
    match fleet::node() {
        Some(node) => format!("{KEPT_NAME}:{node}"),
        None => KEPT_NAME.to_owned(),
    }
}
