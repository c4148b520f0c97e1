//! One commit inside the writer's transaction: compare the guard, change the rows, append the
//! journal.

use std::collections::HashMap;

use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::lease::Fence;
use relight_core::step::{StepKey, StepOutcome, StepState};
use relight_core::task::{NewTask, Task};
use relight_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::lease_clock::LeaseNow;
use super::refusal::Applied;
use super::tasks::TaskRow;
use super::{journal, tasks};
use crate::check::{self, fence_checked, fenced};
use crate::contract::{Commit, CommitError, Committed};

pub(super) fn apply(db: &Connection, commit: &Commit, now: LeaseNow) -> Applied<Committed> {
    if let Some(Change::Created(new)) = commit.changes.first() {
        return create(db, commit, new, now);
    }
    match commit.guard.fence {
        Some(fence) if is_steps_only(commit) => steps(db, commit, fence, now),
        _ => any(db, commit, now),
    }
}

/// Whether a commit is refused, if at all, before its first write, and so needs no savepoint: what
/// it is compared with is the guard alone, or the steps of the hot path.
pub(super) fn is_refused_before_it_writes(commit: &Commit) -> bool {
    let is_plain = |change: &Change| {
        let has_names =
            matches!(change, Change::Created(_) | Change::Replaced(_) | Change::Door(_));
        change.mark().is_none() && !has_names
    };
    is_steps_only(commit) || commit.changes.iter().all(is_plain)
}

fn is_steps_only(commit: &Commit) -> bool {
    let under_fence = matches!(commit.guard, Guard { fence: Some(_), seq: None });
    let has_steps = !commit.changes.is_empty();
    under_fence && has_steps && commit.changes.iter().all(|change| change.mark().is_some())
}

/// The hot path: one holder's steps. Everything is compared before anything is written; the update
/// compares the fence once more, counts, and renews the lease.
fn steps(db: &Connection, commit: &Commit, fence: Fence, now: LeaseNow) -> Applied<Committed> {
    let hot = hot_row(db, &commit.task)?;
    if fence_checked() && !(hot.held && hot.fence == fence) {
        return Err(fenced(&commit.task, fence, hot.fence).into());
    }
    check_steps(db, commit, &hot)?;
    let (mut done, mut open) = (0, 0);
    for change in &commit.changes {
        let (more_done, more_open) = step_counts(change);
        done += more_done;
        open += more_open;
    }
    let values = [hot.n, hot.fence.0.cast_signed(), commit.at.as_ms(), done, now.ms, now.boot];
    let updated = match open {
        0 => db.prepare_cached(UPDATE_STEPS)?.execute(values)?,
        _ => {
            let [n, fence, at, done, ms, boot] = values;
            let values = [n, fence, at, done, ms, boot, open];
            db.prepare_cached(UPDATE_OPEN_STEPS)?.execute(values)?
        }
    };
    assert!(updated == 1 || !fence_checked(), "the write lock keeps the row as it was read");
    for change in &commit.changes {
        let mark = change.mark().expect("only steps come this way");
        journal::append_step(db, hot.n, commit.at, Some(fence), change, mark)?;
    }
    Ok(Committed { seq: hot.seq + 1, fence })
}

/// What a step's commit must know of its task.
struct HotRow {
    n: i64,
    fence: Fence,
    held: bool,
    seq: u64,
    steps_from: i64,
}

fn hot_row(db: &Connection, task: &TaskId) -> Applied<HotRow> {
    let mut select =
        db.prepare_cached("SELECT n, fence, held, seq, steps_from FROM task WHERE id = ?1")?;
    let read = |row: &Row<'_>| {
        Ok(HotRow {
            n: row.get(0)?,
            fence: Fence(row.get::<_, i64>(1)?.cast_unsigned()),
            held: row.get(2)?,
            seq: row.get::<_, i64>(3)?.cast_unsigned(),
            steps_from: row.get(4)?,
        })
    };
    let row = select.query_row([task.as_str()], read).optional()?;
    row.ok_or_else(|| CommitError::Absent(task.clone()).into())
}

/// Each change must follow the one before it, in this commit or in the journal.
fn check_steps(db: &Connection, commit: &Commit, hot: &HotRow) -> Applied<()> {
    let [change] = commit.changes.as_slice() else {
        let mut states: HashMap<StepKey, Option<StepState>> = HashMap::new();
        for change in &commit.changes {
            let step = change.step_record(commit.at, None).expect("only steps come this way");
            let newest = match states.get(&step.key) {
                Some(newest) => *newest,
                None => journal::step_state(db, hot.n, hot.steps_from, &step.key)?,
            };
            if !change.follows(newest) {
                return Err(CommitError::Moved(commit.task.clone()).into());
            }
            states.insert(step.key, Some(step.state));
        }
        return Ok(());
    };
    check_step(db, &commit.task, hot.n, hot.steps_from, change)
}

/// Refuses a change that was decided upon another state of its step.
fn check_step(
    db: &Connection,
    task: &TaskId,
    n: i64,
    steps_from: i64,
    change: &Change,
) -> Applied<()> {
    let Some(mark) = change.mark() else { return Ok(()) };
    let newest = journal::step_state(db, n, steps_from, &mark.key)?;
    if change.follows(newest) { Ok(()) } else { Err(CommitError::Moved(task.clone()).into()) }
}

const UPDATE_STEPS: &str = "
    UPDATE task SET seq = seq + 1, updated_at = ?3, steps_done = steps_done + ?4,
        recoveries = iif(?4 > 0, 0, recoveries), progress_at = iif(?4 > 0, ?3, progress_at),
        lease_until = ?5 + lease_ttl, lease_boot = ?6
    WHERE n = ?1 AND fence = ?2 AND held = 1";

/// Apart from the usual one, for it must look at an index.
const UPDATE_OPEN_STEPS: &str = "
    UPDATE task SET seq = seq + 1, updated_at = ?3, steps_done = steps_done + ?4,
        recoveries = iif(?4 > 0, 0, recoveries), progress_at = iif(?4 > 0, ?3, progress_at),
        lease_until = ?5 + lease_ttl, lease_boot = ?6, steps_open = steps_open + ?7
    WHERE n = ?1 AND fence = ?2 AND held = 1";

fn step_counts(change: &Change) -> (i64, i64) {
    match change {
        Change::StepBegun(mark) => (0, i64::from(!mark.was_open)),
        Change::StepEnded { mark, outcome, .. } => {
            (i64::from(*outcome == StepOutcome::Done), -i64::from(mark.was_open))
        }
        Change::StepResolved { mark, happened } => {
            (i64::from(*happened), -i64::from(mark.was_open))
        }
        Change::StepSkipped { mark, .. } => (1, -i64::from(mark.was_open)),
        _ => (0, 0),
    }
}

fn create(db: &Connection, commit: &Commit, new: &NewTask, now: LeaseNow) -> Applied<Committed> {
    let mut exists = db.prepare_cached("SELECT 1 FROM task WHERE id = ?1")?;
    if exists.exists([new.id.as_str()])? {
        return Err(CommitError::Exists(new.id.clone()).into());
    }
    let task = Change::first(new, commit.at);
    check_key(db, &task, now)?;
    let n = tasks::insert(db, &task)?;
    tasks::insert_body(db, n, &task)?;
    finish(db, TaskRow { n, steps_from: 0, task }, commit, now)
}

fn any(db: &Connection, commit: &Commit, now: LeaseNow) -> Applied<Committed> {
    let row = match is_lean(commit) {
        true => tasks::lean_by_id(db, &commit.task, now)?,
        false => tasks::by_id(db, &commit.task, now)?,
    };
    let row = row.ok_or_else(|| CommitError::Absent(commit.task.clone()))?;
    check::guard(&row.task, commit.guard)?;
    if commit.changes.is_empty() {
        renew_row(db, row.n, &row.task, commit.guard, now)?;
        return Ok(Committed { seq: row.task.seq, fence: row.task.lease.fence });
    }
    finish(db, row, commit, now)
}

/// Whether nothing of the body but the reason is looked at or changed.
fn is_lean(commit: &Commit) -> bool {
    commit.changes.iter().all(|change| match change {
        Change::Status { .. }
        | Change::Assigned(_)
        | Change::Pinned(_)
        | Change::Retried
        | Change::Tally(_)
        | Change::Spent(_)
        | Change::LeaseTaken { .. }
        | Change::LeaseEnded
        | Change::FenceRaised
        | Change::NotBefore(_)
        | Change::Noted(..) => true,
        Change::Created(_)
        | Change::Replaced(_)
        | Change::ContextSet(_)
        | Change::StepsDeclared(_)
        | Change::Door(_)
        | Change::StepBegun(_)
        | Change::StepEnded { .. }
        | Change::StepResolved { .. }
        | Change::StepSkipped { .. }
        | Change::StepsCleared => false,
    })
}

fn check_key(db: &Connection, task: &Task, now: LeaseNow) -> Applied<()> {
    let Some(key) = &task.spec.key else { return Ok(()) };
    match tasks::by_key(db, key, now)? {
        Some(row) if row.task.id != task.id => {
            Err(CommitError::KeyTaken { key: key.clone(), task: row.task.id }.into())
        }
        _ => Ok(()),
    }
}

/// Applies all changes to the task that was read, and writes back what they touched.
fn finish(db: &Connection, row: TaskRow, commit: &Commit, now: LeaseNow) -> Applied<Committed> {
    let TaskRow { n, steps_from, mut task } = row;
    let before = tasks::Hot::of(&task);
    let mut touched = Touched::default();
    if is_lean(commit) {
        let mut records = Vec::with_capacity(commit.changes.len());
        for change in &commit.changes {
            touched.add(change, &task);
            records.push(journal::Plain::of(change, &task));
            change.apply(&mut task, commit.at);
        }
        journal::append_together(db, n, commit.at, commit.guard.fence, records)?;
        return write_back(db, n, &before, task, &touched, commit, now);
    }
    for change in &commit.changes {
        touched.add(change, &task);
        check_step(db, &commit.task, n, touched.cleared_at.unwrap_or(steps_from), change)?;
        let id = journal::append(db, n, commit.at, commit.guard.fence, change, &task)?;
        if matches!(change, Change::StepsCleared) {
            touched.cleared_at = Some(id);
        }
        change.apply(&mut task, commit.at);
    }
    write_back(db, n, &before, task, &touched, commit, now)
}

fn write_back(
    db: &Connection,
    n: i64,
    before: &tasks::Hot,
    mut task: Task,
    touched: &Touched,
    commit: &Commit,
    now: LeaseNow,
) -> Applied<Committed> {
    task.seq += 1;
    if touched.names {
        check_key(db, &task, now)?;
    }
    let ours = tasks::write_hot(db, n, before, &task)?;
    assert!(ours, "the write lock keeps the row as it was read");
    if touched.body {
        tasks::write_body(db, n, &task)?;
    } else if touched.reason {
        tasks::write_reason(db, n, &task)?;
    }
    if touched.names {
        tasks::write_names(db, n, &task)?;
    }
    if touched.lease {
        tasks::write_lease(db, n, before, task.lease.held.as_ref())?;
    }
    if let Some(id) = touched.cleared_at {
        db.prepare_cached("UPDATE task SET steps_from = ?2 WHERE n = ?1")?.execute([n, id])?;
    }
    let is_timed = task.lease.held.as_ref().is_some_and(|held| held.ttl.is_some());
    if is_timed && (touched.lease || commit.guard.fence.is_some()) {
        set_lease_time(db, n, now)?;
    }
    Ok(Committed { seq: task.seq, fence: task.lease.fence })
}

/// What must be written beside the hot row.
#[derive(Debug, Default)]
struct Touched {
    body: bool,
    reason: bool,
    lease: bool,
    /// Its key or its folder.
    names: bool,
    cleared_at: Option<i64>,
}

impl Touched {
    fn add(&mut self, change: &Change, before: &Task) {
        match change {
            Change::Status { reason, .. } => self.reason |= *reason != before.reason,
            Change::Replaced(_) | Change::Door(_) => (self.body, self.names) = (true, true),
            Change::ContextSet(_) | Change::StepsDeclared(_) => self.body = true,
            Change::LeaseTaken { .. } | Change::LeaseEnded | Change::FenceRaised => {
                self.lease = true;
            }
            Change::Created(_)
            | Change::Assigned(_)
            | Change::Pinned(_)
            | Change::Retried
            | Change::Tally(_)
            | Change::Spent(_)
            | Change::NotBefore(_)
            | Change::StepBegun(_)
            | Change::StepEnded { .. }
            | Change::StepResolved { .. }
            | Change::StepSkipped { .. }
            | Change::StepsCleared
            | Change::Noted(..) => {}
        }
    }
}

fn renew_row(
    db: &Connection,
    n: i64,
    task: &Task,
    guard: Guard,
    now: LeaseNow,
) -> rusqlite::Result<()> {
    let renews = guard.fence.is_some() && task.lease.held.as_ref().is_some_and(|h| h.ttl.is_some());
    if renews { set_lease_time(db, n, now) } else { Ok(()) }
}

/// Counts the lease's time from now; nothing where no clock ends it.
fn set_lease_time(db: &Connection, n: i64, now: LeaseNow) -> rusqlite::Result<()> {
    let mut update = db.prepare_cached(
        "UPDATE task SET lease_until = ?2 + lease_ttl, lease_boot = ?3 WHERE n = ?1",
    )?;
    update.execute([n, now.ms, now.boot])?;
    Ok(())
}

/// Renews a lease without counting as progress.
pub(super) fn renew(db: &Connection, task: &TaskId, fence: Fence, now: LeaseNow) -> Applied<()> {
    let commit = Commit {
        task: task.clone(),
        guard: Guard { fence: Some(fence), seq: None },
        at: Time::from_ms(0),
        changes: Vec::new(),
    };
    any(db, &commit, now).map(|_| ())
}

/// Removes tasks that are still where the caller saw them.
pub(super) fn forget(
    db: &Connection,
    wanted: &[(TaskId, u64)],
    at: Time,
) -> rusqlite::Result<Vec<TaskId>> {
    let mut removed = Vec::new();
    for (id, seq) in wanted {
        let mut delete =
            db.prepare_cached("DELETE FROM task WHERE id = ?1 AND seq = ?2 RETURNING n")?;
        let found = delete
            .query_row(params![id.as_str(), seq.cast_signed()], |row| row.get::<_, i64>(0))
            .optional()?;
        let Some(n) = found else { continue };
        // First, so that it does not take the id of an event that goes.
        journal::append_forgotten(db, at, id)?;
        for sql in [
            "DELETE FROM output WHERE id IN (SELECT output FROM journal WHERE task = ?1)",
            "DELETE FROM journal WHERE task = ?1",
            "DELETE FROM task_body WHERE n = ?1",
            "DELETE FROM lease WHERE n = ?1",
        ] {
            db.prepare_cached(sql)?.execute([n])?;
        }
        removed.push(id.clone());
    }
    Ok(removed)
}

/// Removes old events that are no step's records; the newest id stays taken.
pub(super) fn forget_events(db: &Connection, before: Time) -> rusqlite::Result<u64> {
    let mut delete = db.prepare_cached(
        "DELETE FROM journal WHERE name IS NULL AND at < ?1
           AND kind != ?2 AND id < (SELECT MAX(id) FROM journal)",
    )?;
    let cleared = i64::from(EventKind::StepsCleared.code());
    Ok(delete.execute([before.as_ms(), cleared])? as u64)
}
