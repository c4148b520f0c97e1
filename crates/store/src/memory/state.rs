//! State of the memory store: a working set with everything loaded, the journal, and the reads.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use relight_core::agent::{Agent, AgentStateKind, Attempt, AttemptTag};
use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::lease::HeldLease;
use relight_core::node::{Node, NodesSummary};
use relight_core::session::{Session, SessionState, SessionStateKind};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::{Value, json};

use crate::apply::{
    AgentEntry, JournalEntry, RecordEntry, SessionEntry, TaskEntry, WorkingSet, left,
};
use crate::contract::{
    AGENT_FORGOTTEN, AgentQuery, AttemptQuery, Commit, EventQuery, Inventory, KeptRange, Operation,
    OperationReply, OperationResult, Removal, SessionQuery, TaskGlance, TaskQuery,
};
use crate::record::newest_of_each;

#[derive(Debug)]
pub(super) struct MemoryState {
    /// Everything, always loaded.
    pub(super) set: WorkingSet,
    /// Step records, append-only.
    records: HashMap<TaskId, Vec<StepRecord>>,
    /// The newest number of a task or an agent.
    numbers: i64,
    events: BTreeMap<u64, Event>,
    /// Never decreases, so that ids are not reused.
    events_given: u64,
}

/// One record of a task's steps.
#[derive(Debug)]
enum StepRecord {
    Begun(Step),
    Ended(Step, Option<Output>),
    Cleared,
}

impl Default for MemoryState {
    fn default() -> Self {
        let set = WorkingSet {
            place: "memory".into(),
            ..WorkingSet::default()
        };
        let (records, events) = (HashMap::new(), BTreeMap::new());
        Self {
            set,
            records,
            numbers: 0,
            events,
            events_given: 0,
        }
    }
}

impl MemoryState {
    pub(super) fn advance(&mut self, span: Span) {
        self.set.now_ms = self.set.now_ms.saturating_add_unsigned(span.as_ms());
    }

    pub(super) fn set_back(&mut self, span: Span) {
        self.set.now_ms = self.set.now_ms.saturating_sub_unsigned(span.as_ms()).max(0);
    }

    // Changes

    pub(super) fn write(&mut self, operation: &Operation) -> OperationReply {
        if let Operation::Remove(removal) = operation {
            return Ok(self.remove(removal));
        }
        self.numbers += 1;
        self.set.task_numbers = vec![self.numbers];
        self.set.agents.numbers = vec![self.numbers];
        let mut journal = Vec::new();
        let done = self.set.perform(operation, &mut journal)?;
        journal.into_iter().for_each(|entry| self.tell(entry));
        if let Operation::Commit(commit) | Operation::TryCommit(commit) = operation {
            let records = self.records.entry(commit.task.clone()).or_default();
            records.extend(
                commit
                    .changes
                    .iter()
                    .filter_map(|change| record(commit, change)),
            );
        }
        Ok(done)
    }

    fn remove(&mut self, removal: &Removal) -> OperationResult {
        match removal {
            Removal::Tasks(tasks, at) => OperationResult::Removed(self.forget(tasks, *at)),
            Removal::Events(before) => OperationResult::Count(self.forget_events(*before)),
            Removal::Attempts(before) => OperationResult::Count(self.forget_attempts(*before)),
            Removal::Sessions(sessions) => OperationResult::Count(self.forget_sessions(sessions)),
            Removal::Agent(name, seq, at) => {
                OperationResult::Changed(self.forget_agent(name, *seq, *at))
            }
            Removal::Kept(range) => OperationResult::Count(self.forget_kept(range)),
        }
    }

    /// Appends an event with the next id.
    fn tell(&mut self, entry: JournalEntry<'_>) {
        self.events_given += 1;
        self.events
            .insert(self.events_given, entry.into_event(self.events_given));
    }

    fn forget(&mut self, tasks: &[(TaskId, u64)], at: Time) -> Vec<TaskId> {
        let mut forgotten = Vec::new();
        for (id, seq) in tasks {
            if self
                .set
                .tasks
                .get(id)
                .is_some_and(|entry| entry.task.seq == *seq)
            {
                self.set.tasks.remove(id);
                self.set.keys.retain(|_, owner| owner != id);
                self.records.remove(id);
                self.events
                    .retain(|_, event| event.task.as_ref() != Some(id));
                let detail = Cow::Owned(json!({"task": id}));
                self.tell(JournalEntry::of_nothing(
                    at,
                    EventKind::TaskForgotten,
                    detail,
                ));
                forgotten.push(id.clone());
            }
        }
        forgotten
    }

    fn forget_agent(&mut self, name: &AgentName, seq: u64, at: Time) -> bool {
        let goes = |entry: &AgentEntry| entry.agent.seq == seq && entry.agent.lease.held.is_none();
        if !self.set.agents.rows.get(name).is_some_and(goes) {
            return false;
        }
        self.set.agents.rows.remove(name);
        self.keep_attempts(|attempt| attempt.agent != *name);
        self.events
            .retain(|_, event| event.agent.as_ref() != Some(name));
        let detail = Cow::Owned(json!({"forgotten": name}));
        self.tell(JournalEntry::of_nothing(at, AGENT_FORGOTTEN, detail));
        true
    }

    fn forget_attempts(&mut self, before: Time) -> u64 {
        let mut newest: HashMap<AgentName, u32> = HashMap::new();
        for (agent, number) in &self.set.agents.written {
            let newest = newest.entry(agent.clone()).or_default();
            *newest = (*newest).max(*number);
        }
        self.keep_attempts(|attempt| {
            let is_newest = newest.get(&attempt.agent) == Some(&attempt.number);
            attempt.ended.is_none() || attempt.begun_at >= before || is_newest
        })
    }

    /// Keeps matching attempts. Returns how many were removed.
    fn keep_attempts(&mut self, stays: impl Fn(&Attempt) -> bool) -> u64 {
        let agents = &mut self.set.agents;
        let before = agents.attempts.len();
        agents.attempts.retain(|_, attempt| stays(attempt));
        agents
            .written
            .retain(|key| agents.attempts.contains_key(key));
        agents
            .tags
            .retain(|_, key| agents.attempts.contains_key(key));
        (before - agents.attempts.len()) as u64
    }

    fn forget_sessions(&mut self, sessions: &[(SessionKey, u64)]) -> u64 {
        let before = self.set.sessions.len();
        for (key, seq) in sessions {
            let is_idle = |session: &Session| session.state.kind() != SessionStateKind::Active;
            let goes = |entry: &SessionEntry| {
                entry.seq == *seq && entry.next.as_ref().is_some_and(is_idle)
            };
            if self.set.sessions.get(key).is_some_and(goes) {
                self.set.sessions.remove(key);
            }
        }
        (before - self.set.sessions.len()) as u64
    }

    /// Keeps the newest event, so that ids are not reused.
    fn forget_events(&mut self, before: Time) -> u64 {
        let count = self.events.len();
        let newest = self.newest_event();
        self.events
            .retain(|id, event| event.at >= before || event.kind.is_of_steps() || *id == newest);
        (count - self.events.len()) as u64
    }

    // Reads

    pub(super) fn task(&self, id: &TaskId) -> Option<Task> {
        self.set.tasks.get(id).map(|entry| self.read_task(entry))
    }

    pub(super) fn task_with_key(&self, key: &IdempotencyKey) -> Option<Task> {
        self.set.keys.get(key).and_then(|id| self.task(id))
    }

    /// A page after an unknown task is empty, so that a pager stops instead of starting over.
    pub(super) fn tasks(&self, query: &TaskQuery) -> Vec<Task> {
        let place = |id| self.set.tasks.get(id).map(|entry| entry.n);
        let is_listed_after = |n| match (&query.after, query.newest) {
            (None, _) => true,
            (Some(id), false) => place(id).is_some_and(|after| n > after),
            (Some(id), true) => place(id).is_some_and(|after| n < after),
        };
        let find = query.find.as_deref().map(str::to_ascii_lowercase);
        let folder = |task: &Task| task.checkpoint.as_ref().map(|door| door.folder.clone());
        let wanted = |entry: &&TaskEntry| {
            let task = &entry.task;
            is_listed_after(entry.n)
                && find
                    .as_deref()
                    .is_none_or(|find| words(task).contains(find) || self.has_step(&task.id, find))
                && (query.statuses.is_empty() || query.statuses.contains(&task.status))
                && (query.agent.is_none() || query.agent == task.agent)
                && (query.checkpoint_folder.is_none() || query.checkpoint_folder == folder(task))
                && query
                    .held_by
                    .as_ref()
                    .is_none_or(|tag| is_held_by(task, tag))
                && (!query.held || task.lease.held.is_some())
                && (!query.in_doubt || task.steps_open > 0)
        };
        let mut listed = self.in_order_added();
        if query.newest {
            listed.reverse();
        }
        let found = listed.into_iter().filter(wanted);
        let limit = query.limit.unwrap_or(usize::MAX);
        found
            .take(limit)
            .map(|entry| self.read_task(entry))
            .collect()
    }

    pub(super) fn unfinished(&self) -> Vec<TaskGlance> {
        let tasks = self.in_order_added().into_iter().map(|entry| &entry.task);
        let unfinished = tasks.filter(|task| !task.status.is_terminal());
        unfinished.map(glance).collect()
    }

    pub(super) fn next_due(&self, now: Time) -> Option<Time> {
        let tasks = self.set.tasks.values().map(|entry| &entry.task);
        let waiting = tasks.filter(|task| Claimant::is_for_the_queue(task.status));
        waiting
            .filter_map(|task| task.not_before.filter(|at| *at > now))
            .min()
    }

    pub(super) fn claimable(&self, claimant: &Claimant, now: Time, limit: usize) -> Vec<TaskId> {
        let mut found = self.in_order_added();
        found.retain(|entry| {
            let task = self.read_task(entry);
            let due = task.not_before.is_none_or(|at| at <= now) && !task.is_expired(now);
            due && is_free(&task) && claimant.may_take(&task)
        });
        // The sort is stable: equal tasks keep the order they were added.
        found.sort_by_key(|entry| std::cmp::Reverse(entry.task.spec.priority));
        found
            .into_iter()
            .take(limit)
            .map(|entry| entry.task.id.clone())
            .collect()
    }

    pub(super) fn step(&self, task: &TaskId, key: &StepKey) -> Option<Step> {
        self.current(task)
            .rev()
            .filter_map(StepRecord::step)
            .find(|step| step.key == *key)
            .cloned()
    }

    pub(super) fn steps(&self, task: &TaskId) -> Vec<Step> {
        newest_of_each(
            self.current(task)
                .filter_map(StepRecord::step)
                .cloned()
                .collect(),
        )
    }

    /// A step resolved by a person has ended without output.
    pub(super) fn output(&self, task: &TaskId, key: &StepKey) -> Option<Output> {
        let newest_end = self.current(task).rev().find_map(|record| match record {
            StepRecord::Ended(step, output) if step.key == *key => Some(output.clone()),
            StepRecord::Begun(_) | StepRecord::Ended(..) | StepRecord::Cleared => None,
        });
        newest_end.flatten()
    }

    pub(super) fn events(&self, query: &EventQuery) -> Vec<Event> {
        let later = self
            .events
            .range(query.after.saturating_add(1)..)
            .map(|(_, event)| event);
        let mut found: Vec<&Event> = later
            .take_while(|event| query.before.is_none_or(|before| event.id < before))
            .filter(|event| query.task.is_none() || query.task == event.task)
            .filter(|event| query.agent.is_none() || query.agent == event.agent)
            .filter(|event| query.kinds.is_empty() || query.kinds.contains(&event.kind))
            .collect();
        let over = found.len().saturating_sub(query.limit);
        if query.newest {
            found.drain(..over);
        } else {
            found.truncate(query.limit);
        }
        found.into_iter().cloned().collect()
    }

    pub(super) fn newest_event(&self) -> u64 {
        self.events_given
    }

    pub(super) fn inventory(&self) -> Inventory {
        let set = &self.set;
        let (tasks, agents) = (set.tasks.values(), set.agents.rows.values());
        let sessions = set
            .sessions
            .values()
            .filter_map(|entry| entry.next.as_ref());
        Inventory {
            backend: "memory".to_owned(),
            place: "memory".to_owned(),
            in_doubt: tasks
                .clone()
                .filter(|entry| entry.task.steps_open > 0)
                .count() as u64,
            tasks: counted(tasks.map(|entry| entry.task.status), TaskStatus::ALL),
            agents: counted(
                agents.map(|entry| entry.agent.state.kind()),
                AgentStateKind::ALL,
            ),
            sessions: counted(sessions.map(|one| one.state.kind()), SessionStateKind::ALL),
            events: self.events.len() as u64,
            ..Inventory::default()
        }
    }

    fn in_order_added(&self) -> Vec<&TaskEntry> {
        let mut all: Vec<&TaskEntry> = self.set.tasks.values().map(|entry| &**entry).collect();
        all.sort_by_key(|entry| entry.n);
        all
    }

    /// The records since the steps were last cleared.
    /// Whether the name of a recorded step contains this text.
    fn has_step(&self, task: &TaskId, find: &str) -> bool {
        let mut steps = self.current(task).filter_map(StepRecord::step);
        steps.any(|step| step.key.name.as_str().to_ascii_lowercase().contains(find))
    }

    fn current(&self, task: &TaskId) -> std::slice::Iter<'_, StepRecord> {
        let records = self.records.get(task).map_or(&[][..], Vec::as_slice);
        let cleared = records
            .iter()
            .rposition(|record| matches!(record, StepRecord::Cleared));
        records[cleared.map_or(0, |at| at + 1)..].iter()
    }

    fn read_task(&self, entry: &TaskEntry) -> Task {
        let mut task = entry.task.clone();
        self.read_lease(task.lease.held.as_mut(), entry.lease_until);
        task
    }

    /// Sets the time left of a time-limited lease.
    fn read_lease(&self, held: Option<&mut HeldLease>, until_ms: Option<i64>) {
        if let Some(held) = held {
            held.left = held
                .ttl
                .and(until_ms)
                .map(|_| left(until_ms, self.set.now_ms));
        }
    }

    // Agents, sessions, nodes and small records

    pub(super) fn agents(&self, query: &AgentQuery) -> Vec<Agent> {
        let wanted = |entry: &&AgentEntry| {
            let agent = &entry.agent;
            query.after.as_ref().is_none_or(|after| agent.name > *after)
                && (query.states.is_empty() || query.states.contains(&agent.state.kind()))
        };
        let found = self.set.agents.rows.values().filter(wanted);
        let limit = query.limit.unwrap_or(usize::MAX);
        found
            .take(limit)
            .map(|entry| self.read_agent(entry))
            .collect()
    }

    pub(super) fn agent(&self, name: &AgentName) -> Option<Agent> {
        self.set
            .agents
            .rows
            .get(name)
            .map(|entry| self.read_agent(entry))
    }

    fn read_agent(&self, entry: &AgentEntry) -> Agent {
        let mut agent = entry.agent.clone();
        self.read_lease(agent.lease.held.as_mut(), entry.lease_until);
        agent
    }

    pub(super) fn attempt(&self, tag: &AttemptTag) -> Option<Attempt> {
        let agents = &self.set.agents;
        agents
            .tags
            .get(tag)
            .and_then(|key| agents.attempts.get(key))
            .cloned()
    }

    pub(super) fn attempts(&self, query: &AttemptQuery) -> Vec<Attempt> {
        let all: Vec<&Attempt> = self
            .set
            .agents
            .written
            .iter()
            .map(|key| &self.set.agents.attempts[key])
            .collect();
        let before = match &query.before {
            None => all.len(),
            Some(tag) => all
                .iter()
                .position(|attempt| attempt.tag == *tag)
                .unwrap_or(0),
        };
        let wanted = |attempt: &&&Attempt| {
            query
                .agent
                .as_ref()
                .is_none_or(|agent| attempt.agent == *agent)
                && (!query.ended || attempt.ended.is_some())
        };
        let found = all[..before].iter().rev().filter(wanted).take(query.limit);
        found.map(|attempt| (*attempt).clone()).collect()
    }

    pub(super) fn session(&self, key: &SessionKey) -> Option<Session> {
        self.set
            .sessions
            .get(key)
            .and_then(|entry| self.read_session(entry))
    }

    pub(super) fn sessions(&self, query: &SessionQuery) -> Vec<Session> {
        let wanted = |session: &Session| {
            query
                .after
                .as_ref()
                .is_none_or(|after| session.key > *after)
                && (query.states.is_empty() || query.states.contains(&session.state.kind()))
                && (!query.seen || session.seen_at.is_some())
        };
        let all = self
            .set
            .sessions
            .values()
            .filter_map(|entry| self.read_session(entry));
        all.filter(wanted)
            .take(query.limit.unwrap_or(usize::MAX))
            .collect()
    }

    fn read_session(&self, entry: &SessionEntry) -> Option<Session> {
        let mut session = entry.next.clone()?;
        if let SessionState::Active { owner, .. } = &mut session.state {
            self.read_lease(owner.as_mut(), entry.lease_until);
        }
        Some(session)
    }

    pub(super) fn nodes(&self) -> Vec<Node> {
        self.set
            .nodes
            .rows()
            .map(|row| row.read(self.set.now_ms))
            .collect()
    }

    /// Does not copy nodes.
    pub(super) fn nodes_summary(&self) -> NodesSummary {
        self.set
            .nodes
            .rows()
            .fold(NodesSummary::EMPTY, |glance, row| {
                glance.with(&row.node, left(Some(row.lease_until), self.set.now_ms))
            })
    }

    pub(super) fn kept(&self, name: &str) -> Option<Value> {
        self.set
            .records
            .get(name)
            .and_then(|entry| entry.value.clone())
    }

    pub(super) fn kept_in(&self, range: &KeptRange) -> Vec<(String, Value)> {
        let within = |(name, entry): (&String, &RecordEntry)| {
            let is_within = range.from <= *name && *name < range.to;
            Some((name.clone(), entry.value.clone().filter(|_| is_within)?))
        };
        let mut found: Vec<_> = self.set.records.iter().filter_map(within).collect();
        if range.descending {
            found.reverse();
        }
        found.truncate(range.limit.unwrap_or(usize::MAX));
        found
    }

    fn forget_kept(&mut self, range: &KeptRange) -> u64 {
        let before = self.set.records.len();
        let is_within = |name: &String| range.from <= *name && *name < range.to;
        self.set.records.retain(|name, _| !is_within(name));
        (before - self.set.records.len()) as u64
    }
}

/// Counts by kind; kinds without entries are left out.
fn counted<K: Copy + PartialEq, const N: usize>(
    found: impl Iterator<Item = K>,
    all: [K; N],
) -> Vec<(K, u64)> {
    let mut counts = all.map(|kind| (kind, 0));
    for kind in found {
        counts
            .iter_mut()
            .filter(|(other, _)| *other == kind)
            .for_each(|(_, count)| *count += 1);
    }
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl StepRecord {
    fn step(&self) -> Option<&Step> {
        match self {
            Self::Begun(step) | Self::Ended(step, _) => Some(step),
            Self::Cleared => None,
        }
    }
}

/// The step record of a change, if any.
fn record(commit: &Commit, change: &Change) -> Option<StepRecord> {
    if matches!(change, Change::StepsCleared) {
        return Some(StepRecord::Cleared);
    }
    let step = change.step_record(commit.at, commit.guard.fence)?;
    Some(match change {
        Change::StepEnded { output, .. } => StepRecord::Ended(step, output.clone()),
        Change::StepResolved { .. } | Change::StepSkipped { .. } => StepRecord::Ended(step, None),
        _ => StepRecord::Begun(step),
    })
}

fn glance(task: &Task) -> TaskGlance {
    TaskGlance {
        id: task.id.clone(),
        status: task.status,
        agent: task.agent.clone(),
        updated_at: task.updated_at,
        not_before: task.not_before,
        expires_at: task.expires_at,
    }
}

/// Whether nobody holds it or its lease expired.
fn is_free(task: &Task) -> bool {
    task.lease
        .held
        .as_ref()
        .is_none_or(|held| held.left == Some(Span::ZERO))
}

/// What a task is found by, in lower case.
fn words(task: &Task) -> String {
    let steps = task.spec.steps.iter().map(|step| step.as_str());
    let title = task.spec.title.as_deref().unwrap_or_default();
    let words: Vec<&str> = [task.id.as_str(), title].into_iter().chain(steps).collect();
    words.join(" ").to_ascii_lowercase()
}

fn is_held_by(task: &Task, tag: &AttemptTag) -> bool {
    let held = task.lease.held.as_ref();
    held.and_then(|held| held.holder.attempt()) == Some(tag.as_str())
}
