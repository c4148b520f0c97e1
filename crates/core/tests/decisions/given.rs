//! Tasks, steps and events to decide upon.

use relight_core::change::Change;
use relight_core::decide::{Right, TaskDecisionInput, TaskEvent};
use relight_core::ids::{AgentName, StepName, TaskId};
use relight_core::lease::{Fence, HeldLease, Holder, HolderLife, Lease};
use relight_core::status::TaskStatus;
use relight_core::step::{RepeatRule, Step, StepKey, StepState};
use relight_core::task::{NewTask, Task};
use relight_core::time::{Span, Time};

/// The moment of every decision.
pub(crate) fn noon() -> Time {
    Time::from_ms(1_777_636_800_000)
}

pub(crate) fn later() -> Time {
    noon().plus(Span::from_secs(60))
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a valid name")
}

pub(crate) fn person(name: &str) -> Holder {
    Holder::Time {
        by: name.to_owned(),
    }
}

pub(crate) fn new_task() -> NewTask {
    NewTask::bare(TaskId::new("t").expect("a valid id"))
}

/// A task in this status that nobody holds; its newest fence is 3.
pub(crate) fn task(status: TaskStatus) -> Task {
    let lease = Lease {
        fence: Fence(3),
        held: None,
    };
    Task {
        status,
        lease,
        seq: 7,
        steps_open: 1,
        ..Change::first(&new_task(), noon())
    }
}

/// The same, held by ann.
pub(crate) fn held_task(status: TaskStatus) -> Task {
    let ttl = Some(Span::from_secs(600));
    let held = HeldLease {
        holder: person("ann"),
        ttl,
        since: noon(),
        left: ttl,
    };
    Task {
        lease: Lease {
            fence: Fence(3),
            held: Some(held),
        },
        ..task(status)
    }
}

pub(crate) fn step_key(name: &str) -> StepKey {
    StepKey::first(StepName::new(name).expect("a valid name"))
}

/// The step `s` as it was recorded, by the rule `keyed`.
pub(crate) fn step(state: StepState) -> Step {
    Step {
        key: step_key("s"),
        state,
        rule: RepeatRule::Keyed,
        tries: 1,
        fence: Fence(3),
        at: noon(),
        exit_code: None,
        fingerprint: None,
        call: None,
    }
}

pub(crate) fn scene<'a>(
    task: &'a Task,
    step: Option<&'a Step>,
    life: HolderLife,
    right: Right,
) -> TaskDecisionInput<'a> {
    TaskDecisionInput {
        task,
        step,
        steps: step.map_or(&[], std::slice::from_ref),
        life,
        right,
        caller: None,
        now: noon(),
    }
}

pub(crate) fn begin() -> TaskEvent {
    TaskEvent::StepBegin {
        key: step_key("s"),
        rule: RepeatRule::Keyed,
        fingerprint: None,
    }
}

pub(crate) fn replace() -> TaskEvent {
    TaskEvent::Replace(Box::new(new_task()))
}
