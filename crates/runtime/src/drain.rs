//! Finishing what runs and beginning nothing: before an upgrade, a reboot, a move.
//!
//! The mark is in the store, so it holds for every process and survives a restart of the daemon. One
//! from before a reboot does not count: whoever drained did it for that boot.

use relight_core::decide::{Right, StartLimits, TaskEvent};
use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_core::status::TaskStatus;
use relight_core::task::{NewTask, Task};
use relight_core::time::{Span, Time};
use relight_store::{Store, StoreError, StoreEvent};
use serde::{Deserialize, Serialize};

use crate::engine::{ActError, Engine, Started, TaskView};
use crate::os::{clock, process};

/// The name of the mark among the store's small records.
pub const NAME: &str = "drain";
/// Why a task that came while draining waits.
const REFUSED: &str = "it came while draining";
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
pub async fn now(store: &dyn Store) -> Result<Option<Drain>, StoreError> {
    let kept = store.kept(NAME).await?;
    let drain: Option<Drain> = kept.and_then(|kept| serde_json::from_value(kept).ok());
    Ok(drain.filter(|drain| drain.boot == process::boot_id()))
}

/// Sets the mark; answers the one that counts.
pub async fn begin(store: &dyn Store) -> Result<Drain, StoreError> {
    for _ in 0..ROUNDS_MAX {
        if let Some(drain) = now(store).await? {
            return Ok(drain);
        }
        let drain = Drain { since: clock::now(), boot: process::boot_id() };
        let mark = serde_json::to_value(&drain).expect("a mark is plain JSON");
        let before = store.kept(NAME).await?;
        if store.keep_and_tell(NAME, before, mark, vec![told(true)]).await? {
            return Ok(drain);
        }
    }
    Err(busy())
}

/// Takes the mark away; whether there was one.
pub async fn cancel(store: &dyn Store) -> Result<bool, StoreError> {
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(NAME).await?;
        if now(store).await?.is_none() {
            return Ok(false);
        }
        let told = vec![told(false)];
        if store.keep_and_tell(NAME, before, serde_json::Value::Null, told).await? {
            return Ok(true);
        }
    }
    Err(busy())
}

/// Starts a task. While draining it is added and deferred instead, which is an error that says so; whoever
/// holds it already continues.
pub async fn start(
    engine: &Engine,
    new: NewTask,
    right: Right,
    holder: Holder,
    ttl: Option<Span>,
    limits: StartLimits,
) -> Result<Started, ActError> {
    if now(engine.store().as_ref()).await?.is_some()
        && !continues(engine, &new.id, right, &holder).await?
    {
        let id = engine.add_to_start(new.clone()).await?.task().id.clone();
        put_off(engine, &id).await?;
    }
    engine.start(new, right, holder, ttl, limits).await
}

/// Whether this life, or a writer that shows this fence, has the task already.
pub(crate) async fn continues(
    engine: &Engine,
    id: &TaskId,
    right: Right,
    holder: &Holder,
) -> Result<bool, StoreError> {
    let Some(task) = engine.store().task(id).await? else { return Ok(false) };
    let life = engine.holder_life(&task, right).await?;
    Ok(task.lease.is_continued_by(holder, right.fence(), life))
}

/// Refuses to begin work on a task while draining.
pub(crate) async fn refuse_new_work(store: &dyn Store, task: &Task) -> Result<(), ActError> {
    match now(store).await? {
        Some(_) => Err(ActError::Draining { task: task.id.clone(), status: Some(task.status) }),
        None => Ok(()),
    }
}

/// Defers a task that is not begun now, and says so. One that has ended or failed is left for `start` to
/// refuse.
pub(crate) async fn put_off(engine: &Engine, id: &TaskId) -> Result<(), ActError> {
    let task = defer(engine, id).await?;
    match task.status.is_terminal() || task.status == TaskStatus::Failed {
        true => Ok(()),
        false => Err(ActError::Draining { task: task.id, status: Some(task.status) }),
    }
}

/// What waits for something else already is left as it is.
async fn defer(engine: &Engine, id: &TaskId) -> Result<Task, ActError> {
    let plan = |view: &TaskView| {
        let is_new = matches!(view.task.status, TaskStatus::Created | TaskStatus::Assigned);
        let is_free = view.task.lease.held.is_none();
        let reason = Some(REFUSED.to_owned());
        let event = TaskEvent::Move { to: TaskStatus::Deferred, reason };
        Ok::<_, ActError>((is_new && is_free).then_some(event).into_iter().collect())
    };
    engine.act_in_turn(id, Right::Unfenced, plan).await?;
    engine.task(id).await
}

/// Wakes whoever waits for work, or for its end.
fn told(draining: bool) -> StoreEvent {
    let detail = serde_json::json!({"draining": draining});
    StoreEvent { at: clock::now(), kind: EventKind::Drain, detail }
}

fn busy() -> StoreError {
    StoreError::Busy { place: "the mark of draining".to_owned() }
}
