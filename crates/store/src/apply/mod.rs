//! The applier of all backends: operations are applied to a working set in memory.
//!
//! The memory store is a working set with everything loaded. The databases load what a batch of operations
//! needs (`Concern`), apply, and write what was touched. `Change::apply` defines what a change does, `check`
//! what is refused. A refused operation leaves the working set unchanged.

mod agents;
mod concern;
mod entry;
mod nodes;
mod steps;

use std::borrow::Cow::Borrowed;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::{IdempotencyKey, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::session::{Session, SessionChange};
use relight_core::step::{StepKey, StepState};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::Value;

pub(crate) use self::agents::{AgentEntry, Agents};
pub(crate) use self::concern::{Concern, TaskParts};
pub(crate) use self::entry::JournalEntry;
pub(crate) use self::nodes::{NodeRow, Nodes};
pub(crate) use self::steps::{StepCounts, is_of_steps};
use crate::commit_guards;
use crate::contract::{
    Commit, CommitError, Committed, Operation, OperationReply, OperationResult, StoreEvent,
};

/// The loaded records.
#[derive(Debug, Default)]
pub(crate) struct WorkingSet {
    /// The lease clock, read after all rows were locked.
    pub(crate) now_ms: i64,
    /// The store's name in errors.
    pub(crate) place: Arc<str>,
    pub(crate) tasks: BTreeMap<TaskId, Box<TaskEntry>>,
    /// Tasks that were skipped: locked by another writer, or absent.
    pub(crate) passed: BTreeSet<TaskId>,
    /// Which task has an idempotency key, of the keys that operations assign.
    pub(crate) keys: HashMap<IdempotencyKey, TaskId>,
    /// Row numbers for new tasks, taken from the end.
    pub(crate) task_numbers: Vec<i64>,
    pub(crate) agents: Agents,
    pub(crate) sessions: BTreeMap<SessionKey, SessionEntry>,
    pub(crate) records: BTreeMap<String, RecordEntry>,
    pub(crate) nodes: Nodes,
}

/// A task and its store-internal fields.
#[derive(Debug)]
pub(crate) struct TaskEntry {
    /// Its row number, in the order in which tasks were added.
    pub(crate) n: i64,
    /// The `left` of its lease is not maintained here; see `lease_until`.
    pub(crate) task: Task,
    /// When its lease expires, by the lease clock.
    pub(crate) lease_until: Option<i64>,
    /// Step records up to this row of the journal were cleared.
    pub(crate) steps_from: i64,
    /// The states of the steps that were loaded or changed.
    pub(crate) steps: HashMap<StepKey, StepState>,
    pub(crate) touched: Touched,
}

/// Which parts of a task have to be written.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) is_new: bool,
    /// Lease, counts and budgets.
    pub(crate) hot: bool,
    /// Fields that the indexes of the queue cover.
    pub(crate) queue: bool,
    /// The number of open steps.
    pub(crate) open: bool,
    pub(crate) reason: bool,
    /// Specification, context and checkpoint.
    pub(crate) body: bool,
    pub(crate) lease: bool,
    pub(crate) cleared: bool,
}

/// A session of the working set.
#[derive(Debug, Default)]
pub(crate) struct SessionEntry {
    /// 0 if it does not exist.
    pub(crate) seq: u64,
    pub(crate) lease_until: Option<i64>,
    /// Whether it exists in the database.
    pub(crate) is_there: bool,
    /// The session to write.
    pub(crate) next: Option<Session>,
}

/// A small record of the working set.
#[derive(Debug, Default)]
pub(crate) struct RecordEntry {
    pub(crate) value: Option<Value>,
    /// Whether it exists in the database.
    pub(crate) is_there: bool,
    pub(crate) is_changed: bool,
}

/// When a lease that is renewed now expires; none without a time limit.
pub(crate) fn until(ttl: Option<Span>, now_ms: i64) -> Option<i64> {
    ttl.map(|ttl| now_ms.saturating_add_unsigned(ttl.as_ms()))
}

/// The time left of a lease.
pub(crate) fn left(until_ms: Option<i64>, now_ms: i64) -> Span {
    let left = until_ms.map_or(0, |until| until.saturating_sub(now_ms));
    Span::from_ms(left.max(0).cast_unsigned())
}

impl WorkingSet {
    /// Applies an operation, and appends its events to `journal`.
    pub(crate) fn perform<'o>(
        &mut self,
        operation: &'o Operation,
        journal: &mut Vec<JournalEntry<'o>>,
    ) -> OperationReply {
        let now_ms = self.now_ms;
        Ok(match operation {
            Operation::Commit(commit) | Operation::TryCommit(commit) => {
                OperationResult::Committed(self.commit(commit, journal)?)
            }
            Operation::Renew(task, fence) => {
                self.renew(task, *fence)?;
                OperationResult::Renewed
            }
            Operation::CommitAgent(commit) => OperationResult::Committed(self.agents.commit(
                commit,
                now_ms,
                &self.place,
                journal,
            )?),
            Operation::CommitSessions(changes, at) => {
                let made = changes
                    .iter()
                    .map(|change| self.commit_session(change, *at, journal));
                OperationResult::Sessions(made.collect())
            }
            Operation::Keep {
                name,
                before,
                now,
                told,
            } => OperationResult::Changed(self.keep(name, before.as_ref(), now, told, journal)),
            Operation::JoinNode(node, last, at) => {
                OperationResult::Joined(self.nodes.join(node, *last, *at, now_ms, journal))
            }
            Operation::RenewNode(name, epoch) => {
                OperationResult::Changed(self.nodes.renew(name, *epoch, now_ms))
            }
            Operation::LeaveNode(name, epoch, at) => {
                OperationResult::Changed(self.nodes.leave(name, *epoch, *at, now_ms, journal))
            }
            Operation::DrainNode(name, draining, at) => {
                OperationResult::Changed(self.nodes.drain(name, *draining, *at, journal))
            }
            Operation::ForgetNode(name, at) => {
                OperationResult::Changed(self.nodes.forget(name, *at, now_ms, journal))
            }
            Operation::Remove(removal) => unreachable!("each backend does by itself: {removal:?}"),
        })
    }

    fn commit<'o>(
        &mut self,
        commit: &'o Commit,
        journal: &mut Vec<JournalEntry<'o>>,
    ) -> Result<Committed, CommitError> {
        let after = self.check(commit)?;
        if let Some(Change::Created(new)) = commit.changes.first() {
            let n = self
                .task_numbers
                .pop()
                .expect("there is a number for each task to be");
            let touched = Touched {
                is_new: true,
                ..Touched::default()
            };
            let entry = TaskEntry {
                touched,
                ..TaskEntry::new(n, Change::first(new, commit.at))
            };
            self.tasks.insert(commit.task.clone(), Box::new(entry));
        }
        let entry = self
            .tasks
            .get_mut(&commit.task)
            .expect("a checked commit has its task");
        for change in &commit.changes {
            journal.push(JournalEntry::of_task(
                entry.n,
                commit,
                change,
                Some(&entry.task),
            ));
            entry.apply(change, commit.at);
        }
        if after.cleared {
            entry.steps.clear();
        }
        entry.steps.extend(after.states);
        entry.task.seq += u64::from(!commit.changes.is_empty());
        let takes = |change: &Change| matches!(change, Change::LeaseTaken { .. });
        if commit.guard.fence.is_some() || commit.changes.iter().any(takes) {
            entry.renew(self.now_ms);
        }
        let committed = Committed {
            seq: entry.task.seq,
            fence: entry.task.lease.fence,
        };
        if commit
            .changes
            .iter()
            .any(|change| matches!(change, Change::Replaced(_)))
        {
            self.keys.retain(|_, owner| *owner != commit.task);
        }
        let key = commit_guards::key_given(commit).map(|key| (key.clone(), commit.task.clone()));
        self.keys.extend(key);
        Ok(committed)
    }

    fn renew(&mut self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        let entry = self
            .tasks
            .get_mut(task)
            .ok_or_else(|| CommitError::Absent(task.clone()))?;
        commit_guards::guard(
            &entry.task,
            Guard {
                fence: Some(fence),
                seq: None,
            },
        )?;
        entry.renew(self.now_ms);
        Ok(())
    }

    /// All reasons to refuse a commit; nothing is changed before.
    fn check(&self, commit: &Commit) -> Result<commit_guards::StepsAfter, CommitError> {
        let entry = self.tasks.get(&commit.task);
        let newest = |key: &StepKey| entry.and_then(|entry| entry.steps.get(key).copied());
        if matches!(commit.changes.first(), Some(Change::Created(_))) {
            if entry.is_some() {
                return Err(CommitError::Exists(commit.task.clone()));
            }
            self.check_key(commit)?;
            return commit_guards::steps(commit, newest);
        }
        let known = entry.ok_or_else(|| match self.passed.contains(&commit.task) {
            true => CommitError::Moved(commit.task.clone()),
            false => CommitError::Absent(commit.task.clone()),
        })?;
        commit_guards::guard(&known.task, commit.guard)?;
        let after = commit_guards::steps(commit, newest)?;
        self.check_key(commit)?;
        Ok(after)
    }

    /// The idempotency key that the commit assigns must not belong to another task.
    fn check_key(&self, commit: &Commit) -> Result<(), CommitError> {
        let Some(key) = commit_guards::key_given(commit) else {
            return Ok(());
        };
        match self.keys.get(key).filter(|owner| **owner != commit.task) {
            Some(owner) => Err(CommitError::KeyTaken {
                key: key.clone(),
                task: owner.clone(),
            }),
            None => Ok(()),
        }
    }

    fn commit_session<'o>(
        &mut self,
        change: &'o SessionChange,
        at: Time,
        journal: &mut Vec<JournalEntry<'o>>,
    ) -> bool {
        let entry = self.sessions.entry(change.next.key.clone()).or_default();
        let is_there = entry.is_there || entry.next.is_some();
        let is_unchecked = !commit_guards::fence_checked() && is_there && change.next.seq != 0;
        if entry.seq != change.next.seq && !is_unchecked {
            return false;
        }
        if change.renews || !is_there {
            let ttl = change.next.owner().and_then(|held| held.ttl);
            entry.lease_until = until(ttl, self.now_ms);
        }
        entry.seq += 1;
        entry.next = Some(Session {
            seq: entry.seq,
            ..change.next.clone()
        });
        let told = change.told.iter();
        journal.extend(
            told.map(|told| JournalEntry::of_nothing(at, told.kind, Borrowed(&told.detail))),
        );
        true
    }

    fn keep<'o>(
        &mut self,
        name: &str,
        before: Option<&Value>,
        now: &Value,
        told: &'o [StoreEvent],
        journal: &mut Vec<JournalEntry<'o>>,
    ) -> bool {
        let entry = self.records.entry(name.to_owned()).or_default();
        if entry.value.as_ref() != before {
            return false;
        }
        entry.value = Some(now.clone());
        entry.is_changed = true;
        let entry = |told: &'o StoreEvent| {
            JournalEntry::of_nothing(told.at, told.kind, Borrowed(&told.detail))
        };
        journal.extend(told.iter().map(entry));
        true
    }
}

impl TaskEntry {
    /// An entry without lease time and steps.
    pub(crate) fn new(n: i64, task: Task) -> Self {
        let (steps, touched) = (HashMap::new(), Touched::default());
        Self {
            n,
            task,
            lease_until: None,
            steps_from: 0,
            steps,
            touched,
        }
    }

    fn apply(&mut self, change: &Change, at: Time) {
        let (open, reason) = (self.task.steps_open, self.task.reason.clone());
        self.touched.add(change);
        change.apply(&mut self.task, at);
        self.touched.open |= self.task.steps_open != open;
        self.touched.reason |= self.task.reason != reason;
    }

    /// Restarts the time of the lease.
    fn renew(&mut self, now_ms: i64) {
        let ttl = self.task.lease.held.as_ref().and_then(|held| held.ttl);
        self.lease_until = until(ttl, now_ms);
        self.touched.hot |= ttl.is_some();
    }
}

impl Touched {
    fn add(&mut self, change: &Change) {
        self.hot |= !matches!(change, Change::Created(_));
        match change {
            Change::Replaced(_) | Change::CheckpointSettings(_) => {
                (self.body, self.queue) = (true, true);
            }
            Change::ContextSet(_) | Change::StepsDeclared(_) | Change::Metered { .. } => {
                self.body = true;
            }
            // Tokens are kept with the specification.
            Change::Spent(usage) => self.body |= usage.tokens() > 0,
            Change::Status { .. }
            | Change::Assigned(_)
            | Change::Pinned(_)
            | Change::Retried
            | Change::Tally(_)
            | Change::NotBefore(_) => self.queue = true,
            Change::LeaseTaken { .. } | Change::LeaseEnded | Change::FenceRaised => {
                self.lease = true;
            }
            Change::StepsCleared => self.cleared = true,
            Change::Created(_)
            | Change::StepBegun(_)
            | Change::StepEnded { .. }
            | Change::StepResolved { .. }
            | Change::StepSkipped { .. }
            | Change::Noted(..) => {}
        }
    }
}
