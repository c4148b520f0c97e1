//! Agents, deaths and moments to decide upon.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{Death, HowEnded};
use relight_core::agent::decide::{AgentDecisionInput, AgentEvent};
use relight_core::agent::{Agent, AgentPlan, AgentState, AttemptTag, PostMortem, StopReason};
use relight_core::ids::AgentName;
use relight_core::restart_budget::{HourCount, Tally};
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};

/// The moment of every decision.
pub(crate) fn noon() -> Time {
    Time::from_ms(1_777_636_800_000)
}

pub(crate) fn moment() -> AgentDecisionInput {
    at(noon())
}

pub(crate) fn at(now: Time) -> AgentDecisionInput {
    AgentDecisionInput {
        now,
        jitter: 0.5,
        chance: 0x0123_4567_89ab_cdef,
        task: None,
    }
}

pub(crate) fn name() -> AgentName {
    AgentName::new("writer").expect("a valid name")
}

pub(crate) fn tag(number: u32) -> AttemptTag {
    AttemptTag::new(&name(), number, u64::from(number))
}

/// An agent that nothing happened to yet.
pub(crate) fn new_agent(plan: &AgentPlan) -> Agent {
    AgentChange::first(&name(), plan, noon())
}

/// An agent in this state, after four attempts and one recovery without progress; the tag of its fifth
/// is allocated.
pub(crate) fn agent(state: AgentState) -> Agent {
    let hour = HourCount {
        hour: noon().as_ms() / 3_600_000,
        restarts: 1,
    };
    Agent {
        state,
        attempt_number: 4,
        next_attempt: Some(tag(5)),
        tally: Tally {
            in_a_row: 1,
            deferrals: 0,
            hours: vec![hour],
        },
        iteration: 2,
        ..new_agent(&AgentPlan::default())
    }
}

pub(crate) fn running(ending: Option<StopReason>) -> AgentState {
    AgentState::Running {
        attempt: tag(4),
        since: noon(),
        ending,
    }
}

/// A death a second after the begin, of which only this is known.
pub(crate) fn death(how: HowEnded) -> Death {
    Death {
        at: noon(),
        last_sign: None,
        lived: Span::from_secs(1),
        how,
        oom: false,
        unfinished_task: None,
        made_progress: false,
        node_lost: false,
        said: None,
        note: None,
    }
}

/// The same, with its task at this status.
pub(crate) fn died_with(death: Death, task: Option<TaskStatus>) -> AgentEvent {
    let post_mortem = Box::new(PostMortem::default());
    AgentEvent::Died {
        death: Box::new(death),
        post_mortem,
        task,
    }
}

pub(crate) fn died(death: Death) -> AgentEvent {
    died_with(death, None)
}
