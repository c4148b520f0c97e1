//! Finds out what became of a write whose answer was lost together with the daemon.
//!
//! The next daemon knows nothing of it and refuses it, as it must, when it was made before: the store
//! has moved on. But what was made is in the store, so it is looked for there.

use relight_core::change::Change;
use relight_core::event::{Event, EventKind};
use relight_core::lease::Fence;
use relight_core::session::SessionChange;
use relight_core::task::Task;
use relight_store::{Commit, Committed, EventQuery, Store, StoreError};

/// How often the task is looked at again because somebody else writes to it.
const ROUNDS_MAX: usize = 16;
/// Events of the task that may have come since.
const EVENTS_SINCE_MAX: usize = 1_000;

/// What a commit came to; none when it was not made.
pub(super) async fn committed(
    store: &dyn Store,
    commit: &Commit,
) -> Result<Option<Committed>, StoreError> {
    let newest = EventQuery {
        after: 0,
        before: None,
        task: Some(commit.task.clone()),
        agent: None,
        kinds: Vec::new(),
        limit: EVENTS_SINCE_MAX,
        newest: true,
    };
    for _ in 0..ROUNDS_MAX {
        let Some(task) = store.task(&commit.task).await? else {
            return Ok(None);
        };
        let events = store.events(newest.clone()).await?;
        let after = store.task(&commit.task).await?;
        // Events and task of one moment, or the fence would be counted wrongly.
        if after.is_some_and(|after| after.seq == task.seq) {
            return Ok(found(commit, &task, &events));
        }
    }
    Ok(None)
}

/// The events of a commit stand side by side, and its moment, step, fence and holder are its own.
fn found(commit: &Commit, task: &Task, events: &[Event]) -> Option<Committed> {
    let count = commit.changes.len();
    if count == 0 {
        return None;
    }
    let tells = |events: &[Event]| {
        let mut pairs = events.iter().zip(&commit.changes);
        pairs.all(|(event, change)| is_told_by(commit, change, event))
    };
    let at = events.windows(count).rposition(tells)?;
    let raises =
        |event: &&Event| matches!(event.kind, EventKind::LeaseTaken | EventKind::FenceRaised);
    let raised_since = events[at + count..].iter().filter(raises).count() as u64;
    Some(Committed {
        seq: task.seq,
        fence: Fence(task.lease.fence.0 - raised_since),
    })
}

fn is_told_by(commit: &Commit, change: &Change, event: &Event) -> bool {
    let is_same_detail = match change {
        Change::LeaseTaken { .. } => event.detail == change.detail(None),
        _ => true,
    };
    is_same_detail
        && event.kind == change.kind()
        && event.at == commit.at
        && event.fence == commit.guard.fence
        && event.step.as_ref() == change.mark().map(|mark| &mark.key)
}

/// Whether the change of a session was made: nothing else has been since, and the moment is its own.
pub(super) async fn is_made(store: &dyn Store, change: &SessionChange) -> Result<bool, StoreError> {
    let now = store.session(&change.next.key).await?;
    Ok(now.is_some_and(|now| {
        now.seq == change.next.seq + 1
            && now.updated_at == change.next.updated_at
            && now.generation == change.next.generation
            && now.state.kind() == change.next.state.kind()
    }))
}
