//! One batch in memory: what was read of all that it concerns, the commits applied to it in their
//! order, and what is to be written.
//!
//! The meaning of a change is `Change::apply`, what refuses it is in `check`; both are the same for
//! every backend. An operation that is refused has changed nothing here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use relight_core::change::Change;
use relight_core::ids::{IdempotencyKey, SessionKey, TaskId};
use relight_core::session::{Session, SessionChange};
use relight_core::step::{StepKey, StepState};
use relight_core::time::Time;
use serde_json::Value;

use super::apply_agent::Agents;
use super::journal::Entry;
use super::lease_clock::until;
use super::nodes::Nodes;
use super::operation::{Answer, Operation, Reply};
use super::tasks::TaskRow;
use crate::check;
use crate::contract::{Commit, CommitError, Committed, Told};

/// Everything that a batch concerns.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The lease clock, read once all rows were held.
    pub(super) now_ms: i64,
    pub(super) place: String,
    pub(super) tasks: BTreeMap<TaskId, TaskEntry>,
    /// Those that another writer is at, or that are not there.
    pub(super) passed: BTreeSet<TaskId>,
    /// Whose the keys are that somebody wants.
    pub(super) keys: HashMap<IdempotencyKey, TaskId>,
    /// Numbers for tasks to be.
    pub(super) task_numbers: Vec<i64>,
    pub(super) agents: Agents,
    pub(super) sessions: BTreeMap<SessionKey, SessionEntry>,
    pub(super) records: BTreeMap<String, RecordEntry>,
    pub(super) nodes: Nodes,
    pub(super) journal: Vec<Entry>,
}

/// A task of the batch.
#[derive(Debug)]
pub(super) struct TaskEntry {
    pub(super) row: TaskRow,
    /// Where its concerned steps stand.
    pub(super) steps: HashMap<StepKey, StepState>,
    pub(super) touched: Touched,
}

/// What must be written of a task.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) is_new: bool,
    pub(super) hot: bool,
    pub(super) body: bool,
    pub(super) lease: bool,
    pub(super) cleared: bool,
}

/// A session of the batch.
#[derive(Debug, Default)]
pub(super) struct SessionEntry {
    /// 0 when it is not there.
    pub(super) seq: u64,
    pub(super) lease_until: Option<i64>,
    pub(super) is_there: bool,
    /// What is to be written.
    pub(super) next: Option<Session>,
}

/// A small record of the batch.
#[derive(Debug, Default)]
pub(super) struct RecordEntry {
    pub(super) value: Option<Value>,
    pub(super) is_there: bool,
    pub(super) is_changed: bool,
}

impl Batch {
    /// Does it, or says why not.
    pub(super) fn perform(&mut self, operation: &Operation) -> Reply {
        match operation {
            Operation::Commit(commit) | Operation::TryCommit(commit) => {
                Ok(Answer::Committed(self.commit(commit)?))
            }
            Operation::Renew(task, fence) => {
                let guard = relight_core::decide::Guard { fence: Some(*fence), seq: None };
                let (task, at) = (task.clone(), Time::from_ms(0));
                self.commit(&Commit { task, guard, at, changes: Vec::new() })?;
                Ok(Answer::Renewed)
            }
            Operation::CommitAgent(commit) => {
                let (now_ms, place) = (self.now_ms, &self.place);
                let made = self.agents.commit(commit, now_ms, place, &mut self.journal)?;
                Ok(Answer::Committed(made))
            }
            Operation::CommitSessions(changes, at) => {
                let made = changes.iter().map(|change| self.commit_session(change, *at)).collect();
                Ok(Answer::SessionsCommitted(made))
            }
            Operation::Keep { name, before, now, told } => {
                Ok(Answer::Kept(self.keep(name, before.as_ref(), now, told)))
            }
            of_node => Ok(self.change_node(of_node)),
        }
    }

    fn commit(&mut self, commit: &Commit) -> Result<Committed, CommitError> {
        let after = self.check(commit)?;
        if let Some(Change::Created(new)) = commit.changes.first() {
            let n = self.task_numbers.pop().expect("there is a number for each task to be");
            let task = Change::first(new, commit.at);
            let row = TaskRow { n, task, lease_until: None };
            let touched = Touched { is_new: true, body: true, ..Touched::default() };
            let entry = TaskEntry { row, steps: HashMap::new(), touched };
            self.tasks.insert(commit.task.clone(), entry);
        }
        let entry = self.tasks.get_mut(&commit.task).expect("a checked commit has its task");
        for change in &commit.changes {
            entry.touched.add(change);
            self.journal.push(Entry::of(entry.row.n, commit, change, &entry.row.task));
            change.apply(&mut entry.row.task, commit.at);
        }
        if after.cleared {
            entry.steps.clear();
        }
        entry.steps.extend(after.states);
        entry.row.task.seq += u64::from(!commit.changes.is_empty());
        let takes = |change: &Change| matches!(change, Change::LeaseTaken { .. });
        if commit.guard.fence.is_some() || commit.changes.iter().any(takes) {
            entry.renew(self.now_ms);
        }
        let lease = &entry.row.task.lease;
        let committed = Committed { seq: entry.row.task.seq, fence: lease.fence };
        if let Some(key) = check::key_given(commit) {
            self.keys.retain(|_, owner| *owner != commit.task);
            self.keys.insert(key.clone(), commit.task.clone());
        } else if commit.changes.iter().any(|change| matches!(change, Change::Replaced(_))) {
            self.keys.retain(|_, owner| *owner != commit.task);
        }
        Ok(committed)
    }

    /// Everything that can refuse a commit, before anything is changed.
    fn check(&self, commit: &Commit) -> Result<check::StepsAfter, CommitError> {
        let entry = self.tasks.get(&commit.task);
        let newest = |key: &StepKey| entry.and_then(|entry| entry.steps.get(key).copied());
        if matches!(commit.changes.first(), Some(Change::Created(_))) {
            if entry.is_some() {
                return Err(CommitError::Exists(commit.task.clone()));
            }
            self.check_key(commit)?;
            return check::steps(commit, newest);
        }
        let known = entry.ok_or_else(|| match self.passed.contains(&commit.task) {
            true => CommitError::Moved(commit.task.clone()),
            false => CommitError::Absent(commit.task.clone()),
        })?;
        check::guard(&known.row.task, commit.guard)?;
        let after = check::steps(commit, newest)?;
        self.check_key(commit)?;
        Ok(after)
    }

    fn check_key(&self, commit: &Commit) -> Result<(), CommitError> {
        let Some(key) = check::key_given(commit) else { return Ok(()) };
        match self.keys.get(key).filter(|owner| **owner != commit.task) {
            Some(owner) => Err(CommitError::KeyTaken { key: key.clone(), task: owner.clone() }),
            None => Ok(()),
        }
    }

    fn change_node(&mut self, operation: &Operation) -> Answer {
        let (now_ms, journal) = (self.now_ms, &mut self.journal);
        let nodes = &mut self.nodes;
        Answer::NodeChanged(match operation {
            Operation::JoinNode(node, last, at) => {
                return Answer::NodeJoined(nodes.join(node, *last, *at, now_ms, journal));
            }
            Operation::LeaveNode(name, epoch, at) => {
                nodes.leave(name, *epoch, *at, now_ms, journal)
            }
            Operation::DrainNode(name, draining, at) => nodes.drain(name, *draining, *at, journal),
            Operation::ForgetNode(name, at) => nodes.forget(name, *at, now_ms, journal),
            other => unreachable!("{other:?} is about no node"),
        })
    }

    fn commit_session(&mut self, change: &SessionChange, at: Time) -> bool {
        let entry = self.sessions.entry(change.next.key.clone()).or_default();
        let is_there = entry.is_there || entry.next.is_some();
        let is_unchecked = !check::fence_checked() && is_there && change.next.seq != 0;
        if entry.seq != change.next.seq && !is_unchecked {
            return false;
        }
        if change.renews || !is_there {
            let ttl = change.next.owner().and_then(|held| held.ttl);
            entry.lease_until = until(ttl, self.now_ms);
        }
        entry.seq += 1;
        entry.next = Some(Session { seq: entry.seq, ..change.next.clone() });
        for told in &change.told {
            self.journal.push(Entry::of_nothing(at, told.kind, &told.detail));
        }
        true
    }

    fn keep(&mut self, name: &str, before: Option<&Value>, now: &Value, told: &[Told]) -> bool {
        let entry = self.records.entry(name.to_owned()).or_default();
        if entry.value.as_ref() != before {
            return false;
        }
        entry.value = Some(now.clone());
        entry.is_changed = true;
        let entries = told.iter().map(|told| Entry::of_nothing(told.at, told.kind, &told.detail));
        self.journal.extend(entries);
        true
    }
}

impl TaskEntry {
    /// The lease has its whole time again.
    fn renew(&mut self, now_ms: i64) {
        let ttl = self.row.task.lease.held.as_ref().and_then(|held| held.ttl);
        self.row.lease_until = until(ttl, now_ms);
        self.touched.hot |= ttl.is_some();
    }
}

impl Touched {
    fn add(&mut self, change: &Change) {
        self.hot |= !matches!(change, Change::Created(_));
        match change {
            Change::Replaced(_)
            | Change::Door(_)
            | Change::ContextSet(_)
            | Change::StepsDeclared(_) => self.body = true,
            Change::LeaseTaken { .. } | Change::LeaseEnded | Change::FenceRaised => {
                self.lease = true;
            }
            Change::StepsCleared => self.cleared = true,
            Change::Created(_)
            | Change::Status { .. }
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
            | Change::Noted(..) => {}
        }
    }
}
