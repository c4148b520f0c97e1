//! What the memory store holds: the meaning of a commit, and the reads.

use std::collections::{BTreeMap, HashMap};

use relight_core::agent::{Attempt, AttemptTag};
use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::decide::Guard;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::Value;

use super::agents::KeptAgent;
use super::nodes::KeptNode;
use super::sessions::KeptSession;
use crate::check;
use crate::contract::{
    Commit, CommitError, Committed, EventQuery, Inventory, TaskGlance, TaskQuery,
};

#[derive(Debug, Default)]
pub(super) struct State {
    /// The lease clock, in milliseconds.
    pub(super) clock_ms: u64,
    tasks: HashMap<TaskId, Kept>,
    tasks_added: u64,
    events: BTreeMap<u64, Event>,
    /// Counts on when events are forgotten, so that no id comes twice.
    events_given: u64,
    pub(super) agents: BTreeMap<AgentName, KeptAgent>,
    /// In the order they were begun.
    pub(super) attempts: Vec<Attempt>,
    pub(super) sessions: BTreeMap<SessionKey, KeptSession>,
    pub(super) nodes: BTreeMap<NodeName, KeptNode>,
    /// Small records, by name.
    pub(super) records: HashMap<String, Value>,
}

/// A task with what a store knows beside it.
#[derive(Debug)]
struct Kept {
    /// Its `left` is of no meaning here; `read` fills it in.
    task: Task,
    /// Its place in the order of adding.
    added: u64,
    /// When its lease runs out, by the lease clock.
    lease_ends_ms: Option<u64>,
    /// Appended to, never rewritten.
    records: Vec<Record>,
}

/// One record of a task's steps.
#[derive(Debug)]
enum Record {
    Begun(Step),
    Ended(Step, Option<Output>),
    Cleared,
}

impl State {
    pub(super) fn advance(&mut self, span: Span) {
        self.clock_ms = self.clock_ms.saturating_add(span.as_ms());
    }

    pub(super) fn set_back(&mut self, span: Span) {
        self.clock_ms = self.clock_ms.saturating_sub(span.as_ms());
    }

    // Commits

    pub(super) fn commit(&mut self, commit: &Commit) -> Result<Committed, CommitError> {
        self.check(commit)?;
        if let Some(Change::Created(new)) = commit.changes.first() {
            self.tasks_added += 1;
            let first = Kept::new(Change::first(new, commit.at), self.tasks_added);
            self.tasks.insert(commit.task.clone(), first);
        }
        for change in &commit.changes {
            self.apply(commit, change);
        }
        let clock_ms = self.clock_ms;
        let kept = self.tasks.get_mut(&commit.task).expect("a checked commit has its task");
        kept.task.seq += u64::from(!commit.changes.is_empty());
        if commit.guard.fence.is_some() {
            kept.renew(clock_ms);
        }
        Ok(Committed { seq: kept.task.seq, fence: kept.task.lease.fence })
    }

    pub(super) fn renew(&mut self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        self.check_guard(task, Guard { fence: Some(fence), seq: None })?;
        let clock_ms = self.clock_ms;
        self.tasks.get_mut(task).expect("a checked guard has its task").renew(clock_ms);
        Ok(())
    }

    /// Everything that can refuse a commit, before anything is changed.
    fn check(&self, commit: &Commit) -> Result<(), CommitError> {
        check::assert_shape(commit);
        match commit.changes.first() {
            Some(Change::Created(_)) => {
                if self.tasks.contains_key(&commit.task) {
                    return Err(CommitError::Exists(commit.task.clone()));
                }
            }
            _ => self.check_guard(&commit.task, commit.guard)?,
        }
        let created = matches!(commit.changes.first(), Some(Change::Created(_)));
        if created {
            self.check_key(commit)?;
            return self.check_steps(commit);
        }
        self.check_steps(commit)?;
        self.check_key(commit)
    }

    fn check_steps(&self, commit: &Commit) -> Result<(), CommitError> {
        let newest = |key: &StepKey| self.step(&commit.task, key).map(|step| step.state);
        check::steps(commit, newest).map(drop)
    }

    fn check_guard(&self, id: &TaskId, guard: Guard) -> Result<(), CommitError> {
        let kept = self.tasks.get(id).ok_or_else(|| CommitError::Absent(id.clone()))?;
        check::guard(&kept.task, guard)
    }

    /// The key that the task has after the commit belongs to no other task.
    fn check_key(&self, commit: &Commit) -> Result<(), CommitError> {
        let Some(key) = check::key_given(commit) else { return Ok(()) };
        match self.task_with_key(key).filter(|owner| owner.id != commit.task) {
            Some(owner) => Err(CommitError::KeyTaken { key: key.clone(), task: owner.id }),
            None => Ok(()),
        }
    }

    fn apply(&mut self, commit: &Commit, change: &Change) {
        let kept = self.tasks.get_mut(&commit.task).expect("a checked commit has its task");
        let existed = !matches!(change, Change::Created(_));
        let event = Event {
            id: 0,
            at: commit.at,
            kind: change.kind(),
            agent: None,
            task: Some(commit.task.clone()),
            step: change.mark().map(|mark| mark.key.clone()),
            fence: commit.guard.fence,
            detail: change.detail(existed.then_some(&kept.task)),
        };
        change.apply(&mut kept.task, commit.at);
        kept.records.extend(record(commit, change));
        if matches!(change, Change::LeaseTaken { .. }) {
            kept.renew(self.clock_ms);
        }
        self.tell(event);
    }

    /// Gives the event the next id.
    pub(super) fn tell(&mut self, event: Event) {
        self.events_given += 1;
        self.events.insert(self.events_given, Event { id: self.events_given, ..event });
    }

    pub(super) fn untell_agent(&mut self, agent: &AgentName) {
        self.events.retain(|_, event| event.agent.as_ref() != Some(agent));
    }

    pub(super) fn forget(&mut self, tasks: Vec<(TaskId, u64)>, at: Time) -> Vec<TaskId> {
        let mut forgotten = Vec::new();
        for (id, seq) in tasks {
            if self.tasks.get(&id).is_some_and(|kept| kept.task.seq == seq) {
                self.tasks.remove(&id);
                self.events.retain(|_, event| event.task.as_ref() != Some(&id));
                self.tell_of_nothing(EventKind::TaskForgotten, serde_json::json!({"task": id}), at);
                forgotten.push(id);
            }
        }
        forgotten
    }

    /// By an event of no task and no agent: those of the removed one are gone with it, and a session is
    /// named by the detail.
    pub(super) fn tell_of_nothing(&mut self, kind: EventKind, detail: Value, at: Time) {
        self.tell(Event {
            id: 0,
            at,
            kind,
            agent: None,
            task: None,
            step: None,
            fence: None,
            detail,
        });
    }

    /// The newest one stays, so that no id comes twice.
    pub(super) fn forget_events(&mut self, before: Time) -> u64 {
        let count = self.events.len();
        let newest = self.newest_event();
        self.events
            .retain(|id, event| event.at >= before || is_of_steps(event.kind) || *id == newest);
        (count - self.events.len()) as u64
    }

    // Reads

    pub(super) fn task(&self, id: &TaskId) -> Option<Task> {
        self.tasks.get(id).map(|kept| kept.read(self.clock_ms))
    }

    pub(super) fn task_with_key(&self, key: &IdempotencyKey) -> Option<Task> {
        let kept = self.tasks.values().find(|kept| kept.task.spec.key.as_ref() == Some(key));
        kept.map(|kept| kept.read(self.clock_ms))
    }

    /// A page after a task that is not there is empty: a pager stops instead of beginning anew.
    pub(super) fn tasks(&self, query: &TaskQuery) -> Vec<Task> {
        let after = match &query.after {
            None => 0,
            Some(id) => self.tasks.get(id).map_or(u64::MAX, |kept| kept.added),
        };
        let folder = |task: &Task| task.checkpoint.as_ref().map(|door| door.folder.clone());
        let wanted = |kept: &&Kept| {
            let task = &kept.task;
            kept.added > after
                && (query.statuses.is_empty() || query.statuses.contains(&task.status))
                && (query.agent.is_none() || query.agent == task.agent)
                && (query.checkpoint_folder.is_none() || query.checkpoint_folder == folder(task))
                && query.held_by.as_ref().is_none_or(|tag| is_held_by(task, tag))
                && (!query.held || task.lease.held.is_some())
                && (!query.in_doubt || task.steps_open > 0)
        };
        let found = self.in_order_added().into_iter().filter(wanted);
        let limit = query.limit.unwrap_or(usize::MAX);
        found.take(limit).map(|kept| kept.read(self.clock_ms)).collect()
    }

    pub(super) fn unfinished(&self) -> Vec<TaskGlance> {
        let tasks = self.in_order_added().into_iter().map(|kept| &kept.task);
        let unfinished = tasks.filter(|task| !task.status.is_terminal());
        unfinished.map(glance).collect()
    }

    pub(super) fn next_due(&self, now: Time) -> Option<Time> {
        let tasks = self.tasks.values().map(|kept| &kept.task);
        let waiting = tasks.filter(|task| Claimant::is_for_the_queue(task.status));
        waiting.filter_map(|task| task.not_before.filter(|at| *at > now)).min()
    }

    pub(super) fn claimable(&self, claimant: &Claimant, now: Time, limit: usize) -> Vec<TaskId> {
        let mut found = self.in_order_added();
        found.retain(|kept| {
            let task = kept.read(self.clock_ms);
            let due = task.not_before.is_none_or(|at| at <= now) && !task.is_expired(now);
            due && is_free(&task) && claimant.may_take(&task)
        });
        // Stable: equals stay in the order they were added.
        found.sort_by_key(|kept| std::cmp::Reverse(kept.task.spec.priority));
        found.into_iter().take(limit).map(|kept| kept.task.id.clone()).collect()
    }

    pub(super) fn step(&self, task: &TaskId, key: &StepKey) -> Option<Step> {
        let kept = self.tasks.get(task)?;
        kept.current().rev().filter_map(Record::step).find(|step| step.key == *key).cloned()
    }

    pub(super) fn steps(&self, task: &TaskId) -> Vec<Step> {
        let Some(kept) = self.tasks.get(task) else { return Vec::new() };
        let mut places: HashMap<&StepKey, usize> = HashMap::new();
        let mut steps: Vec<Step> = Vec::new();
        for step in kept.current().filter_map(Record::step) {
            let place = *places.entry(&step.key).or_insert(steps.len());
            if place == steps.len() {
                steps.push(step.clone());
            } else {
                steps[place] = step.clone();
            }
        }
        steps
    }

    /// A person's word that a step happened is an end too, and gave nothing.
    pub(super) fn output(&self, task: &TaskId, key: &StepKey) -> Option<Output> {
        let kept = self.tasks.get(task)?;
        let newest_end = kept.current().rev().find_map(|record| match record {
            Record::Ended(step, output) if step.key == *key => Some(output.clone()),
            Record::Begun(_) | Record::Ended(..) | Record::Cleared => None,
        });
        newest_end.flatten()
    }

    pub(super) fn events(&self, query: &EventQuery) -> Vec<Event> {
        let later = self.events.range(query.after.saturating_add(1)..).map(|(_, event)| event);
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
        let count = |status| self.tasks.values().filter(|kept| kept.task.status == status).count();
        let tasks = TaskStatus::ALL.map(|status| (status, count(status) as u64));
        let in_doubt = self.tasks.values().filter(|kept| kept.task.steps_open > 0).count();
        Inventory {
            backend: "memory".to_owned(),
            place: "memory".to_owned(),
            tasks: tasks.into_iter().filter(|(_, count)| *count > 0).collect(),
            agents: self.agents_by_state(),
            sessions: self.sessions_by_state(),
            events: self.events.len() as u64,
            in_doubt: in_doubt as u64,
            ..Inventory::default()
        }
    }

    fn in_order_added(&self) -> Vec<&Kept> {
        let mut all: Vec<&Kept> = self.tasks.values().collect();
        all.sort_by_key(|kept| kept.added);
        all
    }
}

impl Kept {
    fn new(task: Task, added: u64) -> Self {
        Self { task, added, lease_ends_ms: None, records: Vec::new() }
    }

    /// The lease has its whole time again.
    fn renew(&mut self, clock_ms: u64) {
        let ttl = self.task.lease.held.as_ref().and_then(|held| held.ttl);
        self.lease_ends_ms = ttl.map(|ttl| clock_ms.saturating_add(ttl.as_ms()));
    }

    fn read(&self, clock_ms: u64) -> Task {
        let mut task = self.task.clone();
        if let Some(held) = &mut task.lease.held {
            let left_ms = self.lease_ends_ms.map(|ends| ends.saturating_sub(clock_ms));
            held.left = left_ms.map(Span::from_ms);
        }
        task
    }

    /// The records since the steps were last cleared.
    fn current(&self) -> std::slice::Iter<'_, Record> {
        let cleared = self.records.iter().rposition(|record| matches!(record, Record::Cleared));
        self.records[cleared.map_or(0, |at| at + 1)..].iter()
    }
}

impl Record {
    fn step(&self) -> Option<&Step> {
        match self {
            Self::Begun(step) | Self::Ended(step, _) => Some(step),
            Self::Cleared => None,
        }
    }
}

/// What a change adds to the records of steps.
fn record(commit: &Commit, change: &Change) -> Option<Record> {
    if matches!(change, Change::StepsCleared) {
        return Some(Record::Cleared);
    }
    let step = change.step_record(commit.at, commit.guard.fence)?;
    Some(match change {
        Change::StepEnded { output, .. } => Record::Ended(step, output.clone()),
        Change::StepResolved { .. } | Change::StepSkipped { .. } => Record::Ended(step, None),
        _ => Record::Begun(step),
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

/// Nobody holds it, or its lease ran out.
fn is_free(task: &Task) -> bool {
    task.lease.held.as_ref().is_none_or(|held| held.left == Some(Span::ZERO))
}

fn is_held_by(task: &Task, tag: &AttemptTag) -> bool {
    let holder = task.lease.held.as_ref().map(|held| &held.holder);
    matches!(holder, Some(Holder::Attempt { attempt, .. }) if attempt == tag.as_str())
}

fn is_of_steps(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::StepBegun
            | EventKind::StepDone
            | EventKind::StepFailed
            | EventKind::StepResolved
            | EventKind::StepSkipped
            | EventKind::StepsCleared
    )
}
