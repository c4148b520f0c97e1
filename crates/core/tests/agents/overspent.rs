//! The budget of the store: when it is spent, until when, and what becomes of agents meanwhile.

use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentEffect, AgentEvent, decide};
use relight_core::agent::overspent::decide_overspent;
use relight_core::agent::{Agent, AgentState, Cause, Pause, StopReason, Stopper};
use relight_core::store_budget::{Overspent, Spending, StoreBudget};
use relight_core::time::{Span, Time};
use relight_core::usage::{SpendLimit, Usage};

use crate::given::{agent, at, death, died, noon, running};

const HOUR: Span = Span::from_secs(3_600);

/// 10 in an hour, or 1,000 tokens.
fn budget() -> StoreBudget {
    let limit = SpendLimit {
        cost_micros: Some(10_000_000),
        tokens: Some(1_000),
    };
    StoreBudget {
        limit,
        period: HOUR,
    }
}

fn minute(number: u64) -> Time {
    noon().plus(Span::from_secs(60 * number))
}

/// What was spent in which minute.
fn spending(moments: &[(u64, u64)]) -> Spending {
    let mut spending = Spending::default();
    for (at, cost) in moments {
        let used = Usage {
            cost_micros: cost * 1_000_000,
            ..Usage::default()
        };
        spending.add(minute(*at), used);
    }
    spending
}

fn overspent() -> Overspent {
    Overspent {
        why: "spent".to_owned(),
        since: minute(1),
        until: minute(61),
    }
}

#[test]
fn a_budget_is_spent_from_the_moment_it_is_reached_until_enough_is_older_than_the_period() {
    let budget = budget();
    for (moments, now, expected) in [
        (&[(0, 4), (5, 5)][..], 6, None),
        (&[(0, 4), (5, 6)][..], 6, Some((5, 60))),
        // The first is too little to forget.
        (&[(0, 1), (5, 6), (9, 5)][..], 10, Some((9, 65))),
        (&[(0, 4), (5, 6)][..], 61, None),
        // What was spent beyond the limit makes it longer.
        (&[(0, 4), (5, 6), (7, 6)][..], 8, Some((5, 65))),
        (&[(0, 4), (5, 6), (7, 6)][..], 61, Some((7, 65))),
    ] {
        let found = budget.overspent(&spending(moments), minute(now));
        let found = found.map(|spent| (spent.since, spent.until));
        let expected = expected.map(|(since, until)| {
            let until = minute(until).plus(Span::from_ms(1));
            (minute(since), until)
        });
        assert_eq!(found, expected, "{moments:?} at {now}");
    }
}

#[test]
fn tokens_count_too_and_the_text_says_which_limit_it_was() {
    let mut used = Spending::default();
    let tokens = |input_tokens, output_tokens| Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    };
    used.add(minute(0), tokens(400, 100));
    assert_eq!(budget().overspent(&used, minute(1)), None);
    used.add(minute(1), tokens(400, 100));
    let found = budget().overspent(&used, minute(1)).expect("it is spent");
    assert_eq!(
        found.why,
        "the agents of this store have used 1000 tokens within 1h ([budget] tokens_max is 1000)"
    );
    let unlimited = StoreBudget::default();
    assert!(unlimited.is_unlimited());
    assert_eq!(unlimited.overspent(&used, minute(1)), None);
}

/// The agent after the event, and whether an attempt begins or is ended.
fn react(agent: &Agent, event: AgentEvent, now: Time) -> (Agent, &'static str) {
    let decision = decide_overspent(agent, event, at(now), &overspent());
    let mut after = agent.clone();
    for change in &decision.changes {
        change.apply(&mut after, now);
    }
    let done = decision.effects.iter().find_map(|effect| match effect {
        AgentEffect::Spawn { .. } => Some("begins"),
        AgentEffect::StopTree(_) => Some("ends"),
        _ => None,
    });
    (after, done.unwrap_or("-"))
}

fn paused() -> AgentState {
    AgentState::Suspended {
        why: Pause::Budget,
        until: Some(minute(61)),
    }
}

#[test]
fn nothing_begins_while_it_is_spent() {
    let shutdown = AgentState::Stopped {
        by: Stopper::Shutdown,
    };
    let due = AgentState::Crashed {
        again_at: Some(minute(2)),
    };
    for (state, event) in [
        (AgentState::Created, AgentEvent::Wake),
        (shutdown, AgentEvent::Wake),
        (paused(), AgentEvent::Wake),
        (due, AgentEvent::Due),
        (running(None), died(death(HowEnded::Signal(9)))),
    ] {
        let before = Agent {
            tally: Default::default(),
            ..agent(state.clone())
        };
        let (after, done) = react(&before, event.clone(), minute(2));
        assert_eq!((after.state, done), (paused(), "-"), "{state:?} {event:?}");
    }
}

#[test]
fn what_runs_is_ended_and_begins_again_without_a_charge_when_it_is_over() {
    let (ending, done) = react(&agent(running(None)), AgentEvent::Overspent, minute(2));
    assert_eq!(
        (&ending.state, done),
        (&running(Some(StopReason::Budget)), "ends"),
        "recorded before the signal"
    );
    let (_, again) = react(&ending, AgentEvent::Overspent, minute(2));
    assert_eq!(again, "-", "one stop is enough");
    let signal = death(HowEnded::Signal(15));
    assert_eq!(signal.cause(Some(StopReason::Budget)), Cause::Stopped);
    let (paused_now, done) = react(&ending, died(signal), minute(3));
    assert_eq!((&paused_now.state, done), (&paused(), "-"));
    assert_eq!(paused_now.tally, agent(running(None)).tally);
    let woken = decide(&paused_now, AgentEvent::Wake, at(minute(61)));
    let begins = |effect: &AgentEffect| matches!(effect, AgentEffect::Spawn { .. });
    assert!(woken.effects.iter().any(begins), "{woken:?}");
}

#[test]
fn one_that_succeeds_while_it_is_being_ended_has_succeeded() {
    let ending = agent(running(Some(StopReason::Budget)));
    let success = relight_core::agent::Death {
        said: Some(ReportedEnd::Success),
        ..death(HowEnded::Code(0))
    };
    let (after, _) = react(&ending, died(success), minute(3));
    let finished = AgentState::Stopped {
        by: Stopper::Itself,
    };
    assert_eq!(after.state, finished);
}

#[test]
fn a_person_lets_an_agent_continue_until_the_budget_is_spent_again() {
    let (started, done) = react(&agent(paused()), AgentEvent::Start, minute(2));
    assert_eq!(done, "begins");
    let (after, done) = react(&started, AgentEvent::Overspent, minute(3));
    assert_eq!((after.state, done), (started.state.clone(), "-"));
    let (_, done) = react(&started, died(death(HowEnded::Signal(9))), minute(3));
    assert_eq!(done, "begins", "it is brought back like any other");
    let later = Overspent {
        since: minute(4),
        ..overspent()
    };
    let decision = decide_overspent(&started, AgentEvent::Overspent, at(minute(5)), &later);
    let ends = AgentEffect::StopTree(StopReason::Budget);
    assert_eq!(decision.effects, [ends]);
    let ending = agent(running(Some(StopReason::Budget)));
    let (restarted, _) = react(&ending, AgentEvent::Start, minute(2));
    assert_eq!(restarted.state, running(Some(StopReason::Restart)));
    let (_, done) = react(&restarted, died(death(HowEnded::Signal(15))), minute(3));
    assert_eq!(done, "begins");
}
