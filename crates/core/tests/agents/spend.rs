//! What an agent uses, and what becomes of one that spends without progress.

use relight_core::agent::death::{Death, HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentDecision, AgentEffect, AgentEvent, decide};
use relight_core::agent::{Agent, AgentState, Cause, Pause, StopReason};
use relight_core::event::EventKind;
use relight_core::usage::{Reading, SpendLimit, Usage};

use crate::given::{agent, death, died, moment, noon, running};

/// It may spend 1.5 without progress.
fn limited(state: AgentState) -> Agent {
    let mut agent = agent(state);
    agent.plan.spend = SpendLimit {
        cost_micros: Some(1_500_000),
        tokens: None,
    };
    agent
}

fn used(source: &str, cost_micros: u64, made_progress: bool) -> AgentEvent {
    let total = Usage {
        cost_micros,
        ..Usage::default()
    };
    let source = source.to_owned();
    AgentEvent::Used {
        readings: vec![Reading { source, total }],
        made_progress,
        is_alive: true,
        is_charged: true,
    }
}

fn apply(agent: &mut Agent, decision: &AgentDecision) {
    for change in &decision.changes {
        change.apply(agent, noon());
    }
}

fn is_ended(decision: &AgentDecision) -> bool {
    decision
        .effects
        .contains(&AgentEffect::StopTree(StopReason::Incurable))
}

#[test]
fn an_attempt_that_spends_its_limit_without_progress_is_ended() {
    let mut agent = limited(running(None));
    for (total, made_progress, ends) in [
        (1_000_000, false, false),
        // The same total once more is nothing new.
        (1_000_000, false, false),
        // A step was finished: what was spent until then is forgiven.
        (2_000_000, true, false),
        (2_400_000, false, false),
        (2_500_000, false, true),
    ] {
        let decision = decide(&agent, used("a", total, made_progress), moment());
        assert_eq!(is_ended(&decision), ends, "{total}");
        apply(&mut agent, &decision);
    }
    assert_eq!(agent.usage.meter.used.cost_micros, 2_500_000);
    assert!(matches!(
        agent.state,
        AgentState::Running {
            ending: Some(StopReason::Incurable),
            ..
        }
    ));
}

#[test]
fn it_then_waits_for_a_person_whose_start_gives_it_the_limit_again() {
    let mut agent = limited(running(None));
    let decision = decide(&agent, used("a", 1_500_000, false), moment());
    apply(&mut agent, &decision);
    let ended = death(HowEnded::Signal(15));
    assert_eq!(ended.cause(Some(StopReason::Incurable)), Cause::Failed);
    let decision = decide(&agent, died(ended), moment());
    apply(&mut agent, &decision);
    let waits = AgentState::Suspended {
        why: Pause::Incurable,
        until: None,
    };
    assert_eq!(agent.state, waits);
    let alert = "it has spent 1.5 without progress (spend_max is 1.5)";
    let has_alert =
        |effect: &AgentEffect| matches!(effect, AgentEffect::Alert(line) if line.contains(alert));
    assert!(decision.effects.iter().any(has_alert), "{decision:?}");
    let woken = decide(&agent, AgentEvent::Wake, moment());
    assert_eq!(woken.changes, [], "only a person starts it");
    let started = decide(&agent, AgentEvent::Start, moment());
    apply(&mut agent, &started);
    let decision = decide(&agent, used("b", 1_400_000, false), moment());
    assert!(!is_ended(&decision));
    apply(&mut agent, &decision);
    assert!(is_ended(&decide(
        &agent,
        used("b", 1_500_000, false),
        moment()
    )));
}

#[test]
fn what_deaths_have_spent_counts_too_and_success_forgives_it() {
    let spent_by_death = |death: Death| {
        let mut agent = limited(running(None));
        let AgentEvent::Used { readings, .. } = used("a", 1_500_000, false) else {
            unreachable!("it was made so")
        };
        let at_its_end = AgentEvent::Used {
            readings,
            made_progress: false,
            is_alive: false,
            is_charged: true,
        };
        let decision = decide(&agent, at_its_end, moment());
        assert!(!is_ended(&decision), "there is nothing left to end");
        apply(&mut agent, &decision);
        let decision = decide(&agent, died(death), moment());
        apply(&mut agent, &decision);
        (agent.state, agent.usage.since_progress().cost_micros)
    };
    let (state, spent) = spent_by_death(death(HowEnded::Code(1)));
    assert!(matches!(
        state,
        AgentState::Suspended {
            why: Pause::Incurable,
            ..
        }
    ));
    assert_eq!(spent, 1_500_000);
    let (state, _) = spent_by_death(Death {
        made_progress: true,
        ..death(HowEnded::Code(1))
    });
    assert!(matches!(state, AgentState::Running { .. }), "{state:?}");
    let (state, spent) = spent_by_death(Death {
        said: Some(ReportedEnd::Success),
        ..death(HowEnded::Code(0))
    });
    assert!(matches!(state, AgentState::Stopped { .. }), "{state:?}");
    assert_eq!(spent, 0);
}

#[test]
fn usage_is_an_event_of_the_journal_only_where_no_task_was_charged() {
    let agent = agent(running(None));
    let told = |is_charged| {
        let AgentEvent::Used { readings, .. } = used("a", 7, false) else {
            unreachable!("it was made so")
        };
        let used = AgentEvent::Used {
            readings,
            made_progress: false,
            is_alive: true,
            is_charged,
        };
        let decision = decide(&agent, used, moment());
        let told = decision.changes.iter().filter(|change| change.is_told());
        told.map(|change| {
            (
                change.kind(),
                change.detail(None)["spent"]["cost_micros"].clone(),
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(told(true), []);
    assert_eq!(told(false), [(EventKind::AgentBudget, 7.into())]);
}
