//! What holds for every sequence of events, however it comes.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{Death, HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentDecision, AgentEffect, AgentEvent, decide, decide_held};
use relight_core::agent::{
    Agent, AgentPlan, AgentState, Pause, RestartRule, StopReason, Stopper, Takes,
};
use relight_core::ids::TaskId;
use relight_core::restart_budget::RestartPolicy;
use relight_core::time::{Span, Time};
use relight_core::usage::{Reading, SpendLimit, Usage};

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use crate::given::{at, death, died, new_agent, noon};

/// The same cases on every machine and every day.
fn config() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        rng_seed,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_row_goes_back_only_by_progress_or_a_persons_start(plan in plans(), moves in moves()) {
        live(&plan, &moves, |before, event, decision, after| {
            let is_progress = match event {
                AgentEvent::Died { .. } if rests(decision) => true,
                AgentEvent::Progress | AgentEvent::Start | AgentEvent::RoundOver { .. } => true,
                AgentEvent::Died { death, .. } => {
                    death.made_progress || before.plan.policy.is_stable(death.lived)
                }
                _ => false,
            };
            assert!(is_progress || after.tally.in_a_row >= before.tally.in_a_row);
        });
    }

    #[test]
    fn nothing_but_time_gives_back_of_the_total(plan in plans(), moves in moves()) {
        live(&plan, &moves, |before, _, _, after| {
            assert!(after.tally.total() >= before.tally.total());
            assert!(after.tally.total() <= plan.policy.total_max);
        });
    }

    #[test]
    fn the_total_bounds_recoveries_whatever_progress_is_made(plan in plans(), moves in moves()) {
        let mut recoveries = 0;
        live(&plan, &moves, |_, event, decision, _| {
            // A deferral is counted, and costs nothing.
            let charged = decision.changes.iter().any(
                |change| matches!(change, AgentChange::Tally(tally) if tally.deferrals == 0),
            );
            let goes_on = decision.effects.iter().any(|effect| {
                matches!(effect, AgentEffect::Spawn { .. } | AgentEffect::WaitUntil(_))
            });
            let is_recovery = matches!(event, AgentEvent::Died { .. }) && !rests(decision);
            if is_recovery && charged && goes_on {
                recoveries += 1;
            }
        });
        assert!(recoveries <= plan.policy.total_max);
    }

    #[test]
    fn a_running_agent_has_a_way_out(plan in plans(), moves in moves(), how in hows()) {
        let agent = live(&plan, &moves, |_, _, _, _| {});
        let AgentState::Running { attempt, .. } = &agent.state else { return Ok(()) };
        for order in [AgentEvent::Stop(Stopper::Person), AgentEvent::End(StopReason::Restart), AgentEvent::Wake] {
            let told = after(&agent, &decide(&agent, order, at(noon())));
            let dead = after(&told, &decide(&told, died(death(how)), at(noon())));
            let is_still_it = matches!(&dead.state, AgentState::Running { attempt: now, .. } if now == attempt);
            assert!(!is_still_it, "{:?}", dead.state);
        }
    }

    #[test]
    fn an_end_that_was_recorded_is_carried_out_by_the_next_supervisor(plan in plans(), moves in moves()) {
        let agent = live(&plan, &moves, |_, _, _, _| {});
        let AgentState::Running { ending: Some(_), .. } = agent.state else { return Ok(()) };
        for event in [AgentEvent::Wake, AgentEvent::HoldBack] {
            let decision = decide(&agent, event, at(noon()));
            assert!(matches!(decision.effects[..], [AgentEffect::StopTree(_)]), "{decision:?}");
        }
    }

    #[test]
    fn after_a_persons_stop_only_a_start_begins_an_attempt(
        plan in plans(), first in moves(), moves in moves(),
    ) {
        let agent = live(&plan, &first, |_, _, _, _| {});
        let stopped = after(&agent, &decide(&agent, AgentEvent::Stop(Stopper::Person), at(noon())));
        let unwanted: Vec<Move> =
            moves.into_iter().filter(|one| !matches!(one.event, AgentEvent::Start)).collect();
        let end = go_on(stopped, &unwanted, |_, event, decision, _| {
            assert!(!begins(decision), "{event:?} began an attempt");
        });
        let rests = matches!(end.state, AgentState::Stopped { by: Stopper::Person });
        let ends = matches!(end.state, AgentState::Running { ending: Some(StopReason::Stop), .. });
        assert!(rests || ends, "{:?}", end.state);
    }

    #[test]
    fn only_a_start_begins_an_attempt_of_a_terminated_agent(plan in plans(), moves in moves()) {
        live(&plan, &moves, |before, event, decision, after| {
            if !matches!(before.state, AgentState::Terminated { .. }) {
                return;
            }
            let is_start = matches!(event, AgentEvent::Start);
            let is_stop = matches!(event, AgentEvent::Stop(_));
            let waits_for_work = plan.takes == Takes::Start;
            assert!(begins(decision) == is_start || (waits_for_work && !begins(decision)));
            assert!(is_start || is_stop || before.state == after.state);
        });
    }

    #[test]
    fn nothing_begins_beside_a_live_attempt(plan in plans(), moves in moves()) {
        live(&plan, &moves, |before, event, decision, _| {
            let lives = matches!(before.state, AgentState::Running { .. });
            assert!(!lives || !begins(decision) || matches!(event, AgentEvent::Died { .. }));
        });
    }

    #[test]
    fn attempts_are_numbered_one_by_one_and_use_the_tag_allocated_ahead(
        plan in plans(), moves in moves(),
    ) {
        live(&plan, &moves, |before, _, decision, after| {
            for effect in &decision.effects {
                let AgentEffect::Spawn { number, tag, at_once } = effect else { continue };
                assert_eq!((*number, tag.number()), (before.attempt_number + 1, Some(*number)));
                assert_eq!(*at_once, before.next_attempt.is_some());
                assert!(before.next_attempt.as_ref().is_none_or(|ahead| ahead == tag));
                assert!(matches!(&after.state, AgentState::Running { attempt, ending: None, .. } if attempt == tag));
                assert_eq!(after.next_attempt.as_ref().and_then(|tag| tag.number()), Some(number + 1));
            }
            assert_eq!(after.attempt_number, before.attempt_number + u32::from(begins(decision)));
        });
    }

    #[test]
    fn what_is_done_is_what_was_committed(plan in plans(), moves in moves()) {
        live(&plan, &moves, |_, _, decision, after| {
            for effect in &decision.effects {
                let agrees = match effect {
                    AgentEffect::Spawn { .. } => matches!(after.state, AgentState::Running { ending: None, .. }),
                    AgentEffect::StopTree(ending) => {
                        matches!(after.state, AgentState::Running { ending: Some(e), .. } if e == *ending)
                    }
                    AgentEffect::WaitUntil(at) => matches!(
                        after.state,
                        AgentState::Crashed { again_at: Some(until) }
                        | AgentState::Suspended { until: Some(until), .. } if until == *at
                    ),
                    AgentEffect::AskUntil => {
                        matches!(after.state, AgentState::Suspended { why: Pause::Asking, .. })
                    }
                    AgentEffect::Alert(_) => matches!(
                        after.state,
                        AgentState::Terminated { .. }
                        | AgentState::Suspended { why: Pause::Incurable, .. }
                    ),
                    AgentEffect::AtRest => !matches!(after.state, AgentState::Running { .. }),
                };
                assert!(agrees, "{effect:?} in {:?}", after.state);
            }
        });
    }

    #[test]
    fn every_death_of_a_live_attempt_is_recorded_once(plan in plans(), moves in moves()) {
        live(&plan, &moves, |before, event, decision, _| {
            let ends = decision.changes.iter().filter(|c| matches!(c, AgentChange::Ended { .. })).count();
            let lived = matches!(before.state, AgentState::Running { .. });
            let is_death = lived && matches!(event, AgentEvent::Died { .. });
            assert_eq!(ends, usize::from(is_death));
        });
    }

    #[test]
    fn replaying_the_changes_gives_the_agent_that_was_decided(plan in plans(), moves in moves()) {
        let mut history: Vec<(Vec<AgentChange>, Time)> = Vec::new();
        let mut now = noon();
        let mut clocks = moves.iter().map(|one| { now = now.plus(one.wait); now });
        let lived = live(&plan, &moves, |_, _, decision, _| {
            history.push((decision.changes.clone(), clocks.next().expect("a clock for each move")));
        });
        let mut replayed = new_agent(&plan);
        for (changes, at) in &history {
            changes.iter().for_each(|change| change.apply(&mut replayed, *at));
        }
        assert_eq!(replayed, lived);
    }

    #[test]
    fn held_back_only_a_start_begins_and_everything_else_is_recorded_alike(
        plan in plans(), moves in moves(), event in events(),
    ) {
        let agent = live(&plan, &moves, |_, _, _, _| {});
        let free = decide(&agent, event.clone(), at(noon()));
        let held = decide_held(&agent, event.clone(), at(noon()), Pause::HeldBack);
        assert!(!begins(&held) || matches!(event, AgentEvent::Start));
        let deaths = |decision: &AgentDecision| {
            let is_death = |change: &&AgentChange| matches!(change, AgentChange::Ended { .. });
            decision.changes.iter().filter(is_death).cloned().collect::<Vec<_>>()
        };
        assert_eq!(deaths(&held), deaths(&free));
        let end = after(&agent, &held);
        let lives_on = matches!(agent.state, AgentState::Running { .. }) && !matches!(event, AgentEvent::Died { .. });
        let is_wanted = matches!(event, AgentEvent::Start);
        assert!(lives_on || is_wanted || !matches!(end.state, AgentState::Running { .. }));
    }
}

/// One event, some time after the one before.
#[derive(Debug, Clone)]
struct Move {
    wait: Span,
    event: AgentEvent,
}

fn live(
    plan: &AgentPlan,
    moves: &[Move],
    see: impl FnMut(&Agent, &AgentEvent, &AgentDecision, &Agent),
) -> Agent {
    go_on(new_agent(plan), moves, see)
}

/// `see` is shown each event, the agent before and after it, and what was decided.
fn go_on(
    mut agent: Agent,
    moves: &[Move],
    mut see: impl FnMut(&Agent, &AgentEvent, &AgentDecision, &Agent),
) -> Agent {
    let mut now = noon();
    for Move { wait, event } in moves {
        now = now.plus(*wait);
        let decision = decide(&agent, event.clone(), at(now));
        let mut next = agent.clone();
        decision
            .changes
            .iter()
            .for_each(|change| change.apply(&mut next, now));
        see(&agent, event, &decision, &next);
        agent = next;
    }
    agent
}

fn after(agent: &Agent, decision: &AgentDecision) -> Agent {
    let mut next = agent.clone();
    decision
        .changes
        .iter()
        .for_each(|change| change.apply(&mut next, noon()));
    next
}

fn begins(decision: &AgentDecision) -> bool {
    decision
        .effects
        .iter()
        .any(|effect| matches!(effect, AgentEffect::Spawn { .. }))
}

/// Success of an agent that always runs: progress, and charged to nothing.
fn rests(decision: &AgentDecision) -> bool {
    let is_rest = |change: &AgentChange| {
        let AgentChange::State(state) = change else {
            return false;
        };
        matches!(
            state,
            AgentState::Suspended {
                why: Pause::Resting,
                ..
            }
        )
    };
    decision.changes.iter().any(is_rest)
}

fn plans() -> impl Strategy<Value = AgentPlan> {
    let rules = select(vec![
        RestartRule::OnFailure,
        RestartRule::Always,
        RestartRule::Never,
    ]);
    let takes = select(vec![Takes::Claim, Takes::Claim, Takes::Start]);
    (rules, 0u32..4, 0u32..8, prop::option::of(0u32..3), takes).prop_map(
        |(restart, max_attempts, total_max, iterations_max, takes)| AgentPlan {
            spend: SpendLimit {
                cost_micros: Some(u64::from(max_attempts)),
                tokens: None,
            },
            restart,
            takes,
            iterations_max,
            policy: RestartPolicy {
                max_attempts,
                total_max,
                ..RestartPolicy::default()
            },
            ..AgentPlan::default()
        },
    )
}

/// Up to forty events within the hours that all count.
fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (0u64..1_800, events()).prop_map(|(secs, event)| Move {
        wait: Span::from_secs(secs),
        event,
    });
    prop::collection::vec(one, 0..40)
}

fn events() -> impl Strategy<Value = AgentEvent> {
    let endings = select(vec![
        StopReason::Restart,
        StopReason::Hung,
        StopReason::Timeout,
        StopReason::Incurable,
        StopReason::Budget,
    ]);
    let used = (1u64..9, any::<bool>()).prop_map(|(cost_micros, made_progress)| {
        let source = "attempt".to_owned();
        let total = Usage {
            cost_micros,
            ..Usage::default()
        };
        AgentEvent::Used {
            readings: vec![Reading { source, total }],
            made_progress,
            is_alive: true,
            is_charged: true,
        }
    });
    prop_oneof![
        2 => Just(AgentEvent::Wake),
        2 => Just(AgentEvent::Start),
        1 => select(vec![Stopper::Person, Stopper::Shutdown]).prop_map(AgentEvent::Stop),
        2 => endings.prop_map(AgentEvent::End),
        6 => deaths().prop_map(died),
        3 => Just(AgentEvent::Due),
        1 => Just(AgentEvent::HoldBack),
        1 => Just(AgentEvent::Progress),
        2 => used,
        4 => Just(AgentEvent::Work(TaskId::new("t").expect("a valid id"))),
        2 => any::<bool>().prop_map(|finished| AgentEvent::RoundOver { finished }),
    ]
}

fn hows() -> impl Strategy<Value = HowEnded> {
    select(vec![
        HowEnded::Code(0),
        HowEnded::Code(1),
        HowEnded::Code(75),
        HowEnded::Signal(9),
        HowEnded::Unknown,
    ])
}

fn deaths() -> impl Strategy<Value = Death> {
    let said = select(vec![
        None,
        None,
        Some(ReportedEnd::Success),
        Some(ReportedEnd::Failure("x".to_owned())),
        Some(ReportedEnd::Later(None)),
        Some(limited()),
    ]);
    let unfinished_task = prop::option::of(Just("t".to_owned()));
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (hows(), 0u64..900, flags, said, unfinished_task).prop_map(
        |(how, secs, (oom, made_progress), said, unfinished_task)| Death {
            lived: Span::from_secs(secs),
            oom,
            made_progress,
            said,
            unfinished_task,
            ..death(how)
        },
    )
}

/// A limit that does not say when it ends.
fn limited() -> ReportedEnd {
    limited_until(None)
}

fn limited_until(until: Option<Time>) -> ReportedEnd {
    let why = "429".to_owned();
    ReportedEnd::Limited { until, why }
}

/// How long an agent waits after each of so many deferrals in a row, in ms.
fn waits(said: &ReportedEnd, defer: Span, times: usize) -> Vec<u64> {
    let mut agent = crate::given::agent(crate::given::running(None));
    agent.plan.defer = defer;
    let death = Death {
        said: Some(said.clone()),
        ..crate::given::death(HowEnded::Code(1))
    };
    let wait = |_| {
        agent.state = crate::given::running(None);
        for change in decide(&agent, died(death.clone()), at(noon())).changes {
            change.apply(&mut agent, noon());
        }
        let again_at = agent.state.again_at().expect("it waits");
        again_at.since(noon()).as_ms()
    };
    (0..times).map(wait).collect()
}

#[test]
fn deferrals_without_a_time_grow_from_a_minute_to_an_hour() {
    let in_minutes = |defer| {
        waits(&limited(), defer, 8)
            .into_iter()
            .map(|ms| ms / 60_000)
    };
    let minute = Span::from_secs(60);
    assert!(in_minutes(minute).eq([1, 2, 4, 8, 16, 32, 60, 60]));
    assert_eq!(waits(&limited(), Span::ZERO, 3), [1_000, 2_000, 4_000]);
    let death = Death {
        said: Some(limited()),
        ..crate::given::death(HowEnded::Code(1))
    };
    assert_eq!(
        death.cause(Some(StopReason::Hung)),
        relight_core::agent::Cause::Deferred,
        "it waits for its limit"
    );
}

#[test]
fn a_limit_that_ends_soon_every_time_is_asked_less_and_less_often() {
    let soon = Some(noon().plus(Span::from_ms(1_200)));
    let minute = Span::from_secs(60);
    let told = waits(&limited_until(soon), minute, 14);
    assert_eq!(told[..5], [1_200, 2_000, 4_000, 8_000, 16_000]);
    assert_eq!(told[13], 3_600_000);
    // An agent that asks for it by itself is believed.
    let own = waits(&ReportedEnd::Later(soon), minute, 3);
    assert_eq!(own, [1_200; 3]);
}
