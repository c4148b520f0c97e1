//! The agents of a batch in memory, with the attempts that it speaks of.

use std::collections::{BTreeMap, HashMap};

use relight_core::agent::change::AgentChange;
use relight_core::agent::{Attempt, AttemptTag};
use relight_core::ids::AgentName;

use super::agents::AgentRow;
use super::journal::Entry;
use super::lease_clock::until;
use crate::check;
use crate::contract::{AgentCommit, AgentCommitError, Committed, StoreError};

/// One attempt of one agent.
pub(super) type AttemptKey = (AgentName, u32);

/// All that a batch concerns of agents.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) rows: BTreeMap<AgentName, AgentEntry>,
    /// Numbers for agents to be.
    pub(super) numbers: Vec<i64>,
    pub(super) attempts: HashMap<AttemptKey, Attempt>,
    /// Whose the tags are that somebody wants.
    pub(super) tags: HashMap<AttemptTag, AttemptKey>,
    /// Attempts to be written, in the order they were first spoken of.
    pub(super) written: Vec<AttemptKey>,
}

/// An agent of the batch.
#[derive(Debug)]
pub(super) struct AgentEntry {
    pub(super) row: AgentRow,
    pub(super) is_new: bool,
    pub(super) is_changed: bool,
}

impl Agents {
    /// Takes in an attempt as it was read.
    pub(super) fn know(&mut self, attempt: Attempt) {
        let key = (attempt.agent.clone(), attempt.number);
        self.tags.insert(attempt.tag.clone(), key.clone());
        self.attempts.insert(key, attempt);
    }

    pub(super) fn commit(
        &mut self,
        commit: &AgentCommit,
        now_ms: i64,
        place: &str,
        journal: &mut Vec<Entry>,
    ) -> Result<Committed, AgentCommitError> {
        self.check(commit, place)?;
        if let Some(AgentChange::Created(plan)) = commit.changes.first() {
            let n = self.numbers.pop().expect("there is a number for each agent to be");
            let agent = AgentChange::first(&commit.agent, plan, commit.at);
            let row = AgentRow { n, agent, lease_until: None };
            let entry = AgentEntry { row, is_new: true, is_changed: true };
            self.rows.insert(commit.agent.clone(), entry);
        }
        for change in &commit.changes {
            self.apply(commit, change, journal);
        }
        let entry = self.rows.get_mut(&commit.agent).expect("a checked commit has its agent");
        entry.is_changed |= !commit.changes.is_empty();
        entry.row.agent.seq += u64::from(!commit.changes.is_empty());
        let takes = |change: &AgentChange| matches!(change, AgentChange::LeaseTaken { .. });
        if commit.guard.fence.is_some() || commit.changes.iter().any(takes) {
            let ttl = entry.row.agent.lease.held.as_ref().and_then(|held| held.ttl);
            entry.row.lease_until = until(ttl, now_ms);
            entry.is_changed |= ttl.is_some();
        }
        Ok(Committed { seq: entry.row.agent.seq, fence: entry.row.agent.lease.fence })
    }

    /// Everything that can refuse a commit, before anything is changed.
    fn check(&self, commit: &AgentCommit, place: &str) -> Result<(), AgentCommitError> {
        let creates = matches!(commit.changes.first(), Some(AgentChange::Created(_)));
        match (creates, self.rows.get(&commit.agent)) {
            (true, Some(_)) => return Err(AgentCommitError::Exists(commit.agent.clone())),
            (true, None) => {}
            (false, None) => return Err(AgentCommitError::Absent(commit.agent.clone())),
            (false, Some(entry)) => check::agent_guard(&entry.row.agent, commit.guard)?,
        }
        self.check_tags(commit, place)
    }

    /// A tag is given once, those of this commit included.
    fn check_tags(&self, commit: &AgentCommit, place: &str) -> Result<(), AgentCommitError> {
        let mut begun: HashMap<u32, &AttemptTag> = HashMap::new();
        for change in &commit.changes {
            let AgentChange::Begun { number, tag } = change else { continue };
            begun.insert(*number, tag);
            let is_of_another = self
                .tags
                .get(tag)
                .is_some_and(|(agent, owner)| *agent != commit.agent || !begun.contains_key(owner));
            let is_given_twice = begun.values().filter(|other| **other == tag).count() > 1;
            if is_of_another || is_given_twice {
                let why = format!("the tag {tag} belongs to another attempt");
                return Err(StoreError::Unsuitable { place: place.to_owned(), why }.into());
            }
        }
        Ok(())
    }

    fn apply(&mut self, commit: &AgentCommit, change: &AgentChange, journal: &mut Vec<Entry>) {
        let entry = self.rows.get_mut(&commit.agent).expect("a checked commit has its agent");
        if change.is_told() {
            journal.push(Entry::of_agent(entry.row.n, commit, change, &entry.row.agent));
        }
        change.apply(&mut entry.row.agent, commit.at);
        self.apply_to_attempt(commit, change);
    }

    fn apply_to_attempt(&mut self, commit: &AgentCommit, change: &AgentChange) {
        let Some(number) = change.attempt() else { return };
        let key = (commit.agent.clone(), number);
        let before = self.attempts.get(&key).cloned();
        let Some(attempt) = change.apply_to_attempt(&commit.agent, before, commit.at) else {
            return;
        };
        if let AgentChange::Begun { tag, .. } = change {
            self.tags.retain(|_, owner| *owner != key);
            self.tags.insert(tag.clone(), key.clone());
        }
        if !self.written.contains(&key) {
            self.written.push(key.clone());
        }
        self.attempts.insert(key, attempt);
    }
}
