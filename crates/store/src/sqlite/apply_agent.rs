//! One commit about an agent inside the writer's transaction. Everything that can be refused is
//! compared before anything is written.

use relight_core::agent::change::AgentChange;
use relight_core::ids::AgentName;
use relight_core::time::Time;
use rusqlite::{Connection, Result};

use super::agents::AgentRow;
use super::lease_clock::LeaseNow;
use super::refusal::Applied;
use super::{agents, attempts, journal};
use crate::check;
use crate::contract::{AgentCommit, AgentCommitError, Committed};

pub(super) fn apply(db: &Connection, commit: &AgentCommit, now: LeaseNow) -> Applied<Committed> {
    let row = agents::by_name(db, &commit.agent, now)?;
    let AgentRow { n, mut agent } = match (commit.changes.first(), row) {
        (Some(AgentChange::Created(_)), Some(_)) => {
            return Err(AgentCommitError::Exists(commit.agent.clone()).into());
        }
        (Some(AgentChange::Created(plan)), None) => {
            let agent = AgentChange::first(&commit.agent, plan, commit.at);
            AgentRow { n: agents::insert(db, &agent)?, agent }
        }
        (_, None) => return Err(AgentCommitError::Absent(commit.agent.clone()).into()),
        (_, Some(row)) => {
            check::agent_guard(&row.agent, commit.guard)?;
            row
        }
    };
    let seq_before = agent.seq;
    for change in &commit.changes {
        if change.is_told() {
            journal::append_agent(db, n, commit, change, &agent)?;
        }
        write_attempt(db, n, commit, change)?;
        change.apply(&mut agent, commit.at);
    }
    if !commit.changes.is_empty() {
        agent.seq += 1;
        let ours = agents::write(db, n, seq_before, &agent)?;
        assert!(ours, "the write lock keeps the row as it was read");
    }
    if renews(commit) && agent.lease.held.as_ref().is_some_and(|held| held.ttl.is_some()) {
        agents::set_lease_time(db, n, now)?;
    }
    Ok(Committed { seq: agent.seq, fence: agent.lease.fence })
}

fn write_attempt(
    db: &Connection,
    n: i64,
    commit: &AgentCommit,
    change: &AgentChange,
) -> Result<()> {
    let Some(number) = change.attempt() else { return Ok(()) };
    let is_new = matches!(change, AgentChange::Begun { .. });
    let before = if is_new { None } else { attempts::by_number(db, n, number)? };
    match change.apply_to_attempt(&commit.agent, before, commit.at) {
        Some(attempt) if is_new => attempts::begin(db, n, &attempt),
        Some(attempt) => attempts::write(db, n, &attempt),
        None => Ok(()),
    }
}

fn renews(commit: &AgentCommit) -> bool {
    let takes = |change: &AgentChange| matches!(change, AgentChange::LeaseTaken { .. });
    commit.guard.fence.is_some() || commit.changes.iter().any(takes)
}

/// Removes an agent that nobody holds, with all that belongs to it.
pub(super) fn forget(db: &Connection, name: &AgentName, seq: u64, at: Time) -> Result<bool> {
    let Some(n) = agents::delete(db, name, seq)? else { return Ok(false) };
    // First, so that it does not take the id of an event that goes.
    journal::append_agent_forgotten(db, at, name)?;
    for sql in ["DELETE FROM journal WHERE agent = ?1", "DELETE FROM attempt WHERE agent = ?1"] {
        db.prepare_cached(sql)?.execute([n])?;
    }
    Ok(true)
}
