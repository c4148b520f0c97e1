//! Every state and every event.
//!
//! A cell is what is committed, then after `!` what is done, or `-` when nothing happens. States that
//! are answered alike share a row.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{Death, HowEnded, ReportedEnd};
use relight_core::agent::decide::{
    AgentDecision, AgentDecisionInput, AgentEffect, AgentEvent, decide, decide_held,
};
use relight_core::agent::{
    Agent, AgentPlan, AgentState, Pause, RestartRule, SELF_REPORTING, StopReason, Stopper, Takes,
};
use relight_core::ids::TaskId;
use relight_core::restart_budget::{RestartPolicy, Tally};
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};

use crate::given::{agent, at, death, died, died_with, moment, noon, running};

#[test]
fn a_supervisor_takes_an_agent_up() {
    let table = [
        ("wake", AgentEvent::Wake),
        ("hold back", AgentEvent::HoldBack),
    ];
    insta::assert_snapshot!(blocks(&table), @"
    ## wake
    created | crashed, due | deferred, due | boot loop | waits with its task | draining | waits for its turn | resting, due | stopped with its supervisor
        begun#5 reserved#6 →running#5 ! spawn#5 at once
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        →running#4: restart ! stop tree: restart
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    crashed for good | deferred for good | stopped by a person | stopped by itself | terminated
        ! rest
    asking
        ! ask
    ## hold back
    created | crashed, due | crashed, waits | deferred, due | deferred, waits | resting, due | resting, waits | stopped with its supervisor
        →suspended(heldback, for good) ! rest
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        ! stop tree: shutdown
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed for good | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | stopped by a person | stopped by itself | terminated
        ! rest
    ");
}

#[test]
fn a_death_with_its_node_waits_for_nothing_and_leaves_the_row_as_it_is() {
    let mut agent = agent(running(None));
    agent.tally.in_a_row = agent.plan.policy.max_attempts;
    let lost = Death {
        node_lost: true,
        ..death(HowEnded::Unknown)
    };
    let decision = decide(&agent, died(lost), moment());
    let tally = decision.changes.iter().find_map(|change| match change {
        AgentChange::Tally(tally) => Some((tally.in_a_row, tally.total())),
        _ => None,
    });
    assert_eq!(tally, Some((3, 2)));
    assert!(
        decision
            .effects
            .iter()
            .any(|effect| matches!(effect, AgentEffect::Spawn { .. }))
    );
}

#[test]
fn a_person_or_a_limit_wants_something() {
    let table = [
        ("start", AgentEvent::Start),
        ("stop by a person", AgentEvent::Stop(Stopper::Person)),
        (
            "stop with the supervisor",
            AgentEvent::Stop(Stopper::Shutdown),
        ),
        ("stop by itself", AgentEvent::Stop(Stopper::Itself)),
        ("end to restart", AgentEvent::End(StopReason::Restart)),
        ("end as hung", AgentEvent::End(StopReason::Hung)),
        ("end for its time", AgentEvent::End(StopReason::Timeout)),
        ("end to stop", AgentEvent::End(StopReason::Stop)),
        (
            "end with the supervisor",
            AgentEvent::End(StopReason::Shutdown),
        ),
    ];
    insta::assert_snapshot!(blocks(&table), @"
    ## start
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor
        row=0 total=1 begun#5 reserved#6 →running#5 ! spawn#5 at once
    running | running: shutdown | running: restart | running: hung | running: timeout
        -
    running: stop
        →running#4: restart
    stopped by a person | stopped by itself | terminated
        row=0 total=1 iteration=0 begun#5 reserved#6 →running#5 ! spawn#5 at once
    ## stop by a person
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor | stopped by itself | terminated
        →stopped(person) ! rest
    running | running: shutdown | running: restart | running: hung | running: timeout
        →running#4: stop ! stop tree: stop
    running: stop
        -
    stopped by a person
        ! rest
    ## stop with the supervisor
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        ! rest
    running | running: restart | running: hung | running: timeout
        →running#4: shutdown ! stop tree: shutdown
    running: stop | running: shutdown
        -
    ## stop by itself
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor | stopped by itself | terminated
        →stopped(itself) ! rest
    running | running: shutdown | running: restart | running: hung | running: timeout
        →running#4: stop ! stop tree: stop
    running: stop
        -
    stopped by a person
        ! rest
    ## end to restart
    created | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        →running#4: restart ! stop tree: restart
    ## end as hung
    created | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        →running#4: hung ! stop tree: hung
    ## end for its time
    created | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        →running#4: timeout ! stop tree: timeout
    ## end to stop
    created | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        →running#4: stop ! stop tree: stop
    ## end with the supervisor
    created | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        →running#4: shutdown ! stop tree: shutdown
    ");
}

#[test]
fn time_passes_and_work_goes_on() {
    let table = [
        ("due", AgentEvent::Due),
        ("progress", AgentEvent::Progress),
        ("a round is over", AgentEvent::RoundOver { finished: false }),
        (
            "the last round is over",
            AgentEvent::RoundOver { finished: true },
        ),
        ("its condition cannot be asked", AgentEvent::CannotAsk),
        ("died by signal 9", died(death(HowEnded::Signal(9)))),
    ];
    insta::assert_snapshot!(blocks(&table), @"
    ## due
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed for good | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    crashed, due | deferred, due | resting, due
        begun#5 reserved#6 →running#5 ! spawn#5 at once
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    ## progress
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        row=0 total=1
    ## a round is over
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    asking
        row=0 total=1 begun#5 reserved#6 →running#5 ! spawn#5 at once
    ## the last round is over
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    asking
        →stopped(itself) ! rest
    ## its condition cannot be asked
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    asking
        →crashed(for good) ! rest
    ## died by signal 9
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        ended#4(signal) row=2 total=2 →crashed(in 1m) ! wait in 1m
    running: stop
        ended#4(stopped) →stopped(person) ! rest
    running: shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    running: restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    running: hung
        ended#4(hung) row=2 total=2 →crashed(in 1m) ! wait in 1m
    running: timeout
        ended#4(timeout) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ");
}

#[test]
fn every_death_by_every_plan() {
    let mut text = String::new();
    for (name, death) in deaths() {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (plan_name, plan) in plans() {
            let agent = Agent {
                plan,
                ..agent(running(None))
            };
            rows.add(
                plan_name,
                short(&agent, &decide(&agent, died(death.clone()), moment())),
            );
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## exit 0
    on-failure | never | used up
        ended#4(completed) →stopped(itself) ! rest
    always
        ended#4(completed) row=0 total=1 →suspended(resting, in 1m) ! wait in 1m
    loop
        ended#4(completed) iteration=3 →suspended(asking, for good) ! ask
    ## exit 0, task unfinished
    on-failure | always | loop
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(failed) →crashed(for good) ! rest
    used up
        ended#4(failed) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## exit 0, said failure
    on-failure | always | loop
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(failed) →crashed(for good) ! rest
    used up
        ended#4(failed) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## exit 1
    on-failure | always | loop
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(failed) →crashed(for good) ! rest
    used up
        ended#4(failed) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## exit 1 after a finished step
    on-failure | always | loop | used up
        ended#4(failed) row=1 total=2 begun#5 reserved#6 →running#5 ! spawn#5 at once
    never
        ended#4(failed) →crashed(for good) ! rest
    ## exit 1 after a stable life
    on-failure | always | loop | used up
        ended#4(failed) row=1 total=2 begun#5 reserved#6 →running#5 ! spawn#5 at once
    never
        ended#4(failed) →crashed(for good) ! rest
    ## exit 1, said success
    on-failure | never | used up
        ended#4(completed) →stopped(itself) ! rest
    always
        ended#4(completed) row=0 total=1 →suspended(resting, in 1m) ! wait in 1m
    loop
        ended#4(completed) iteration=3 →suspended(asking, for good) ! ask
    ## exit 1, said later
    on-failure | always | never | loop | used up
        ended#4(deferred) deferrals=1 →suspended(deferred, in 1d) ! wait in 1d
    ## exit 75
    on-failure | always | never | loop | used up
        ended#4(deferred) deferrals=1 →suspended(deferred, in 1m) ! wait in 1m
    ## signal 9
    on-failure | always | loop
        ended#4(signal) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(signal) →crashed(for good) ! rest
    used up
        ended#4(signal) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## signal 9, said success
    on-failure | never | used up
        ended#4(signal) →stopped(itself) ! rest
    always
        ended#4(signal) row=0 total=1 →suspended(resting, in 1m) ! wait in 1m
    loop
        ended#4(signal) iteration=3 →suspended(asking, for good) ! ask
    ## out of memory
    on-failure | always | loop
        ended#4(oom) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(oom) →crashed(for good) ! rest
    used up
        ended#4(oom) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## lost
    on-failure | always | loop
        ended#4(lost) row=2 total=2 →crashed(in 1m) ! wait in 1m
    never
        ended#4(lost) →crashed(for good) ! rest
    used up
        ended#4(lost) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ");
}

#[test]
fn every_death_that_was_ordered() {
    let killed = death(HowEnded::Signal(15));
    let finished = Death {
        said: Some(ReportedEnd::Success),
        ..killed.clone()
    };
    let mut text = String::new();
    for (name, death) in [
        ("by signal 15", killed),
        ("after it told of its success", finished),
    ] {
        for (plan_name, plan) in plans() {
            text += &format!("## {name}, {plan_name}\n");
            let mut rows = Rows::default();
            for (ending_name, ending) in endings() {
                let agent = Agent {
                    plan: plan.clone(),
                    ..agent(running(Some(ending)))
                };
                let decision = decide(&agent, died(death.clone()), moment());
                rows.add(ending_name, short(&agent, &decision));
            }
            text += &rows.text();
        }
    }
    insta::assert_snapshot!(text, @"
    ## by signal 15, on-failure
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=2 total=2 →crashed(in 1m) ! wait in 1m
    timeout
        ended#4(timeout) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## by signal 15, always
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=2 total=2 →crashed(in 1m) ! wait in 1m
    timeout
        ended#4(timeout) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## by signal 15, never
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) →crashed(for good) ! rest
    timeout
        ended#4(timeout) →crashed(for good) ! rest
    ## by signal 15, loop
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=2 total=2 →crashed(in 1m) ! wait in 1m
    timeout
        ended#4(timeout) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## by signal 15, used up
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    timeout
        ended#4(timeout) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    ## after it told of its success, on-failure
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(itself) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) →stopped(itself) ! rest
    timeout
        ended#4(timeout) →stopped(itself) ! rest
    ## after it told of its success, always
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=0 total=1 →suspended(resting, in 1m) ! wait in 1m
    timeout
        ended#4(timeout) row=0 total=1 →suspended(resting, in 1m) ! wait in 1m
    ## after it told of its success, never
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(itself) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) →stopped(itself) ! rest
    timeout
        ended#4(timeout) →stopped(itself) ! rest
    ## after it told of its success, loop
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) iteration=3 →suspended(asking, for good) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) iteration=3 →suspended(asking, for good) ! ask
    timeout
        ended#4(timeout) iteration=3 →suspended(asking, for good) ! ask
    ## after it told of its success, used up
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(itself) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) →stopped(itself) ! rest
    timeout
        ended#4(timeout) →stopped(itself) ! rest
    ");
}

#[test]
fn a_death_found_in_a_boot_loop_is_recorded_and_waits_for_a_person() {
    let mut rows = Rows::default();
    let lost = died(Death::lost(noon(), "the machine went down"));
    for (name, plan) in plans() {
        let agent = Agent {
            plan,
            ..agent(running(None))
        };
        rows.add(
            name,
            short(
                &agent,
                &decide_held(&agent, lost.clone(), moment(), Pause::HeldBack),
            ),
        );
    }
    let second = Agent {
        tally: Default::default(),
        ..agent(running(None))
    };
    rows.add(
        "first",
        short(
            &second,
            &decide_held(&second, lost, moment(), Pause::HeldBack),
        ),
    );
    let round = Agent {
        plan: loop_plan(),
        ..agent(running(None))
    };
    let done = died(death(HowEnded::Code(0)));
    rows.add(
        "a round done",
        short(
            &round,
            &decide_held(&round, done, moment(), Pause::HeldBack),
        ),
    );
    rows.add(
        "start",
        short(
            &round,
            &decide_held(
                &agent(AgentState::Created),
                AgentEvent::Start,
                moment(),
                Pause::HeldBack,
            ),
        ),
    );
    insta::assert_snapshot!(rows.text(), @"
    on-failure | always | loop
        ended#4(lost) row=2 total=2 →suspended(heldback, for good) ! rest
    never
        ended#4(lost) →crashed(for good) ! rest
    used up
        ended#4(lost) row=1 total=1 →terminated(recovered once without progress) noted alert ! alert ! rest
    first
        ended#4(lost) row=1 total=1 →suspended(heldback, for good) ! rest
    a round done
        ended#4(completed) iteration=3 →suspended(asking, for good) ! rest
    start
        row=0 total=1 begun#5 reserved#6 →running#5 ! spawn#5 at once
    ");
}

#[test]
fn a_wait_that_another_clock_answered_is_over() {
    let far = noon().plus(Span::from_secs(400 * 24 * 3_600));
    for state in [
        AgentState::Crashed {
            again_at: Some(far),
        },
        AgentState::Suspended {
            why: Pause::Deferred,
            until: Some(far),
        },
        AgentState::Suspended {
            why: Pause::Resting,
            until: Some(far),
        },
    ] {
        let decision = decide(&agent(state), AgentEvent::Due, moment());
        assert!(matches!(
            decision.effects[..],
            [AgentEffect::Spawn { number: 5, .. }]
        ));
    }
}

#[test]
fn a_long_defer_is_waited_for_by_the_next_supervisor_too() {
    let month = Span::from_secs(30 * 24 * 3_600);
    let plan = AgentPlan {
        defer: month,
        ..AgentPlan::default()
    };
    let mut agent = Agent {
        plan,
        ..agent(running(None))
    };
    for change in decide(&agent, died(death(HowEnded::Code(75))), moment()).changes {
        change.apply(&mut agent, noon());
    }
    let woken = decide(
        &agent,
        AgentEvent::Wake,
        at(noon().plus(Span::from_secs(60))),
    );
    assert_eq!(woken.effects, [AgentEffect::WaitUntil(noon().plus(month))]);
}

#[test]
fn later_is_never_now() {
    let plan = AgentPlan {
        defer: Span::ZERO,
        ..AgentPlan::default()
    };
    let agent = Agent {
        plan,
        ..agent(running(None))
    };
    let soon = Some(noon().plus(Span::from_ms(1)));
    for said in [
        None,
        Some(ReportedEnd::Later(None)),
        Some(ReportedEnd::Later(soon)),
    ] {
        let death = Death {
            said,
            ..death(HowEnded::Code(75))
        };
        let decision = decide(&agent, died(death), moment());
        assert_eq!(
            decision.effects,
            [AgentEffect::WaitUntil(noon().plus(Span::from_secs(1)))]
        );
    }
}

#[test]
fn what_succeeds_again_and_again_is_never_used_up() {
    let restart = RestartRule::Always;
    let mut agent = Agent {
        plan: AgentPlan {
            restart,
            ..AgentPlan::default()
        },
        ..agent(running(None))
    };
    for _ in 0..500 {
        for event in [died(death(HowEnded::Code(0))), AgentEvent::Start] {
            for change in decide(&agent, event, moment()).changes {
                change.apply(&mut agent, noon());
            }
        }
    }
    assert_eq!((agent.tally.in_a_row, agent.tally.total()), (0, 1));
    assert!(matches!(agent.state, AgentState::Running { .. }));
}

#[test]
fn a_rest_without_a_cooldown_is_no_hot_loop() {
    let policy = RestartPolicy {
        cooldown: Span::ZERO,
        ..RestartPolicy::default()
    };
    let plan = AgentPlan {
        restart: RestartRule::Always,
        policy,
        ..AgentPlan::default()
    };
    let agent = Agent {
        plan,
        ..agent(running(None))
    };
    let decision = decide(&agent, died(death(HowEnded::Code(0))), moment());
    assert_eq!(
        decision.effects,
        [AgentEffect::WaitUntil(noon().plus(Span::from_ms(100)))]
    );
}

#[test]
fn every_status_of_the_task_it_was_named() {
    let mut text = String::new();
    for (name, how) in [
        ("exit 0", HowEnded::Code(0)),
        ("exit 75", HowEnded::Code(75)),
        ("signal 9", HowEnded::Signal(9)),
    ] {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for status in TaskStatus::ALL {
            let agent = agent(running(None));
            let event = died_with(death(how), Some(status));
            rows.add(
                status.as_str(),
                short(&agent, &decide(&agent, event, moment())),
            );
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## exit 0
    created | assigned | in_progress | in_review | blocked | deferred | interrupted | suspended | failed | completed | cancelled
        ended#4(completed) →stopped(itself) ! rest
    ## exit 75
    created | assigned | in_progress | deferred | interrupted
        ended#4(deferred) deferrals=1 →suspended(deferred, in 1m) ! wait in 1m
    in_review | completed | cancelled
        ended#4(deferred) deferrals=1 →stopped(itself) ! rest
    blocked | suspended
        ended#4(deferred) deferrals=1 →suspended(task, for good) ! rest
    failed
        ended#4(deferred) deferrals=1 →crashed(for good) ! rest
    ## signal 9
    created | assigned | in_progress | deferred | interrupted
        ended#4(signal) row=2 total=2 →crashed(in 1m) ! wait in 1m
    in_review | completed | cancelled
        ended#4(signal) →stopped(itself) ! rest
    blocked | suspended
        ended#4(signal) →suspended(task, for good) ! rest
    failed
        ended#4(signal) →crashed(for good) ! rest
    ");
}

#[test]
fn an_agent_that_is_started_with_tasks_begins_only_with_one() {
    let mut text = String::new();
    for (name, event, task) in [
        ("work", AgentEvent::Work(task_id("next")), None),
        ("wake, with nothing to do", AgentEvent::Wake, None),
        (
            "wake, its task is interrupted",
            AgentEvent::Wake,
            Some(TaskStatus::Interrupted),
        ),
        (
            "wake, its task is deferred",
            AgentEvent::Wake,
            Some(TaskStatus::Deferred),
        ),
        ("start, with nothing to do", AgentEvent::Start, None),
        ("due, with nothing to do", AgentEvent::Due, None),
        ("hold back", AgentEvent::HoldBack, None),
    ] {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (state_name, state) in states() {
            let agent = started(state, task.map(|_| "t"));
            let moment = AgentDecisionInput { task, ..moment() };
            rows.add(
                state_name,
                short(&agent, &decide(&agent, event.clone(), moment)),
            );
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## work
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | terminated
        -
    stopped by itself
        given next begun#5 reserved#6 →running#5 ! spawn#5 at once
    ## wake, with nothing to do
    created | crashed, due | deferred, due | boot loop | waits with its task | draining | waits for its turn | resting, due | stopped with its supervisor
        →stopped(itself) ! rest
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        →running#4: restart ! stop tree: restart
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    crashed for good | deferred for good | stopped by a person | stopped by itself | terminated
        ! rest
    asking
        ! ask
    ## wake, its task is interrupted
    created | crashed, due | deferred, due | boot loop | waits with its task | draining | waits for its turn | resting, due | stopped with its supervisor
        begun#5 reserved#6 →running#5 ! spawn#5 at once
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        →running#4: restart ! stop tree: restart
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    crashed for good | deferred for good | stopped by a person | stopped by itself | terminated
        ! rest
    asking
        ! ask
    ## wake, its task is deferred
    created | crashed, due | boot loop | waits with its task | draining | waits for its turn | resting, due | stopped with its supervisor
        given nothing →stopped(itself) ! rest
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        →running#4: restart ! stop tree: restart
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    crashed for good | deferred for good | stopped by a person | stopped by itself | terminated
        ! rest
    deferred, due
        begun#5 reserved#6 →running#5 ! spawn#5 at once
    asking
        ! ask
    ## start, with nothing to do
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor
        row=0 total=1 →stopped(itself) ! rest
    running | running: shutdown | running: restart | running: hung | running: timeout
        -
    running: stop
        →running#4: restart
    stopped by a person | terminated
        row=0 total=1 iteration=0 →stopped(itself) ! rest
    stopped by itself
        row=0 total=1 iteration=0 ! rest
    ## due, with nothing to do
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed for good | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    crashed, due | deferred, due | resting, due
        →stopped(itself) ! rest
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    ## hold back
    created | crashed, due | crashed, waits | deferred, due | deferred, waits | resting, due | resting, waits | stopped with its supervisor | stopped by itself
        →suspended(heldback, for good) ! rest
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        ! stop tree: shutdown
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed for good | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | stopped by a person | terminated
        ! rest
    ");
}

#[test]
fn work_is_for_agents_that_are_started_with_it() {
    for (name, state) in states() {
        let agent = agent(state);
        let decision = decide(&agent, AgentEvent::Work(task_id("t")), moment());
        assert_eq!(decision, AgentDecision::default(), "{name}");
    }
}

#[test]
fn every_status_of_the_task_that_it_was_started_with() {
    let held = Some("t".to_owned());
    let killed = Death {
        unfinished_task: held.clone(),
        ..death(HowEnded::Signal(9))
    };
    let progressed = Death {
        made_progress: true,
        ..killed.clone()
    };
    let mut text = String::new();
    for (name, death) in [
        ("exit 0, had let go of it", death(HowEnded::Code(0))),
        (
            "exit 0, held it",
            Death {
                unfinished_task: held.clone(),
                ..death(HowEnded::Code(0))
            },
        ),
        ("exit 1, had let go of it", death(HowEnded::Code(1))),
        (
            "exit 75",
            Death {
                unfinished_task: held,
                ..death(HowEnded::Code(75))
            },
        ),
        ("signal 9, held it", killed),
        ("signal 9, held it, after a finished step", progressed),
    ] {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        let statuses = TaskStatus::ALL
            .into_iter()
            .map(|status| (status.as_str(), Some(status)));
        for (status_name, status) in statuses.chain([("another's", None)]) {
            let agent = started(running(None), Some("t"));
            let event = died_with(death.clone(), status);
            rows.add(status_name, short(&agent, &decide(&agent, event, moment())));
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## exit 0, had let go of it
    created | blocked | deferred | suspended | failed | cancelled | another's
        ended#4(completed) given nothing →stopped(itself) ! rest
    assigned | in_progress | interrupted
        ended#4(completed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    in_review | completed
        ended#4(completed) row=0 total=1 given nothing →stopped(itself) ! rest
    ## exit 0, held it
    created | assigned | in_progress | in_review | blocked | deferred | interrupted | suspended | failed | completed | cancelled | another's
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## exit 1, had let go of it
    created | blocked | deferred | suspended | failed | cancelled | another's
        ended#4(failed) given nothing →stopped(itself) ! rest
    assigned | in_progress | interrupted
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! wait in 1m
    in_review | completed
        ended#4(failed) row=0 total=1 given nothing →stopped(itself) ! rest
    ## exit 75
    created | assigned | in_progress | in_review | blocked | deferred | interrupted | suspended | failed | completed | cancelled | another's
        ended#4(deferred) deferrals=1 →suspended(deferred, in 1m) ! wait in 1m
    ## signal 9, held it
    created | assigned | in_progress | in_review | blocked | deferred | interrupted | suspended | failed | completed | cancelled | another's
        ended#4(signal) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## signal 9, held it, after a finished step
    created | in_review | blocked | deferred | suspended | failed | completed | cancelled | another's
        ended#4(signal) row=1 total=2 given nothing →stopped(itself) ! rest
    assigned | in_progress | interrupted
        ended#4(signal) row=1 total=2 begun#5 reserved#6 →running#5 ! spawn#5 at once
    ");
}

#[test]
fn an_ordered_end_of_an_agent_that_was_started_with_a_task() {
    let mut text = String::new();
    for (name, status) in [
        ("its task is interrupted", TaskStatus::Interrupted),
        ("done", TaskStatus::Completed),
    ] {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (ending_name, ending) in endings() {
            let agent = started(running(Some(ending)), Some("t"));
            let event = died_with(death(HowEnded::Signal(15)), Some(status));
            rows.add(ending_name, short(&agent, &decide(&agent, event, moment())));
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## its task is interrupted
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    hung
        ended#4(hung) row=2 total=2 →crashed(in 1m) ! wait in 1m
    timeout
        ended#4(timeout) row=2 total=2 →crashed(in 1m) ! wait in 1m
    ## done
    stop
        ended#4(stopped) →stopped(person) ! rest
    shutdown | restart
        ended#4(stopped) given nothing →stopped(itself) ! rest
    hung
        ended#4(hung) row=0 total=1 given nothing →stopped(itself) ! rest
    timeout
        ended#4(timeout) row=0 total=1 given nothing →stopped(itself) ! rest
    ");
}

#[test]
fn an_agent_that_can_do_nothing_does_not_eat_the_queue() {
    let mut agent = started(
        AgentState::Stopped {
            by: Stopper::Itself,
        },
        None,
    );
    agent.tally = Default::default();
    let mut lives = 0;
    let mut now = noon();
    while lives < 100 && !matches!(agent.state, AgentState::Terminated { .. }) {
        let event = match &agent.state {
            AgentState::Running { .. } => {
                lives += 1;
                let unfinished_task = Some("t".to_owned());
                let death = Death {
                    unfinished_task,
                    ..death(HowEnded::Code(1))
                };
                died_with(death, Some(TaskStatus::Failed))
            }
            AgentState::Crashed { again_at: Some(at) } => {
                now = *at;
                AgentEvent::Due
            }
            _ => AgentEvent::Work(task_id("t")),
        };
        let decision = decide(&agent, event, at(now));
        decision
            .changes
            .iter()
            .for_each(|change| change.apply(&mut agent, now));
    }
    assert_eq!(lives, 4);
    assert_eq!(now.since(noon()), Span::from_secs(60 + 120));
}

#[test]
fn while_draining_nothing_begins_and_what_waits_goes_on_waiting() {
    let mut text = String::new();
    for (name, event) in [
        ("wake", AgentEvent::Wake),
        ("start", AgentEvent::Start),
        ("due", AgentEvent::Due),
        ("work", AgentEvent::Work(task_id("t"))),
        ("died by signal 9", died(death(HowEnded::Signal(9)))),
    ] {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (state_name, state) in states() {
            let agent = match event {
                AgentEvent::Work(_) => started(state, None),
                _ => Agent {
                    tally: Default::default(),
                    ..agent(state)
                },
            };
            let decision = decide_held(&agent, event.clone(), moment(), Pause::Draining);
            rows.add(state_name, short(&agent, &decision));
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## wake
    created | crashed, due | deferred, due | boot loop | waits with its task | draining | waits for its turn | resting, due | stopped with its supervisor
        →suspended(draining, for good) ! rest
    running
        -
    running: stop
        ! stop tree: stop
    running: shutdown
        →running#4: restart ! stop tree: restart
    running: restart
        ! stop tree: restart
    running: hung
        ! stop tree: hung
    running: timeout
        ! stop tree: timeout
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    crashed for good | deferred for good | stopped by a person | stopped by itself | terminated
        ! rest
    asking
        ! ask
    ## start
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor
        begun#5 reserved#6 →running#5 ! spawn#5 at once
    running | running: shutdown | running: restart | running: hung | running: timeout
        -
    running: stop
        →running#4: restart
    stopped by a person | stopped by itself | terminated
        iteration=0 begun#5 reserved#6 →running#5 ! spawn#5 at once
    ## due
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed for good | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    crashed, due | deferred, due | resting, due
        →suspended(draining, for good) ! rest
    crashed, waits | deferred, waits | resting, waits
        ! wait in 30s
    ## work
    created | running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | terminated
        -
    stopped by itself
        given t →suspended(draining, for good) ! rest
    ## died by signal 9
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running
        ended#4(signal) row=1 total=1 →suspended(draining, for good) ! rest
    running: stop
        ended#4(stopped) →stopped(person) ! rest
    running: shutdown
        ended#4(stopped) →stopped(shutdown) ! rest
    running: restart
        ended#4(stopped) begun#5 reserved#6 →running#5 ! spawn#5 at once
    running: hung
        ended#4(hung) row=1 total=1 →suspended(draining, for good) ! rest
    running: timeout
        ended#4(timeout) row=1 total=1 →suspended(draining, for good) ! rest
    ");
}

fn blocks(events: &[(&str, AgentEvent)]) -> String {
    let mut text = String::new();
    for (name, event) in events {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (state_name, state) in states() {
            let agent = agent(state);
            rows.add(
                state_name,
                short(&agent, &decide(&agent, event.clone(), moment())),
            );
        }
        text += &rows.text();
    }
    text
}

#[test]
fn nobody_begins_while_a_person_has_to_act_on_the_task_or_when_that_has_ended() {
    let is_over = |status: TaskStatus| status.waits_for_person() || status.is_terminal();
    for status in TaskStatus::ALL
        .into_iter()
        .filter(|status| is_over(*status))
    {
        let rests = match status.is_terminal() {
            true => "→stopped(itself) ! rest",
            false => "→suspended(task, for good) ! rest",
        };
        let moment = AgentDecisionInput {
            task: Some(status),
            ..moment()
        };
        for (name, state) in states() {
            let agent = agent(state);
            for event in [AgentEvent::Wake, AgentEvent::Start, AgentEvent::Due] {
                let free = decide(&agent, event.clone(), crate::given::moment());
                let held = decide(&agent, event.clone(), moment);
                let begins = |it: &AgentDecision| short(&agent, it).contains("spawn");
                assert!(!begins(&held), "{name}");
                if begins(&free) {
                    let told = short(&agent, &held);
                    assert!(told.ends_with(rests), "{name}: {told}");
                    assert!(!told.contains("row=2"), "{name} is charged: {told}");
                } else {
                    assert_eq!(held, free, "{name}");
                }
            }
        }
    }
}

#[test]
fn an_agent_that_reports_by_itself_lives_by_its_reports() {
    let silent = silent(Span::from_secs(180));
    let table = [
        ("reported", AgentEvent::Reported),
        ("silent", silent),
        ("failed", died(death(HowEnded::Code(1)))),
        ("start", AgentEvent::Start),
        ("end to restart", AgentEvent::End(StopReason::Restart)),
        ("stop by a person", AgentEvent::Stop(Stopper::Person)),
    ];
    let mut text = String::new();
    for (name, event) in table {
        text += &format!("## {name}\n");
        let mut rows = Rows::default();
        for (state_name, state) in states() {
            let agent = reporter(state);
            rows.add(
                state_name,
                short(&agent, &decide(&agent, event.clone(), moment())),
            );
        }
        text += &rows.text();
    }
    insta::assert_snapshot!(text, @"
    ## reported
    created | crashed, due | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor | stopped by itself
        begun#5 (new tag) →running#5
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout | crashed, waits | stopped by a person | terminated
        -
    ## silent
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout
        ended#4(hung) row=2 total=2 →crashed(in 1m) noted alert ! rest ! alert
    ## failed
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        -
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout
        ended#4(failed) row=2 total=2 →crashed(in 1m) ! rest
    ## start
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        row=0 total=1 begun#5 (new tag) →running#5
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout
        -
    ## end to restart
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped by a person | stopped with its supervisor | stopped by itself | terminated
        row=0 total=1 begun#5 (new tag) →running#5
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout
        ended#4(stopped) begun#5 (new tag) →running#5
    ## stop by a person
    created | crashed, due | crashed, waits | crashed for good | deferred, due | deferred, waits | deferred for good | boot loop | asking | waits with its task | draining | waits for its turn | resting, due | resting, waits | stopped with its supervisor | stopped by itself | terminated
        →stopped(person) ! rest
    running | running: stop | running: shutdown | running: restart | running: hung | running: timeout
        ended#4(stopped) →stopped(person) ! rest
    stopped by a person
        -
    ");
}

#[test]
fn nothing_else_happens_to_an_agent_that_reports_by_itself() {
    for (name, state) in states() {
        let agent = reporter(state);
        for event in [
            AgentEvent::Wake,
            AgentEvent::HoldBack,
            AgentEvent::Due,
            AgentEvent::Work(task_id("t")),
            AgentEvent::Progress,
            AgentEvent::Stop(Stopper::Shutdown),
        ] {
            assert_eq!(
                decide(&agent, event, moment()),
                AgentDecision::default(),
                "{name}"
            );
        }
    }
}

#[test]
fn reports_do_nothing_to_an_agent_that_is_supervised() {
    for (name, state) in states() {
        let agent = agent(state);
        for event in [AgentEvent::Reported, silent(Span::ZERO)] {
            assert_eq!(
                decide(&agent, event, moment()),
                AgentDecision::default(),
                "{name}"
            );
        }
    }
}

#[test]
fn an_agent_that_is_silent_again_and_again_waits_and_is_terminated() {
    let mut agent = reporter(running(None));
    agent.tally = Tally::default();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let at = moment();
        let decision = decide(&agent, silent(Span::from_secs(180)), at);
        decision
            .changes
            .iter()
            .for_each(|change| change.apply(&mut agent, at.now));
        seen.push(match &agent.state {
            AgentState::Crashed { again_at: None } => "at once",
            AgentState::Crashed { again_at: Some(_) } => "waits",
            AgentState::Terminated { .. } => "terminated",
            other => panic!("{other:?}"),
        });
        let may_work = agent.refuses_work(at.now).is_none();
        assert_eq!(may_work, seen.last() == Some(&"at once"), "{seen:?}");
        let reported = decide(&agent, AgentEvent::Reported, at);
        assert_eq!(reported.changes.is_empty(), !may_work, "{seen:?}");
        agent.state = running(None);
    }
    assert_eq!(
        seen,
        ["at once", "waits", "waits", "terminated", "terminated"]
    );
    // A finished step makes it a new row; so does a person who starts it.
    let mut progress = silent(Span::from_secs(180));
    if let AgentEvent::Silent { made_progress, .. } = &mut progress {
        *made_progress = true;
    }
    let decision = decide(&agent, progress, moment());
    let crashed = AgentChange::State(AgentState::Crashed { again_at: None });
    assert!(decision.changes.contains(&crashed), "{decision:?}");
    agent.state = AgentState::Terminated {
        why: "x".to_owned(),
    };
    let started = decide(&agent, AgentEvent::Start, moment());
    assert!(matches!(&started.changes[0], AgentChange::Tally(tally) if tally.in_a_row == 0));
}

fn silent(silent: Span) -> AgentEvent {
    AgentEvent::Silent {
        silent,
        made_progress: false,
        post_mortem: Box::default(),
    }
}

/// An agent that reports by itself, in this state.
fn reporter(state: AgentState) -> Agent {
    let labels = [(SELF_REPORTING.to_owned(), "true".to_owned())].into();
    let plan = AgentPlan {
        labels,
        ..AgentPlan::default()
    };
    Agent {
        plan,
        next_attempt: None,
        ..agent(state)
    }
}

/// Rows that are alike are one.
#[derive(Default)]
struct Rows(Vec<(Vec<&'static str>, String)>);

impl Rows {
    fn add(&mut self, name: &'static str, cell: String) {
        match self.0.iter_mut().find(|(_, alike)| *alike == cell) {
            Some((names, _)) => names.push(name),
            None => self.0.push((vec![name], cell)),
        }
    }

    fn text(&self) -> String {
        self.0
            .iter()
            .map(|(names, cell)| format!("{}\n    {cell}\n", names.join(" | ")))
            .collect()
    }
}

fn states() -> Vec<(&'static str, AgentState)> {
    let past = || Some(noon());
    let ahead = || Some(noon().plus(Span::from_secs(30)));
    let suspended = |why, until| AgentState::Suspended { why, until };
    vec![
        ("created", AgentState::Created),
        ("running", running(None)),
        ("running: stop", running(Some(StopReason::Stop))),
        ("running: shutdown", running(Some(StopReason::Shutdown))),
        ("running: restart", running(Some(StopReason::Restart))),
        ("running: hung", running(Some(StopReason::Hung))),
        ("running: timeout", running(Some(StopReason::Timeout))),
        ("crashed, due", AgentState::Crashed { again_at: past() }),
        ("crashed, waits", AgentState::Crashed { again_at: ahead() }),
        ("crashed for good", AgentState::Crashed { again_at: None }),
        ("deferred, due", suspended(Pause::Deferred, past())),
        ("deferred, waits", suspended(Pause::Deferred, ahead())),
        ("deferred for good", suspended(Pause::Deferred, None)),
        ("boot loop", suspended(Pause::HeldBack, None)),
        ("asking", suspended(Pause::Asking, None)),
        ("waits with its task", suspended(Pause::Task, None)),
        ("draining", suspended(Pause::Draining, None)),
        ("waits for its turn", suspended(Pause::Turn, None)),
        ("resting, due", suspended(Pause::Resting, past())),
        ("resting, waits", suspended(Pause::Resting, ahead())),
        (
            "stopped by a person",
            AgentState::Stopped {
                by: Stopper::Person,
            },
        ),
        (
            "stopped with its supervisor",
            AgentState::Stopped {
                by: Stopper::Shutdown,
            },
        ),
        (
            "stopped by itself",
            AgentState::Stopped {
                by: Stopper::Itself,
            },
        ),
        (
            "terminated",
            AgentState::Terminated {
                why: "why".to_owned(),
            },
        ),
    ]
}

fn endings() -> [(&'static str, StopReason); 5] {
    [
        ("stop", StopReason::Stop),
        ("shutdown", StopReason::Shutdown),
        ("restart", StopReason::Restart),
        ("hung", StopReason::Hung),
        ("timeout", StopReason::Timeout),
    ]
}

fn started(state: AgentState, task: Option<&str>) -> Agent {
    let task = task.map(task_id);
    let plan = AgentPlan {
        takes: Takes::Start,
        task,
        ..AgentPlan::default()
    };
    Agent {
        plan,
        ..agent(state)
    }
}

fn task_id(id: &str) -> TaskId {
    TaskId::new(id).expect("a valid id")
}

fn loop_plan() -> AgentPlan {
    AgentPlan {
        iterations_max: Some(0),
        ..AgentPlan::default()
    }
}

fn plans() -> [(&'static str, AgentPlan); 5] {
    let rule = |restart| AgentPlan {
        restart,
        ..AgentPlan::default()
    };
    let mut used_up = AgentPlan::default();
    used_up.policy.max_attempts = 1;
    [
        ("on-failure", rule(RestartRule::OnFailure)),
        ("always", rule(RestartRule::Always)),
        ("never", rule(RestartRule::Never)),
        ("loop", loop_plan()),
        ("used up", used_up),
    ]
}

fn deaths() -> Vec<(&'static str, Death)> {
    let (ok, code) = (death(HowEnded::Code(0)), death(HowEnded::Code(1)));
    let killed = death(HowEnded::Signal(9));
    let tomorrow = noon().plus(Span::from_secs(24 * 3_600));
    vec![
        ("exit 0", ok.clone()),
        (
            "exit 0, task unfinished",
            Death {
                unfinished_task: Some("t".to_owned()),
                ..ok.clone()
            },
        ),
        (
            "exit 0, said failure",
            Death {
                said: Some(ReportedEnd::Failure("x".to_owned())),
                ..ok
            },
        ),
        ("exit 1", code.clone()),
        (
            "exit 1 after a finished step",
            Death {
                made_progress: true,
                ..code.clone()
            },
        ),
        (
            "exit 1 after a stable life",
            Death {
                lived: Span::from_secs(600),
                ..code.clone()
            },
        ),
        (
            "exit 1, said success",
            Death {
                said: Some(ReportedEnd::Success),
                ..code.clone()
            },
        ),
        (
            "exit 1, said later",
            Death {
                said: Some(ReportedEnd::Later(Some(tomorrow))),
                ..code
            },
        ),
        ("exit 75", death(HowEnded::Code(75))),
        ("signal 9", killed.clone()),
        (
            "signal 9, said success",
            Death {
                said: Some(ReportedEnd::Success),
                ..killed.clone()
            },
        ),
        (
            "out of memory",
            Death {
                oom: true,
                ..killed
            },
        ),
        ("lost", Death::lost(noon(), "nobody knows")),
    ]
}

fn short(before: &Agent, decision: &AgentDecision) -> String {
    if *decision == AgentDecision::default() {
        return "-".to_owned();
    }
    let changes = decision
        .changes
        .iter()
        .map(|change| short_change(before, change));
    let effects = decision
        .effects
        .iter()
        .map(|effect| format!("! {}", short_effect(effect)));
    changes.chain(effects).collect::<Vec<String>>().join(" ")
}

fn short_change(before: &Agent, change: &AgentChange) -> String {
    match change {
        AgentChange::State(state) => format!("→{}", short_state(state)),
        AgentChange::Tally(Tally {
            deferrals: n @ 1.., ..
        }) => format!("deferrals={n}"),
        AgentChange::Tally(tally) => format!("row={} total={}", tally.in_a_row, tally.total()),
        AgentChange::Begun { number, tag } => {
            let ahead = if before.next_attempt.as_ref() == Some(tag) {
                ""
            } else {
                " (new tag)"
            };
            format!("begun#{number}{ahead}")
        }
        AgentChange::Reserved(tag) => format!("reserved#{}", tag.number().unwrap_or(0)),
        AgentChange::Ended { number, ended, .. } => format!("ended#{number}({})", ended.cause),
        AgentChange::Iteration(number) => format!("iteration={number}"),
        AgentChange::Given(Some(task)) => format!("given {task}"),
        AgentChange::Given(None) => "given nothing".to_owned(),
        AgentChange::Noted(kind, _) => format!("noted {}", kind.as_str()),
        AgentChange::Created(_)
        | AgentChange::Planned(_)
        | AgentChange::Spawned { .. }
        | AgentChange::Session(_)
        | AgentChange::LeaseTaken { .. }
        | AgentChange::LeaseEnded
        | AgentChange::Usage(_)
        | AgentChange::RemoteCommand(_) => format!("{change:?}"),
    }
}

fn short_state(state: &AgentState) -> String {
    match state {
        AgentState::Created => "created".to_owned(),
        AgentState::Running {
            attempt, ending, ..
        } => {
            let ending = ending.map(|ending| format!(": {ending:?}").to_lowercase());
            format!(
                "running#{}{}",
                attempt.number().unwrap_or(0),
                ending.unwrap_or_default()
            )
        }
        AgentState::Crashed { again_at } => format!("crashed({})", in_a_while(*again_at)),
        AgentState::Suspended { why, until } => {
            format!("suspended({why:?}, {})", in_a_while(*until)).to_lowercase()
        }
        AgentState::Stopped { by } => format!("stopped({by:?})").to_lowercase(),
        AgentState::Terminated { why } => format!("terminated({why})"),
    }
}

fn short_effect(effect: &AgentEffect) -> String {
    match effect {
        AgentEffect::Spawn {
            number, at_once, ..
        } => {
            format!("spawn#{number}{}", if *at_once { " at once" } else { "" })
        }
        AgentEffect::StopTree(ending) => format!("stop tree: {ending:?}").to_lowercase(),
        AgentEffect::WaitUntil(at) => format!("wait {}", in_a_while(Some(*at))),
        AgentEffect::AskUntil => "ask".to_owned(),
        AgentEffect::Alert(_) => "alert".to_owned(),
        AgentEffect::AtRest => "rest".to_owned(),
    }
}

fn in_a_while(at: Option<Time>) -> String {
    at.map_or_else(
        || "for good".to_owned(),
        |at| format!("in {}", at.since(noon())),
    )
}
