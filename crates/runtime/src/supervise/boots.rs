//! Keeps the history of the machine's boots in the store, for the breaker of boot loops.

use relight_core::agent::boots::{self, BootHistory, KEPT_NAME, Verdict};
use relight_store::{Store, StoreError};
use serde_json::Value;

/// How often a change is tried while others write too.
const ROUNDS_MAX: usize = 100;

/// A daemon starts: whether it may resume work. A person may say that what was before does not count.
pub async fn at_start(
    store: &dyn Store,
    boot_id: &str,
    resumes: bool,
    forgive: bool,
) -> Result<Verdict, StoreError> {
    let mut verdict = Verdict::Resume;
    change(store, |history| {
        let history = if forgive { boots::forgive(history, boot_id) } else { history };
        let (history, judged) = boots::at_start(history, boot_id, resumes);
        verdict = judged;
        history
    })
    .await?;
    Ok(verdict)
}

/// A person wants work to be resumed.
pub async fn forgive(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::forgive(history, boot_id)).await
}

/// The daemon has lived for long enough.
pub async fn stable(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::stable(history, boot_id)).await
}

/// The daemon ends as it was told to.
pub async fn clean_end(store: &dyn Store, boot_id: &str) -> Result<(), StoreError> {
    change(store, |history| boots::clean_end(history, boot_id)).await
}

async fn change(
    store: &dyn Store,
    mut next: impl FnMut(BootHistory) -> BootHistory,
) -> Result<(), StoreError> {
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(KEPT_NAME).await?;
        // A record that cannot be read tells nothing, and is written anew.
        let history: BootHistory =
            before.clone().and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default();
        let after: Value =
            serde_json::to_value(next(history)).expect("a history has string keys");
        if before.as_ref() == Some(&after) || store.keep(KEPT_NAME, before, after).await? {
            return Ok(());
        }
    }
    Ok(())
}
