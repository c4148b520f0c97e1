//! What a backend has to load before it applies operations.

use std::collections::{BTreeMap, BTreeSet};

use relight_core::agent::AttemptTag;
use relight_core::agent::change::AgentChange;
use relight_core::change::Change;
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::step::StepKey;

use crate::commit_guards;
use crate::contract::{AgentCommit, Commit, Operation};

/// The records that operations read or change.
#[derive(Debug, Default)]
pub(crate) struct Concern<'o> {
    pub(crate) tasks: BTreeMap<&'o TaskId, TaskParts>,
    pub(crate) steps: BTreeSet<(&'o TaskId, &'o StepKey)>,
    /// Idempotency keys that commits assign.
    pub(crate) keys: Vec<&'o IdempotencyKey>,
    pub(crate) tasks_to_be: usize,
    pub(crate) agents: BTreeSet<&'o AgentName>,
    pub(crate) agents_to_be: usize,
    pub(crate) attempts: BTreeSet<(&'o AgentName, u32)>,
    /// Attempt tags that commits assign.
    pub(crate) tags: Vec<&'o AttemptTag>,
    pub(crate) sessions: BTreeSet<&'o SessionKey>,
    pub(crate) records: BTreeSet<&'o str>,
    pub(crate) nodes: BTreeSet<&'o NodeName>,
}

/// Which parts of a task are needed beside its hot row.
#[derive(Debug, Default)]
pub(crate) struct TaskParts {
    mentions: usize,
    is_tried: bool,
    /// Specification, context and checkpoint.
    pub(crate) body: bool,
    pub(crate) reason: bool,
    /// The holder of its lease.
    pub(crate) holder: bool,
}

impl TaskParts {
    /// Whether the task is skipped while another writer has it locked: only `TryCommit` needs it.
    pub(crate) fn is_passed_over(&self) -> bool {
        self.is_tried && self.mentions == 1
    }
}

impl<'o> Concern<'o> {
    pub(crate) fn of(operations: &'o [Operation]) -> Self {
        let mut concern = Self::default();
        for operation in operations {
            match operation {
                Operation::Commit(commit) => concern.add_task(commit),
                Operation::TryCommit(commit) => {
                    concern.add_task(commit);
                    concern.tasks.entry(&commit.task).or_default().is_tried = true;
                }
                Operation::Renew(task, _) => concern.tasks.entry(task).or_default().mentions += 1,
                Operation::CommitAgent(commit) => concern.add_agent(commit),
                Operation::CommitSessions(changes, _) => {
                    concern
                        .sessions
                        .extend(changes.iter().map(|change| &change.next.key));
                }
                Operation::Keep { name, .. } => drop(concern.records.insert(name)),
                Operation::JoinNode(node, ..) => drop(concern.nodes.insert(&node.name)),
                Operation::RenewNode(name, _)
                | Operation::LeaveNode(name, ..)
                | Operation::DrainNode(name, ..)
                | Operation::ForgetNode(name, _) => drop(concern.nodes.insert(name)),
                Operation::Remove(_) => {}
            }
        }
        concern
    }

    fn add_task(&mut self, commit: &'o Commit) {
        let parts = self.tasks.entry(&commit.task).or_default();
        parts.mentions += 1;
        self.keys.extend(commit_guards::key_given(commit));
        for change in &commit.changes {
            match change {
                Change::Created(_) => self.tasks_to_be += 1,
                Change::Replaced(_) => (parts.body, parts.reason) = (true, true),
                Change::CheckpointSettings(_)
                | Change::ContextSet(_)
                | Change::StepsDeclared(_)
                | Change::Metered { .. } => {
                    parts.body = true;
                }
                Change::Spent(usage) => parts.body |= usage.tokens() > 0,
                Change::Status { .. } => parts.reason = true,
                // Their events name the holder.
                Change::LeaseEnded | Change::FenceRaised => parts.holder = true,
                _ => {}
            }
            self.steps
                .extend(change.mark().map(|mark| (&commit.task, &mark.key)));
        }
    }

    fn add_agent(&mut self, commit: &'o AgentCommit) {
        self.agents.insert(&commit.agent);
        for change in &commit.changes {
            self.agents_to_be += usize::from(matches!(change, AgentChange::Created(_)));
            self.attempts
                .extend(change.attempt().map(|number| (&commit.agent, number)));
            if let AgentChange::Begun { tag, .. } = change {
                self.tags.push(tag);
            }
        }
    }
}
