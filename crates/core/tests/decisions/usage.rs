//! Totals that are read once more, or after the task has ended.

use relight_core::change::Change;
use relight_core::decide::{Observed, Right, TaskEvent, decide};
use relight_core::lease::HolderLife;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::usage::{Reading, Usage};

use crate::given::{self, noon, replace, task};

fn tokens(input_tokens: u64) -> Usage {
    Usage {
        cost_micros: input_tokens * 2,
        input_tokens,
        ..Usage::default()
    }
}

fn read(task: &mut Task, source: &str, total: u64, base: u64) -> usize {
    let source = source.to_owned();
    let total = tokens(total);
    let readings = vec![(Reading { source, total }, tokens(base))];
    let scene = given::scene(task, None, HolderLife::Alive, Right::Unfenced);
    let used = TaskEvent::Observe(Observed::Used { readings });
    let changes = decide(&scene, used).expect("it is accepted").changes;
    changes.iter().for_each(|change| change.apply(task, noon()));
    changes.len()
}

fn used(task: &Task) -> (u64, u64) {
    (task.spec.meter.used.input_tokens, task.tally.cost_micros)
}

#[test]
fn a_total_that_is_read_again_adds_nothing() {
    let mut task = task(TaskStatus::InProgress);
    assert_eq!(read(&mut task, "session s", 100, 0), 1);
    assert_eq!(
        read(&mut task, "session s", 100, 0),
        0,
        "nothing is written"
    );
    read(&mut task, "session s", 130, 0);
    read(&mut task, "attempt a.2", 10, 0);
    assert_eq!(used(&task), (140, 280));
}

#[test]
fn what_was_used_before_the_task_was_begun_is_not_its_own() {
    let mut task = task(TaskStatus::InProgress);
    read(&mut task, "attempt a.1", 100, 60);
    read(&mut task, "attempt a.1", 110, 60);
    assert_eq!(used(&task), (50, 100));
}

#[test]
fn a_task_that_has_ended_still_counts_what_it_used() {
    let mut task = task(TaskStatus::Completed);
    read(&mut task, "attempt a.1", 7, 0);
    assert_eq!(used(&task), (7, 14));
}

#[test]
fn a_replaced_task_does_not_count_what_was_counted_before() {
    let mut task = task(TaskStatus::InProgress);
    read(&mut task, "session s", 100, 0);
    let TaskEvent::Replace(new) = replace() else {
        unreachable!("it was made so")
    };
    Change::Replaced(new).apply(&mut task, noon());
    read(&mut task, "session s", 125, 0);
    assert_eq!(used(&task), (25, 50));
}
