//! A batch of step records of lease holders: one round trip, by a database function (`append_steps`)
//! that compares the guards.
//!
//! These are most of a fleet's writes. If any guard fails, the function changes nothing and the batch is
//! committed the general way, which knows each reason to refuse.

use std::collections::{BTreeMap, HashSet};

use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::TaskId;
use relight_core::lease::Fence;
use relight_core::step::StepKey;
use tokio_postgres::Row;

use super::connection::{Value, get, values};
use super::journal;
use crate::apply::{JournalEntry, StepCounts};
use crate::commit_guards;
use crate::contract::{Commit, Committed, Operation, OperationReply, OperationResult};
use crate::record::BadValue;

/// For many records: the parameters of the function, then the columns of the records in order.
const APPEND: &str = "
    SELECT append_steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                        s_at => $16, s_kind => $17::bigint[]::smallint[], s_fence => $18,
                        s_name => $19, s_occurrence => $20, s_rule => $21::bigint[]::smallint[],
                        s_tries => $22, s_fingerprint => $23,
                        s_exit_code => $24::bigint[]::integer[], s_detail => $25, s_body => $26)";

/// For one record.
const APPEND_ONE: &str = "
    SELECT append_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                       s_kind => $14::bigint::smallint, s_name => $15, s_occurrence => $16,
                       s_rule => $17::bigint::smallint, s_tries => $18, s_fingerprint => $19,
                       s_exit_code => $20::bigint::integer, s_detail => $21, s_body => $22)";

/// The task's newest sequence number; none if it was removed.
pub(super) const SEQS: &str = "
    SELECT array_agg((SELECT seq FROM task WHERE task.id = w.id) ORDER BY w.place)
    FROM unnest($1::text[]) WITH ORDINALITY AS w (id, place)";

/// Steps of many tasks.
#[derive(Debug)]
pub(super) struct StepBatch<'o> {
    tasks: BTreeMap<&'o TaskId, TaskSteps>,
    /// The journal records, each with its task.
    records: Vec<(&'o TaskId, bool, JournalEntry<'o>)>,
    /// The task of each commit, in order.
    commits: Vec<&'o TaskId>,
}

/// The changes of all steps of one task to its row.
#[derive(Debug)]
struct TaskSteps {
    guard: Guard,
    fence: Fence,
    commits: i64,
    at: i64,
    counts: StepCounts,
}

impl<'o> StepBatch<'o> {
    /// None if an operation is anything else, or follows another one for the same step.
    pub(super) fn of(operations: &'o [Operation]) -> Option<Self> {
        if !commit_guards::fence_checked() {
            return None;
        }
        let (tasks, records) = (BTreeMap::new(), Vec::with_capacity(operations.len()));
        let mut batch = Self {
            tasks,
            records,
            commits: Vec::with_capacity(operations.len()),
        };
        let mut seen = HashSet::with_capacity(operations.len());
        for operation in operations {
            let Operation::Commit(commit) = operation else {
                return None;
            };
            batch.add(commit, &mut seen)?;
        }
        Some(batch)
    }

    fn add(
        &mut self,
        commit: &'o Commit,
        seen: &mut HashSet<(&'o TaskId, &'o StepKey)>,
    ) -> Option<()> {
        let fence = commit.guard.fence.filter(|_| !commit.changes.is_empty())?;
        let counts = StepCounts::default();
        let first = TaskSteps {
            guard: commit.guard,
            fence,
            commits: 0,
            at: 0,
            counts,
        };
        let steps = self.tasks.entry(&commit.task).or_insert(first);
        let is_first = steps.commits == 0;
        // Only a task's first commit was decided on the stored sequence number.
        if steps.fence != fence || (!is_first && commit.guard.seq.is_some()) {
            return None;
        }
        steps.commits += 1;
        steps.at = commit.at.as_ms();
        for change in &commit.changes {
            let (Change::StepBegun(mark) | Change::StepEnded { mark, .. }) = change else {
                return None;
            };
            if !seen.insert((&commit.task, &mark.key)) {
                return None;
            }
            steps.counts.add(change, commit.at);
            let entry = JournalEntry::of_task(0, commit, change, None);
            self.records.push((&commit.task, mark.was_open, entry));
        }
        self.commits.push(&commit.task);
        Some(())
    }

    pub(super) fn task_ids(&self) -> Vec<String> {
        self.tasks.keys().map(|id| id.as_str().to_owned()).collect()
    }

    /// The statement, and its parameters after the mark, the schema, the clock and the journal's key.
    pub(super) fn statement(&mut self) -> (&'static str, Vec<Value>) {
        if self.records.len() > 1 {
            return (APPEND, self.values());
        }
        let task = self.tasks.values().next().expect("a record has its task");
        let mut all = values![
            self.commits[0].as_str().to_owned(),
            task.fence.0.cast_signed(),
            task.guard.seq.map(u64::cast_signed),
            task.counts.opened,
            task.counts.done,
            task.at,
            task.counts.progress_at,
        ];
        let (_, was_open, entry) = self.records.pop().expect("a commit of steps has a record");
        all.extend(values![was_open]);
        all.extend(journal::one_step_values(&entry));
        (APPEND_ONE, all)
    }

    fn values(&mut self) -> Vec<Value> {
        let of_tasks =
            |value: fn(&TaskSteps) -> i64| -> Vec<i64> { self.tasks.values().map(value).collect() };
        let seqs: Vec<Option<i64>> = self
            .tasks
            .values()
            .map(|task| task.guard.seq.map(u64::cast_signed))
            .collect();
        let progress: Vec<Option<i64>> = self
            .tasks
            .values()
            .map(|task| task.counts.progress_at)
            .collect();
        let mut all = values![
            self.task_ids(),
            of_tasks(|task| task.fence.0.cast_signed()),
            seqs,
            of_tasks(|task| task.commits),
            of_tasks(|task| task.counts.opened),
            of_tasks(|task| task.counts.done),
            of_tasks(|task| task.at),
            progress,
        ];
        let places: BTreeMap<&TaskId, i32> = self.tasks.keys().copied().zip(1..).collect();
        let (mut owners, mut were_open) = (Vec::new(), Vec::new());
        let mut entries = Vec::with_capacity(self.records.len());
        for (task, was_open, entry) in self.records.drain(..) {
            owners.push(places[task]);
            were_open.push(was_open);
            entries.push(entry);
        }
        all.extend(values![owners, were_open]);
        all.extend(journal::step_values(&entries));
        all
    }

    /// The answer to each commit, from the newest sequence number of each task.
    pub(super) fn replies(&self, row: &Row) -> Result<Vec<OperationReply>, BadValue> {
        let seqs: Vec<Option<i64>> = get(row, 0)?;
        let mut next: BTreeMap<&TaskId, (u64, Fence)> = BTreeMap::new();
        for ((id, task), seq) in self.tasks.iter().zip(seqs) {
            let before = seq.unwrap_or(task.commits).saturating_sub(task.commits);
            next.insert(id, (before.cast_unsigned(), task.fence));
        }
        let answer = |id: &&TaskId| {
            let (seq, fence) = next.get_mut(*id).expect("each commit has its task");
            *seq += 1;
            Ok(OperationResult::Committed(Committed {
                seq: *seq,
                fence: *fence,
            }))
        };
        Ok(self.commits.iter().map(answer).collect())
    }
}
