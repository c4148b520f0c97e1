//! One operation inside the writer's transaction: load, apply, write what was touched.

use std::borrow::Cow;
use std::sync::Arc;

use relight_core::change::Change;
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, TaskId};
use relight_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Result, params};
use serde_json::json;

use super::lease_clock::LeaseNow;
use super::refusal::Applied;
use super::{agents, attempts, journal, named_records, nodes, sessions, tasks};
use crate::apply::{Concern, JournalEntry, StepCounts, WorkingSet, is_of_steps};
use crate::contract::{AGENT_FORGOTTEN, Commit, Committed, Operation, OperationResult, Removal};

/// Small and frequent operations run without a savepoint: they are refused, if at all, before they write.
pub(super) fn is_plain(operation: &Operation) -> bool {
    let has_names = |change: &Change| {
        matches!(
            change,
            Change::Created(_) | Change::Replaced(_) | Change::CheckpointSettings(_)
        )
    };
    let has_no_names = |commit: &Commit| !commit.changes.iter().any(has_names);
    match operation {
        Operation::Commit(commit) | Operation::TryCommit(commit) => has_no_names(commit),
        Operation::Renew(..) => true,
        Operation::CommitSessions(changes, _) => changes.len() <= 1,
        _ => false,
    }
}

pub(super) fn perform(
    db: &Connection,
    operation: &Operation,
    now: LeaseNow,
    place: &Arc<str>,
) -> Applied<OperationResult> {
    if let Operation::Remove(removal) = operation {
        return Ok(remove(db, removal, now)?);
    }
    if let Operation::Commit(commit) = operation
        && let Some(committed) = steps(db, commit, now)?
    {
        return Ok(OperationResult::Committed(committed));
    }
    let mut set = load(db, &Concern::of(std::slice::from_ref(operation)), now)?;
    set.place = Arc::clone(place);
    let mut entries = Vec::new();
    let done = set.perform(operation, &mut entries)?;
    write(db, &set, &entries, now)?;
    Ok(done)
}

/// The shortcut of `apply::steps`. None if the commit needs the working set; nothing was changed then.
fn steps(db: &Connection, commit: &Commit, now: LeaseNow) -> Result<Option<Committed>> {
    let Some(fence) = commit.guard.fence.filter(|_| is_of_steps(commit)) else {
        return Ok(None);
    };
    let mut select = db.prepare_cached(
        "SELECT n, seq, steps_from FROM task WHERE id = ?1 AND fence = ?2 AND held = 1",
    )?;
    let values = params![commit.task.as_str(), fence.0.cast_signed()];
    let found = select.query_row(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let Some((n, seq, steps_from)): Option<(i64, i64, i64)> = found.optional()? else {
        return Ok(None);
    };
    if commit
        .guard
        .seq
        .is_some_and(|ours| ours != seq.cast_unsigned())
    {
        return Ok(None);
    }
    let (mut counts, mut entries) = (StepCounts::default(), Vec::new());
    for (at, change) in commit.changes.iter().enumerate() {
        let mark = change.mark().expect("only steps come this way");
        let is_same = |other: &Change| other.mark().is_some_and(|other| other.key == mark.key);
        let is_again = commit.changes[..at].iter().any(is_same);
        if is_again || !change.follows(journal::step_state(db, n, steps_from, &mark.key)?) {
            return Ok(None);
        }
        counts.add(change, commit.at);
        entries.push(JournalEntry::of_task(n, commit, change, None));
    }
    let StepCounts {
        opened,
        done,
        progress_at,
    } = counts;
    let values = params![
        n,
        commit.at.as_ms(),
        done,
        progress_at,
        now.ms,
        now.boot,
        opened
    ];
    match opened {
        0 => db.prepare_cached(UPDATE_STEPS)?.execute(&values[..6])?,
        _ => db.prepare_cached(UPDATE_OPEN_STEPS)?.execute(values)?,
    };
    journal::append(db, &entries, now)?;
    Ok(Some(Committed {
        seq: seq.cast_unsigned() + 1,
        fence,
    }))
}

macro_rules! update_steps {
    ($open:literal) => {
        concat!(
            "UPDATE task SET seq = seq + 1, updated_at = ?2, steps_done = steps_done + ?3,
                 recoveries = iif(?4 IS NULL, recoveries, 0), progress_at = COALESCE(?4, progress_at),
                 lease_until = ?5 + lease_ttl, lease_boot = ?6",
            $open,
            " WHERE n = ?1"
        )
    };
}
const UPDATE_STEPS: &str = update_steps!("");
/// A statement of its own, because it updates an index.
const UPDATE_OPEN_STEPS: &str = update_steps!(", steps_open = steps_open + ?7");

fn load(db: &Connection, concern: &Concern<'_>, now: LeaseNow) -> Result<WorkingSet> {
    let mut set = WorkingSet {
        now_ms: now.ms,
        ..WorkingSet::default()
    };
    for (id, parts) in &concern.tasks {
        let entry = tasks::for_write(db, id, parts, now)?;
        set.tasks
            .extend(entry.map(|entry| ((*id).clone(), Box::new(entry))));
    }
    for (id, key) in &concern.steps {
        let Some(entry) = set.tasks.get_mut(*id) else {
            continue;
        };
        let state = journal::step_state(db, entry.n, entry.steps_from, key)?;
        entry
            .steps
            .extend(state.map(|state| ((*key).clone(), state)));
    }
    for key in &concern.keys {
        let owner = tasks::id_with_key(db, key)?;
        set.keys.extend(owner.map(|owner| ((*key).clone(), owner)));
    }
    if concern.tasks_to_be > 0 {
        set.task_numbers = vec![next_number(db, "task")?];
    }
    for name in &concern.agents {
        let entry = agents::for_write(db, name, now)?;
        set.agents
            .rows
            .extend(entry.map(|entry| ((*name).clone(), entry)));
    }
    if concern.agents_to_be > 0 {
        set.agents.numbers = vec![next_number(db, "agent")?];
    }
    for (name, number) in &concern.attempts {
        let Some(entry) = set.agents.rows.get(*name) else {
            continue;
        };
        let attempt = attempts::by_number(db, entry.n, *number)?;
        attempt
            .into_iter()
            .for_each(|attempt| set.agents.know(attempt));
    }
    for tag in &concern.tags {
        attempts::by_tag(db, tag)?
            .into_iter()
            .for_each(|attempt| set.agents.know(attempt));
    }
    for key in &concern.sessions {
        let entry = sessions::for_write(db, key, now)?;
        set.sessions
            .extend(entry.map(|entry| ((*key).clone(), entry)));
    }
    for name in &concern.records {
        let entry = named_records::for_write(db, name)?;
        set.records
            .extend(entry.map(|entry| ((*name).to_owned(), entry)));
    }
    for name in &concern.nodes {
        nodes::for_write(db, name, now)?
            .into_iter()
            .for_each(|row| set.nodes.know(row));
    }
    Ok(set)
}

/// The next row number; an operation creates at most one row.
fn next_number(db: &Connection, table: &str) -> Result<i64> {
    let sql = format!("SELECT COALESCE(MAX(n), 0) + 1 FROM {table}");
    db.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

fn write(
    db: &Connection,
    set: &WorkingSet,
    entries: &[JournalEntry<'_>],
    now: LeaseNow,
) -> Result<()> {
    for entry in set.tasks.values() {
        tasks::write(db, entry, now)?;
    }
    for entry in set.agents.rows.values().filter(|entry| entry.is_changed) {
        agents::write(db, entry, now)?;
    }
    for key in &set.agents.written {
        attempts::write(
            db,
            set.agents.rows[&key.0].n,
            &set.agents.attempts[key],
            now,
        )?;
    }
    for entry in set.sessions.values() {
        sessions::write(db, entry, now)?;
    }
    for (name, entry) in set.records.iter().filter(|(_, entry)| entry.is_changed) {
        named_records::write(db, name, entry, now)?;
    }
    nodes::write(db, &set.nodes, now)?;
    journal::append(db, entries, now)?;
    for entry in set.tasks.values().filter(|entry| entry.touched.cleared) {
        tasks::clear_steps(db, entry.n)?;
    }
    Ok(())
}

fn remove(db: &Connection, removal: &Removal, now: LeaseNow) -> Result<OperationResult> {
    Ok(match removal {
        Removal::Tasks(tasks, at) => OperationResult::Removed(forget_tasks(db, tasks, *at, now)?),
        Removal::Events(before) => OperationResult::Count(forget_events(db, *before)?),
        Removal::Attempts(before) => OperationResult::Count(attempts::forget(db, *before)?),
        Removal::Sessions(sessions) => OperationResult::Count(sessions::forget(db, sessions)?),
        Removal::Agent(name, seq, at) => {
            OperationResult::Changed(forget_agent(db, name, *seq, *at, now)?)
        }
        Removal::Kept(range) => OperationResult::Count(named_records::forget(db, range)?),
    })
}

/// Removes tasks that are still where the caller saw them.
fn forget_tasks(
    db: &Connection,
    wanted: &[(TaskId, u64)],
    at: Time,
    now: LeaseNow,
) -> Result<Vec<TaskId>> {
    let mut removed = Vec::new();
    for (id, seq) in wanted {
        let mut delete =
            db.prepare_cached("DELETE FROM task WHERE id = ?1 AND seq = ?2 RETURNING n")?;
        let found = delete
            .query_row(params![id.as_str(), seq.cast_signed()], |row| {
                row.get::<_, i64>(0)
            })
            .optional()?;
        let Some(n) = found else { continue };
        // First, so that it does not take the id of an event that goes.
        let detail = Cow::Owned(json!({"task": id}));
        journal::append(
            db,
            &[JournalEntry::of_nothing(
                at,
                EventKind::TaskForgotten,
                detail,
            )],
            now,
        )?;
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
fn forget_events(db: &Connection, before: Time) -> Result<u64> {
    let mut delete = db.prepare_cached(
        "DELETE FROM journal WHERE name IS NULL AND at < ?1
           AND kind != ?2 AND id < (SELECT MAX(id) FROM journal)",
    )?;
    let cleared = i64::from(EventKind::StepsCleared.code());
    Ok(delete.execute([before.as_ms(), cleared])? as u64)
}

/// Removes an agent that nobody holds, with all that belongs to it.
fn forget_agent(
    db: &Connection,
    name: &AgentName,
    seq: u64,
    at: Time,
    now: LeaseNow,
) -> Result<bool> {
    let Some(n) = agents::delete(db, name, seq)? else {
        return Ok(false);
    };
    // First, so that it does not take the id of an event that goes.
    let detail = Cow::Owned(json!({"forgotten": name}));
    journal::append(
        db,
        &[JournalEntry::of_nothing(at, AGENT_FORGOTTEN, detail)],
        now,
    )?;
    for sql in [
        "DELETE FROM journal WHERE agent = ?1",
        "DELETE FROM attempt WHERE agent = ?1",
    ] {
        db.prepare_cached(sql)?.execute([n])?;
    }
    Ok(true)
}
