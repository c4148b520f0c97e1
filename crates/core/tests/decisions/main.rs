//! What becomes of a task by each event: a table that a person can check by eye, and what holds
//! for every sequence of events.

mod given;
mod properties;
mod table;
mod usage;

use relight_core::decide::{Refusal, Right, TaskEvent, decide, decide_in_turn};
use relight_core::lease::{Fence, HeldLease, Holder, HolderLife, Lease, ProcessIdentity};
use relight_core::status::TaskStatus;
use relight_core::step::{StepOutcome, StepState};
use relight_core::task::CheckpointSettings;

use given::{begin, later, noon, replace, step, step_key, task};

#[test]
fn a_replaced_task_begins_its_steps_anew_in_the_same_turn() {
    let task = task(TaskStatus::InProgress);
    let scene = given::scene(&task, None, HolderLife::Alive, Right::Unfenced);
    let finished = [step(StepState::Done)];
    let decision = decide_in_turn(&scene, &finished, vec![replace(), begin()]);
    let last = decision.map(|decision| decision.changes.last().cloned());
    let begun = last
        .unwrap()
        .and_then(|change| change.step_record(noon(), None));
    assert_eq!(
        begun.map(|step| (step.state, step.tries)),
        Some((StepState::Begun, 1))
    );
}

#[test]
fn only_a_person_hands_in_or_fails_work_that_waits_for_one() {
    let failed = table::fail();
    for (status, event) in [
        (TaskStatus::Blocked, TaskEvent::Review),
        (TaskStatus::Blocked, failed.clone()),
        (TaskStatus::Suspended, failed),
    ] {
        let waiting = task(status);
        let by = |right| {
            decide(
                &given::scene(&waiting, None, HolderLife::Gone, right),
                event.clone(),
            )
        };
        let refused = by(Right::Unfenced);
        assert!(
            matches!(refused, Err(Refusal::WaitsForPerson { .. })),
            "{event:?}: {refused:?}"
        );
        assert!(by(Right::Person).is_ok(), "{event:?}");
    }
}

#[test]
fn what_a_live_process_works_on_is_refused_to_who_is_not_part_of_it() {
    let reason = || "r".to_owned();
    let process = ProcessIdentity {
        pid: 7,
        start: 1,
        boot: "b".to_owned(),
        node: None,
    };
    let held = HeldLease {
        holder: Holder::Process(process),
        ttl: None,
        since: noon(),
        left: None,
    };
    let mut held_task = task(TaskStatus::InProgress);
    held_task.lease = Lease {
        fence: Fence(3),
        held: Some(held),
    };
    let mut workflow = held_task.clone();
    workflow.checkpoint = Some(CheckpointSettings::default());
    let open = step(StepState::Begun);
    for event in [
        begin(),
        TaskEvent::StepEnd {
            key: step_key("s"),
            outcome: StepOutcome::Done,
            output: None,
        },
        TaskEvent::StepSkip {
            key: step_key("s"),
            reason: reason(),
        },
        TaskEvent::Done { force: true },
        TaskEvent::Review,
        TaskEvent::Block {
            reason: reason(),
            is_told: false,
        },
        TaskEvent::Defer {
            until: later(),
            reason: None,
        },
    ] {
        let is_held = |task, life, right| {
            let scene = given::scene(task, Some(&open), life, right);
            matches!(decide(&scene, event.clone()), Err(Refusal::Held { .. }))
        };
        for right in [Right::Unfenced, Right::Dialect] {
            assert!(is_held(&held_task, HolderLife::Alive, right), "{event:?}");
            assert!(!is_held(&held_task, HolderLife::Gone, right), "{event:?}");
        }
        for right in [Right::Fence(Fence(3)), Right::Holder] {
            assert!(!is_held(&held_task, HolderLife::Alive, right), "{event:?}");
        }
        assert!(
            !is_held(&workflow, HolderLife::Alive, Right::Dialect),
            "{event:?}"
        );
    }
}

#[test]
fn the_lease_of_a_process_that_is_gone_is_continued_by_no_fence() {
    let process = |pid| {
        Holder::Process(ProcessIdentity {
            pid,
            start: 1,
            boot: "b".to_owned(),
            node: None,
        })
    };
    let lease = |holder| {
        let held = HeldLease {
            holder,
            ttl: None,
            since: noon(),
            left: None,
        };
        Lease {
            fence: Fence(3),
            held: Some(held),
        }
    };
    let shown = Some(Fence(3));
    let (alive, gone) = (HolderLife::Alive, HolderLife::Gone);
    assert!(lease(process(7)).is_continued_by(&process(8), shown, alive));
    assert!(!lease(process(7)).is_continued_by(&process(8), shown, gone));
    assert!(!lease(process(7)).is_continued_by(&given::person("ann"), shown, gone));
    // One by time is good for its fence until somebody else takes it.
    assert!(lease(given::person("ann")).is_continued_by(&given::person("ann"), shown, gone));
    assert!(!lease(given::person("ann")).is_continued_by(&process(8), shown, gone));
}
