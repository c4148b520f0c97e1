//! Agents, their attempts and small records in memory: the meaning of a commit, and the reads.

use std::collections::HashMap;

use relight_core::agent::change::AgentChange;
use relight_core::agent::{Agent, AgentStateKind, Attempt, AttemptTag};
use relight_core::event::Event;
use relight_core::ids::AgentName;
use relight_core::time::{Span, Time};
use serde_json::{Value, json};

use super::state::State;
use crate::check;
use crate::contract::{
    AGENT_FORGOTTEN, AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Committed, StoreError,
};

/// An agent with what a store knows beside it.
#[derive(Debug)]
pub(super) struct KeptAgent {
    /// Its `left` is of no meaning here; `read` fills it in.
    agent: Agent,
    /// When its lease runs out, by the lease clock.
    lease_ends_ms: Option<u64>,
}

impl State {
    // Commits

    pub(super) fn commit_agent(
        &mut self,
        commit: &AgentCommit,
    ) -> Result<Committed, AgentCommitError> {
        self.check_agent(commit)?;
        if let Some(AgentChange::Created(plan)) = commit.changes.first() {
            let agent = AgentChange::first(&commit.agent, plan, commit.at);
            self.agents.insert(commit.agent.clone(), KeptAgent { agent, lease_ends_ms: None });
        }
        for change in &commit.changes {
            self.apply_agent(commit, change);
        }
        let clock_ms = self.clock_ms;
        let kept = self.agents.get_mut(&commit.agent).expect("a checked commit has its agent");
        kept.agent.seq += u64::from(!commit.changes.is_empty());
        if commit.guard.fence.is_some() {
            kept.renew(clock_ms);
        }
        Ok(Committed { seq: kept.agent.seq, fence: kept.agent.lease.fence })
    }

    /// Everything that can refuse a commit, before anything is changed.
    fn check_agent(&self, commit: &AgentCommit) -> Result<(), AgentCommitError> {
        check::assert_agent_shape(commit);
        let created = |change: &AgentChange| matches!(change, AgentChange::Created(_));
        let kept = self.agents.get(&commit.agent);
        match (commit.changes.first().is_some_and(created), kept) {
            (true, Some(_)) => return Err(AgentCommitError::Exists(commit.agent.clone())),
            (true, None) => {}
            (false, None) => return Err(AgentCommitError::Absent(commit.agent.clone())),
            (false, Some(kept)) => check::agent_guard(&kept.agent, commit.guard)?,
        }
        self.check_tags(commit)
    }

    /// A tag is given once, those of this commit included.
    fn check_tags(&self, commit: &AgentCommit) -> Result<(), AgentCommitError> {
        let mut begun: HashMap<u32, &AttemptTag> = HashMap::new();
        for change in &commit.changes {
            let AgentChange::Begun { number, tag } = change else { continue };
            begun.insert(*number, tag);
            let stays = |attempt: &&Attempt| {
                attempt.agent != commit.agent || !begun.contains_key(&attempt.number)
            };
            let others = self.attempts.iter().filter(stays).map(|attempt| &attempt.tag);
            let with_tag = others.chain(begun.values().copied()).filter(|other| *other == tag);
            if with_tag.count() > 1 {
                let why = format!("the tag {tag} belongs to another attempt");
                let place = "memory".to_owned();
                return Err(StoreError::Unsuitable { place, why }.into());
            }
        }
        Ok(())
    }

    fn apply_agent(&mut self, commit: &AgentCommit, change: &AgentChange) {
        let kept = self.agents.get_mut(&commit.agent).expect("a checked commit has its agent");
        let event = Event {
            id: 0,
            at: commit.at,
            kind: change.kind(),
            agent: Some(commit.agent.clone()),
            task: None,
            step: None,
            fence: commit.guard.fence,
            detail: change.detail(Some(&kept.agent)),
        };
        change.apply(&mut kept.agent, commit.at);
        if matches!(change, AgentChange::LeaseTaken { .. }) {
            kept.renew(self.clock_ms);
        }
        if change.is_told() {
            self.tell(event);
        }
        self.apply_to_attempt(commit, change);
    }

    fn apply_to_attempt(&mut self, commit: &AgentCommit, change: &AgentChange) {
        let Some(number) = change.attempt() else { return };
        let is_meant =
            |attempt: &Attempt| attempt.agent == commit.agent && attempt.number == number;
        let place = self.attempts.iter().position(is_meant);
        let before = place.map(|place| self.attempts[place].clone());
        match (change.apply_to_attempt(&commit.agent, before, commit.at), place) {
            (Some(attempt), Some(place)) => self.attempts[place] = attempt,
            (Some(attempt), None) => self.attempts.push(attempt),
            (None, _) => {}
        }
    }

    pub(super) fn forget_agent(&mut self, name: &AgentName, seq: u64, at: Time) -> bool {
        let goes = |kept: &KeptAgent| kept.agent.seq == seq && kept.agent.lease.held.is_none();
        if !self.agents.get(name).is_some_and(goes) {
            return false;
        }
        self.agents.remove(name);
        self.attempts.retain(|attempt| attempt.agent != *name);
        self.untell_agent(name);
        self.tell_of_nothing(AGENT_FORGOTTEN, json!({"forgotten": name}), at);
        true
    }

    pub(super) fn forget_attempts(&mut self, before: Time) -> u64 {
        let count = self.attempts.len();
        let all = std::mem::take(&mut self.attempts);
        let is_newest = |attempt: &Attempt| {
            !all.iter().any(|other| other.agent == attempt.agent && other.number > attempt.number)
        };
        let stays = |attempt: &&Attempt| {
            attempt.ended.is_none() || attempt.begun_at >= before || is_newest(attempt)
        };
        self.attempts = all.iter().filter(stays).cloned().collect();
        (count - self.attempts.len()) as u64
    }

    pub(super) fn keep(&mut self, name: &str, before: Option<&Value>, now: Value) -> bool {
        let is_as_read = self.records.get(name) == before;
        if is_as_read {
            self.records.insert(name.to_owned(), now);
        }
        is_as_read
    }

    // Reads

    pub(super) fn agent(&self, name: &AgentName) -> Option<Agent> {
        self.agents.get(name).map(|kept| kept.read(self.clock_ms))
    }

    pub(super) fn agents(&self, query: &AgentQuery) -> Vec<Agent> {
        let wanted = |kept: &&KeptAgent| {
            let agent = &kept.agent;
            query.after.as_ref().is_none_or(|after| agent.name > *after)
                && (query.states.is_empty() || query.states.contains(&agent.state.kind()))
        };
        let found = self.agents.values().filter(wanted).take(query.limit.unwrap_or(usize::MAX));
        found.map(|kept| kept.read(self.clock_ms)).collect()
    }

    pub(super) fn agents_by_state(&self) -> Vec<(AgentStateKind, u64)> {
        let count = |state| {
            self.agents.values().filter(|kept| kept.agent.state.kind() == state).count() as u64
        };
        let all = AgentStateKind::ALL.map(|state| (state, count(state)));
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn attempt(&self, tag: &AttemptTag) -> Option<Attempt> {
        self.attempts.iter().find(|attempt| attempt.tag == *tag).cloned()
    }

    pub(super) fn attempts(&self, query: &AttemptQuery) -> Vec<Attempt> {
        let before = match &query.before {
            None => self.attempts.len(),
            Some(tag) => self.attempts.iter().position(|attempt| attempt.tag == *tag).unwrap_or(0),
        };
        let wanted = |attempt: &&Attempt| {
            query.agent.as_ref().is_none_or(|agent| attempt.agent == *agent)
                && (!query.ended || attempt.ended.is_some())
        };
        self.attempts[..before].iter().rev().filter(wanted).take(query.limit).cloned().collect()
    }

    pub(super) fn kept(&self, name: &str) -> Option<Value> {
        self.records.get(name).cloned()
    }
}

impl KeptAgent {
    /// The lease has its whole time again.
    fn renew(&mut self, clock_ms: u64) {
        let ttl = self.agent.lease.held.as_ref().and_then(|held| held.ttl);
        self.lease_ends_ms = ttl.map(|ttl| clock_ms.saturating_add(ttl.as_ms()));
    }

    fn read(&self, clock_ms: u64) -> Agent {
        let mut agent = self.agent.clone();
        if let Some(held) = &mut agent.lease.held {
            let left_ms = self.lease_ends_ms.map(|ends| ends.saturating_sub(clock_ms));
            held.left = left_ms.map(Span::from_ms);
        }
        agent
    }
}
