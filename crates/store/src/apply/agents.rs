//! The agents of a working set, with their attempts.

use std::collections::{BTreeMap, HashMap};

use relight_core::agent::change::AgentChange;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::ids::AgentName;

use super::{JournalEntry, until};
use crate::commit_guards;
use crate::contract::{AgentCommit, AgentCommitError, Committed, StoreError};

/// One attempt of one agent.
pub(crate) type AttemptKey = (AgentName, u32);

/// The loaded agents and attempts.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    pub(crate) rows: BTreeMap<AgentName, AgentEntry>,
    /// Row numbers for new agents, taken from the end.
    pub(crate) numbers: Vec<i64>,
    pub(crate) attempts: HashMap<AttemptKey, Attempt>,
    /// Which attempt has a tag, of the tags that operations assign.
    pub(crate) tags: HashMap<AttemptTag, AttemptKey>,
    /// Attempts to write, in the order of their first change.
    pub(crate) written: Vec<AttemptKey>,
}

/// An agent and its store-internal fields.
#[derive(Debug)]
pub(crate) struct AgentEntry {
    /// Its row number.
    pub(crate) n: i64,
    /// The `left` of its lease is not maintained here; see `lease_until`.
    pub(crate) agent: Agent,
    /// When its lease expires, by the lease clock.
    pub(crate) lease_until: Option<i64>,
    pub(crate) is_new: bool,
    pub(crate) is_changed: bool,
}

impl Agents {
    /// Adds an attempt that was loaded.
    pub(crate) fn know(&mut self, attempt: Attempt) {
        let key = (attempt.agent.clone(), attempt.number);
        self.tags.insert(attempt.tag.clone(), key.clone());
        self.attempts.insert(key, attempt);
    }

    pub(crate) fn commit<'o>(
        &mut self,
        commit: &'o AgentCommit,
        now_ms: i64,
        place: &str,
        journal: &mut Vec<JournalEntry<'o>>,
    ) -> Result<Committed, AgentCommitError> {
        self.check(commit, place)?;
        if let Some(AgentChange::Created(plan)) = commit.changes.first() {
            let n = self
                .numbers
                .pop()
                .expect("there is a number for each agent to be");
            let agent = AgentChange::first(&commit.agent, plan, commit.at);
            let entry = AgentEntry {
                n,
                agent,
                lease_until: None,
                is_new: true,
                is_changed: true,
            };
            self.rows.insert(commit.agent.clone(), entry);
        }
        for change in &commit.changes {
            self.apply(commit, change, journal);
        }
        let entry = self
            .rows
            .get_mut(&commit.agent)
            .expect("a checked commit has its agent");
        entry.is_changed |= !commit.changes.is_empty();
        entry.agent.seq += u64::from(!commit.changes.is_empty());
        let takes = |change: &AgentChange| matches!(change, AgentChange::LeaseTaken { .. });
        if commit.guard.fence.is_some() || commit.changes.iter().any(takes) {
            let ttl = entry.agent.lease.held.as_ref().and_then(|held| held.ttl);
            entry.lease_until = until(ttl, now_ms);
            entry.is_changed |= ttl.is_some();
        }
        Ok(Committed {
            seq: entry.agent.seq,
            fence: entry.agent.lease.fence,
        })
    }

    /// All reasons to refuse a commit; nothing is changed before.
    fn check(&self, commit: &AgentCommit, place: &str) -> Result<(), AgentCommitError> {
        let creates = matches!(commit.changes.first(), Some(AgentChange::Created(_)));
        match (creates, self.rows.get(&commit.agent)) {
            (true, Some(_)) => return Err(AgentCommitError::Exists(commit.agent.clone())),
            (true, None) => {}
            (false, None) => return Err(AgentCommitError::Absent(commit.agent.clone())),
            (false, Some(entry)) => commit_guards::agent_guard(&entry.agent, commit.guard)?,
        }
        self.check_tags(commit, place)
    }

    /// Tags are unique, including those that this commit assigns.
    fn check_tags(&self, commit: &AgentCommit, place: &str) -> Result<(), AgentCommitError> {
        let mut begun: HashMap<u32, &AttemptTag> = HashMap::new();
        for change in &commit.changes {
            let AgentChange::Begun { number, tag } = change else {
                continue;
            };
            begun.insert(*number, tag);
            let is_of_another = self
                .tags
                .get(tag)
                .is_some_and(|(agent, owner)| *agent != commit.agent || !begun.contains_key(owner));
            let is_given_twice = begun.values().filter(|other| **other == tag).count() > 1;
            if is_of_another || is_given_twice {
                let why = format!("the tag {tag} belongs to another attempt");
                return Err(StoreError::Unsuitable {
                    place: place.to_owned(),
                    why,
                }
                .into());
            }
        }
        Ok(())
    }

    fn apply<'o>(
        &mut self,
        commit: &'o AgentCommit,
        change: &AgentChange,
        journal: &mut Vec<JournalEntry<'o>>,
    ) {
        let entry = self
            .rows
            .get_mut(&commit.agent)
            .expect("a checked commit has its agent");
        if change.is_told() {
            journal.push(JournalEntry::of_agent(
                entry.n,
                commit,
                change,
                &entry.agent,
            ));
        }
        change.apply(&mut entry.agent, commit.at);
        self.apply_to_attempt(commit, change);
    }

    fn apply_to_attempt(&mut self, commit: &AgentCommit, change: &AgentChange) {
        let Some(number) = change.attempt() else {
            return;
        };
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
