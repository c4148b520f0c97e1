//! Agents: all changes of a commit or none, only by whoever holds the agent.

use relight_core::agent::change::AgentChange;
use relight_core::agent::remote_command::{
    RemoteCommand, RemoteCommandOutcome, RemoteCommandProgress, RemoteVerb,
};
use relight_core::agent::{
    AgentPlan, AgentState, AgentStateKind, Pause, RestartRule, StopReason, Stopper, Takes, Typed,
};
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::lease::{Fence, Holder};
use relight_core::restart_budget::{HourCount, RestartPolicy, Tally};
use relight_core::time::Span;
use relight_core::usage::{AgentUsage, Reading, SpendLimit, Usage};
use serde_json::json;

use super::Harness;
use super::given::{FREE, agent, all_events, at_seq, events, fenced, later, noon, note};
use super::given_agents::{
    add_agent, add_supervised, agent_commit, agent_left, agent_names, all_of_agent, attempt,
    begun_attempt, created_as, done_agent, ended_attempt, events_of, forget_agent, plan, process,
    put_agent, read_agent, spawned_attempt, stopped, tag, taken_by, taken_for,
};
use relight_store::{AgentCommitError, AgentQuery, EventQuery};

const ODD: &str =
    "größer\n'; DROP TABLE agent; --\t\u{1b}[31m🏴 e\u{301} \u{202e}rtl \0 \u{10ffff}";

/// Whatever it is asked to be then.
pub async fn an_agent_is_created_once(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    let before = all_of_agent(&*store, "a").await;
    let again = put_agent(
        &*store,
        "a",
        FREE,
        vec![created_as(plan("false")), stopped()],
    )
    .await;
    assert!(matches!(&again, Err(AgentCommitError::Exists(name)) if *name == agent("a")));
    assert_eq!(all_of_agent(&*store, "a").await, before);
}

/// With and without changes, and whatever guard it shows.
pub async fn a_commit_to_an_absent_agent_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    for guard in [FREE, at_seq(0), fenced(Fence(0)), fenced(Fence(1))] {
        for changes in [vec![stopped()], Vec::new()] {
            let refused = put_agent(&*store, "a", guard, changes).await;
            assert!(matches!(&refused, Err(AgentCommitError::Absent(name)) if *name == agent("a")));
        }
    }
    assert_eq!(
        store
            .agent(&agent("a"))
            .await
            .expect("a store that can be read"),
        None
    );
    assert_eq!(
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
        0
    );
}

/// Every field, also at its far end.
pub async fn what_an_agent_was_asked_to_be_comes_back_whole(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let asked = AgentPlan {
        command: vec!["./agent".to_owned(), String::new(), ODD.to_owned()],
        folder: format!("/{ODD}"),
        preset: ODD.to_owned(),
        task: Some(super::given::id("t")),
        restart: RestartRule::Always,
        policy: RestartPolicy {
            max_attempts: u32::MAX,
            growth: 1.1,
            total_window: Span::from_ms(u64::MAX),
            ..RestartPolicy::default()
        },
        spend: SpendLimit {
            cost_micros: Some(u64::from(u32::MAX)),
            tokens: Some(1),
        },
        silence_max: None,
        step_silence_max: None,
        timeout: Some(Span::from_ms(1)),
        grace: Span::ZERO,
        defer: Span::from_secs(1),
        exit_completes: true,
        iterations_max: Some(0),
        takes: Takes::Start,
        skills: vec!["rust".to_owned()],
        pool: Some(agent("writers")),
        concurrency: Some(3),
        labels: [
            (ODD.to_owned(), ODD.to_owned()),
            (String::new(), String::new()),
        ]
        .into(),
        typed: Some(Typed {
            folder: format!("/{ODD}"),
            flags: vec![ODD.to_owned()],
        }),
    };
    done_agent(&*store, "a", FREE, vec![created_as(asked.clone())]).await;
    let first = AgentChange::first(&agent("a"), &asked, noon());
    let created = relight_core::agent::Agent { seq: 1, ..first };
    assert_eq!(read_agent(&*other, "a").await, created);
    done_agent(
        &*store,
        "a",
        FREE,
        vec![AgentChange::Planned(Box::new(plan("other")))],
    )
    .await;
    assert_eq!(read_agent(&*other, "a").await.plan, plan("other"));
}

/// One commit each, then all of them in one.
pub async fn every_change_of_an_agent_means_what_apply_says(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "each").await;
    add_agent(&*store, "all").await;
    let mut expected = read_agent(&*store, "each").await;
    for change in changes("each") {
        let commit = agent_commit("each", FREE, vec![change.clone()]);
        let at = later(expected.seq);
        let committed = store
            .commit_agent(relight_store::AgentCommit { at, ..commit })
            .await;
        change.apply(&mut expected, at);
        expected.seq += 1;
        let committed = committed.expect("a free commit is taken");
        assert_eq!(
            (committed.seq, committed.fence),
            (expected.seq, expected.lease.fence)
        );
        assert_eq!(
            read_agent(&*store, "each").await,
            expected,
            "after {change:?}"
        );
    }
    let mut expected = read_agent(&*store, "all").await;
    done_agent(&*store, "all", FREE, changes("all")).await;
    changes("all")
        .iter()
        .for_each(|change| change.apply(&mut expected, noon()));
    expected.seq += 1;
    assert_eq!(read_agent(&*store, "all").await, expected);
}

/// One of each kind, and each state.
fn changes(name: &str) -> Vec<AgentChange> {
    let running = |ending| AgentState::Running {
        attempt: tag(name, 1),
        since: later(9),
        ending,
    };
    let states = [
        running(None),
        running(Some(StopReason::Hung)),
        AgentState::Crashed {
            again_at: Some(later(60)),
        },
        AgentState::Crashed { again_at: None },
        AgentState::Suspended {
            why: Pause::Deferred,
            until: Some(later(60)),
        },
        AgentState::Suspended {
            why: Pause::HeldBack,
            until: None,
        },
        AgentState::Stopped {
            by: Stopper::Itself,
        },
        AgentState::Terminated {
            why: ODD.to_owned(),
        },
        AgentState::Created,
    ];
    let hours = vec![HourCount {
        hour: 493_000,
        restarts: u32::MAX,
    }];
    let mut all = vec![
        taken_for(1_000),
        AgentChange::Reserved(tag(name, 1)),
        begun_attempt(name, 1),
        AgentChange::Reserved(tag(name, 2)),
        spawned_attempt(1),
        AgentChange::Session(Some(ODD.to_owned())),
        AgentChange::Session(None),
        AgentChange::Iteration(u32::MAX),
        AgentChange::Tally(Tally {
            in_a_row: 3,
            deferrals: 2,
            hours,
        }),
        AgentChange::Usage(Box::new(usage())),
        AgentChange::Planned(Box::new(plan("other"))),
        ended_attempt(1),
        AgentChange::Noted(EventKind::Alert, json!({"why": ODD})),
        AgentChange::LeaseEnded,
        taken_by(7),
    ];
    all.extend(states.map(AgentChange::State));
    all
}

fn usage() -> AgentUsage {
    let used = Usage {
        cost_micros: 1_500_000,
        turns: 7,
        input_tokens: u64::from(u32::MAX),
        output_tokens: 1,
    };
    let mut usage = AgentUsage::default();
    let reading = Reading {
        source: ODD.to_owned(),
        total: used,
    };
    usage.meter.read(&reading, used);
    usage.with_progress(later(9))
}

/// A supervisor that lost its agent changes nothing, whatever it was doing.
pub async fn late_write_of_a_lost_supervisor_is_refused(harness: &dyn Harness) {
    let (lost, successor) = (harness.open().await, harness.open().await);
    let old = add_supervised(&*lost, "a").await;
    let new = done_agent(&*successor, "a", FREE, vec![taken_by(2)])
        .await
        .fence;
    let before = all_of_agent(&*successor, "a").await;
    for changes in [vec![begun_attempt("a", 1), stopped()], Vec::new()] {
        let refused = put_agent(&*lost, "a", fenced(old), changes).await;
        assert!(
            matches!(&refused, Err(AgentCommitError::Fenced { agent: name, ours, newest })
                if *name == agent("a") && *ours == old && *newest == new),
            "{refused:?}"
        );
    }
    assert_eq!(all_of_agent(&*successor, "a").await, before);
    done_agent(&*successor, "a", fenced(new), vec![begun_attempt("a", 1)]).await;
}

/// Both read the agent free; the store lets one through.
pub async fn two_supervisors_one_wins(harness: &dyn Harness) {
    let (ours, theirs) = (harness.open().await, harness.open().await);
    for round in 0..10 {
        let name = format!("a{round}");
        let seq = add_agent(&*ours, &name).await.seq;
        let takers = [(1, ours.clone()), (2, theirs.clone())].map(|(pid, store)| {
            let commit = agent_commit(&name, at_seq(seq), vec![taken_by(pid)]);
            tokio::spawn(async move { store.commit_agent(commit).await })
        });
        let [one, other] = takers;
        let both = [one.await.expect("no panic"), other.await.expect("no panic")];
        assert_eq!(
            both.iter().filter(|result| result.is_ok()).count(),
            1,
            "{both:?}"
        );
        assert!(
            both.iter()
                .any(|result| matches!(result, Err(AgentCommitError::Moved(_))))
        );
        assert_eq!(read_agent(&*ours, &name).await.lease.fence, Fence(1));
    }
}

/// Two that create at the same time make one agent.
pub async fn two_creators_of_one_agent_make_one(harness: &dyn Harness) {
    let (ours, theirs) = (harness.open().await, harness.open().await);
    for round in 0..10 {
        let name = format!("a{round}");
        let creators = [ours.clone(), theirs.clone()].map(|store| {
            let commit = agent_commit(&name, FREE, vec![created_as(plan("true"))]);
            tokio::spawn(async move { store.commit_agent(commit).await })
        });
        let [one, other] = creators;
        let both = [one.await.expect("no panic"), other.await.expect("no panic")];
        assert_eq!(
            both.iter().filter(|result| result.is_ok()).count(),
            1,
            "{both:?}"
        );
        assert!(
            both.iter()
                .any(|result| matches!(result, Err(AgentCommitError::Exists(_))))
        );
    }
}

/// Asked by whoever saw the agent so, done by whoever holds it, and over with its lease.
pub async fn a_wish_is_for_one_lease(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let fence = add_supervised(&*store, "a").await;
    let seen = read_agent(&*other, "a").await;
    let asked = RemoteCommand {
        id: "w".to_owned(),
        verb: RemoteVerb::Restart,
        by: ODD.to_owned(),
        progress: RemoteCommandProgress::Asked,
    };
    let wish = |progress: RemoteCommandProgress| {
        AgentChange::RemoteCommand(Box::new(asked.clone().at(progress)))
    };
    done_agent(
        &*other,
        "a",
        at_seq(seen.seq),
        vec![wish(RemoteCommandProgress::Asked)],
    )
    .await;
    let late = put_agent(
        &*other,
        "a",
        at_seq(seen.seq),
        vec![wish(RemoteCommandProgress::Withdrawn)],
    )
    .await;
    assert!(matches!(late, Err(AgentCommitError::Moved(_))), "{late:?}");
    assert_eq!(read_agent(&*store, "a").await.wish, Some(asked.clone()));
    let outcome = RemoteCommandOutcome {
        previous: AgentStateKind::Running,
        now: AgentStateKind::Stopped,
        task_cancelled: Some(super::given::id("t")),
        problem: Some(ODD.to_owned()),
    };
    let answers = vec![
        wish(RemoteCommandProgress::Taken),
        wish(RemoteCommandProgress::Answered(outcome.clone())),
    ];
    done_agent(&*store, "a", fenced(fence), answers).await;
    let answered = read_agent(&*other, "a").await;
    assert_eq!(
        answered.wish,
        Some(asked.clone().at(RemoteCommandProgress::Answered(outcome)))
    );
    assert_eq!(answered.updated_at, seen.updated_at);
    let wishes = EventQuery {
        kinds: vec![EventKind::AgentWish],
        ..all_events()
    };
    let told = other
        .events(wishes)
        .await
        .expect("a store that can be read");
    let told: Vec<_> = told
        .iter()
        .map(|event| event.detail["progress"].clone())
        .collect();
    assert_eq!(told, ["asked", "answered"]);
    done_agent(&*store, "a", FREE, vec![taken_by(2)]).await;
    assert_eq!(read_agent(&*other, "a").await.wish, None);
}

/// Given back is given back, though no newer lease was given; the next one has a number of its own.
pub async fn a_supervisor_that_gave_back_writes_no_more(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_supervised(&*store, "a").await;
    done_agent(
        &*store,
        "a",
        fenced(fence),
        vec![stopped(), AgentChange::LeaseEnded],
    )
    .await;
    let refused = put_agent(&*store, "a", fenced(fence), vec![stopped()]).await;
    assert!(
        matches!(refused, Err(AgentCommitError::Fenced { ours, newest, .. }) if ours == newest)
    );
    assert_eq!(read_agent(&*store, "a").await.lease.held, None);
    assert_eq!(
        done_agent(&*store, "a", FREE, vec![taken_by(2)])
            .await
            .fence,
        Fence(2)
    );
}

/// With the right fence too; and the fence is compared first.
pub async fn a_commit_upon_an_old_read_of_an_agent_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_supervised(&*store, "a").await;
    let before = all_of_agent(&*store, "a").await;
    for seq in [0, 2, u64::MAX] {
        let guard = Guard {
            fence: Some(fence),
            seq: Some(seq),
        };
        let refused = put_agent(&*store, "a", guard, vec![stopped()]).await;
        assert!(matches!(&refused, Err(AgentCommitError::Moved(name)) if *name == agent("a")));
        let guard = Guard {
            fence: Some(fence.next()),
            seq: Some(seq),
        };
        let refused = put_agent(&*store, "a", guard, vec![stopped()]).await;
        assert!(matches!(refused, Err(AgentCommitError::Fenced { .. })));
    }
    assert_eq!(all_of_agent(&*store, "a").await, before);
    let guard = Guard {
        fence: Some(fence),
        seq: Some(1),
    };
    assert_eq!(
        done_agent(&*store, "a", guard, vec![stopped()]).await.seq,
        2
    );
}

/// Nothing moves and nobody is told.
pub async fn an_empty_commit_to_an_agent_only_compares(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_supervised(&*store, "a").await;
    let before = all_of_agent(&*store, "a").await;
    for guard in [fenced(fence), at_seq(1), FREE] {
        let committed = done_agent(&*store, "a", guard, Vec::new()).await;
        assert_eq!((committed.seq, committed.fence), (1, fence));
    }
    assert_eq!(all_of_agent(&*store, "a").await, before);
}

/// Counted down by the store's clock, and whole again with each write of the holder.
pub async fn a_timed_lease_of_an_agent_is_renewed_by_its_holder_alone(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    add_agent(&*store, "a").await;
    let fence = done_agent(&*store, "a", FREE, vec![taken_for(1_000)])
        .await
        .fence;
    harness.advance(Span::from_secs(700)).await;
    done_agent(&*other, "a", FREE, vec![stopped()]).await;
    done_agent(&*other, "a", FREE, Vec::new()).await;
    assert_eq!(agent_left(&*other, "a").await, Some(Span::from_secs(300)));
    for changes in [vec![stopped()], Vec::new()] {
        done_agent(&*store, "a", fenced(fence), changes).await;
        assert_eq!(agent_left(&*other, "a").await, Some(Span::from_secs(1_000)));
        harness.advance(Span::from_secs(360_000)).await;
        assert_eq!(agent_left(&*other, "a").await, Some(Span::ZERO));
    }
    done_agent(&*store, "a", FREE, vec![taken_for(3_000)]).await;
    assert_eq!(agent_left(&*other, "a").await, Some(Span::from_secs(3_000)));
}

/// Only the supervisor's death does; it comes back with all that tells it from another.
pub async fn no_clock_ends_a_supervisors_lease(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    done_agent(&*store, "a", FREE, vec![taken_for(1_000)]).await;
    let fence = done_agent(&*store, "a", FREE, vec![taken_by(7)])
        .await
        .fence;
    harness.advance(Span::from_secs(86_400 * 365)).await;
    done_agent(&*store, "a", fenced(fence), vec![stopped()]).await;
    let held = read_agent(&*store, "a")
        .await
        .lease
        .held
        .expect("the agent is held");
    assert_eq!((held.ttl, held.left, held.since), (None, None, noon()));
    assert_eq!(held.holder, Holder::Process(process(7)));
}

/// With the change's own kind and detail, seen from the agent it was applied to. What only counts
/// is not told.
pub async fn each_change_of_an_agent_that_is_told_leaves_one_event(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_supervised(&*store, "a").await;
    let mut before = read_agent(&*store, "a").await;
    let newest = store
        .newest_event()
        .await
        .expect("a store that can be read");
    done_agent(&*store, "a", fenced(fence), changes("a")).await;
    let mut expected = Vec::new();
    for change in changes("a") {
        if change.is_told() {
            expected.push((change.kind(), change.detail(Some(&before))));
        }
        change.apply(&mut before, noon());
    }
    let seen = events(
        &*store,
        EventQuery {
            after: newest,
            ..all_events()
        },
    )
    .await;
    let told: Vec<_> = seen
        .iter()
        .map(|event| (event.kind, event.detail.clone()))
        .collect();
    assert_eq!(told, expected);
    let whole = |event: &&relight_core::event::Event| {
        event.agent == Some(agent("a")) && event.fence == Some(fence) && event.at == noon()
    };
    assert_eq!(seen.iter().filter(whole).count(), seen.len());
    assert!(
        seen.iter()
            .all(|event| event.task.is_none() && event.step.is_none())
    );
}

/// Among those of other agents and of tasks, in pages and by kind.
pub async fn events_can_be_asked_for_by_agent(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        super::given::add_with(&*store, name, |new| new.agent = Some(agent(name))).await;
        super::given::done(&*store, name, FREE, vec![note("x")]).await;
        add_agent(&*store, name).await;
        done_agent(&*store, name, FREE, vec![begun_attempt(name, 1), stopped()]).await;
    }
    let kinds = async |query| {
        events(&*store, query)
            .await
            .iter()
            .map(|event| event.kind)
            .collect::<Vec<_>>()
    };
    use EventKind::{AgentCreated, AgentState, AttemptBegun};
    assert_eq!(
        kinds(events_of("b")).await,
        [AgentCreated, AttemptBegun, AgentState]
    );
    assert_eq!(kinds(events_of("absent")).await, []);
    let first = EventQuery {
        limit: 1,
        ..events_of("b")
    };
    assert_eq!(kinds(first).await, [AgentCreated]);
    let last = EventQuery {
        limit: 2,
        newest: true,
        ..events_of("b")
    };
    assert_eq!(kinds(last).await, [AttemptBegun, AgentState]);
    let of_kind = EventQuery {
        kinds: vec![AttemptBegun],
        ..events_of("a")
    };
    assert_eq!(kinds(of_kind).await, [AttemptBegun]);
    let after = events(&*store, events_of("b")).await[0].id;
    assert_eq!(
        kinds(EventQuery {
            after,
            ..events_of("a")
        })
        .await,
        []
    );
    let of_task = EventQuery {
        task: Some(super::given::id("a")),
        ..all_events()
    };
    assert!(
        events(&*store, of_task)
            .await
            .iter()
            .all(|event| event.agent.is_none())
    );
}

/// Byte by byte, in pages, and by state.
pub async fn agents_come_in_the_order_of_their_names(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["b", "a.b", "B", "a/b", "a", "a-b", "10", "9"] {
        add_agent(&*store, name).await;
    }
    let all = ["10", "9", "B", "a", "a-b", "a.b", "a/b", "b"];
    assert_eq!(agent_names(&*store, AgentQuery::default()).await, all);
    let page = AgentQuery {
        after: Some(agent("B")),
        limit: Some(2),
        ..AgentQuery::default()
    };
    assert_eq!(agent_names(&*store, page).await, ["a", "a-b"]);
    let gone = AgentQuery {
        after: Some(agent("a.a")),
        ..AgentQuery::default()
    };
    assert_eq!(
        agent_names(&*store, gone).await,
        ["a.b", "a/b", "b"],
        "a pager goes on"
    );
    done_agent(&*store, "9", FREE, vec![stopped()]).await;
    done_agent(
        &*store,
        "b",
        FREE,
        vec![AgentChange::State(AgentState::Crashed { again_at: None })],
    )
    .await;
    let states = vec![AgentStateKind::Stopped, AgentStateKind::Crashed];
    let some = AgentQuery {
        states,
        ..AgentQuery::default()
    };
    assert_eq!(agent_names(&*store, some).await, ["9", "b"]);
}

/// By state, and only states that are there.
pub async fn the_inventory_counts_agents_by_state(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b", "c"] {
        add_agent(&*store, name).await;
    }
    done_agent(&*store, "b", FREE, vec![stopped()]).await;
    let agents = store
        .inventory(true)
        .await
        .expect("a store that can be read")
        .agents;
    assert_eq!(
        agents,
        [(AgentStateKind::Created, 2), (AgentStateKind::Stopped, 1)]
    );
}

/// All of them are taken, and none takes another's place.
pub async fn a_thousand_agents_commit_at_the_same_time(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut agents = Vec::new();
    for number in 0..1_000 {
        let store = store.clone();
        agents.push(tokio::spawn(async move {
            let name = format!("a{number:03}");
            let fence = add_supervised(&*store, &name).await;
            let life = vec![begun_attempt(&name, 1), spawned_attempt(1)];
            done_agent(&*store, &name, fenced(fence), life).await;
            let next = vec![ended_attempt(1), begun_attempt(&name, 2)];
            done_agent(&*store, &name, fenced(fence), next).await.seq
        }));
    }
    for agent in agents {
        assert_eq!(agent.await.expect("no panic"), 3);
    }
    let agents = store
        .agents(AgentQuery::default())
        .await
        .expect("a store that can be read");
    assert!(agents.len() == 1_000 && agents.iter().all(|agent| agent.attempt_number == 2));
    let query = relight_store::AttemptQuery {
        agent: None,
        ended: true,
        limit: usize::MAX,
        before: None,
    };
    let ended = store
        .attempts(query)
        .await
        .expect("a store that can be read");
    assert!(ended.len() == 1_000 && ended.iter().all(|attempt| attempt.number == 1));
}

/// A person who forgets it does not take it from its supervisor.
pub async fn an_agent_that_is_held_or_moved_on_is_not_forgotten(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_supervised(&*store, "a").await;
    let before = all_of_agent(&*store, "a").await;
    assert!(!forget_agent(&*store, "a", 1).await, "it is held");
    assert_eq!(all_of_agent(&*store, "a").await, before);
    done_agent(&*store, "a", fenced(fence), vec![AgentChange::LeaseEnded]).await;
    assert!(!forget_agent(&*store, "a", 1).await, "it has moved on");
    assert!(!forget_agent(&*store, "absent", 0).await);
    assert!(forget_agent(&*store, "a", 2).await);
}

/// But the event that tells of it, and nothing of another's goes.
pub async fn a_forgotten_agent_leaves_nothing_behind(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        add_agent(&*store, name).await;
        done_agent(&*store, name, FREE, vec![begun_attempt(name, 1), stopped()]).await;
    }
    let (others, newest) = (
        all_of_agent(&*store, "a").await,
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
    );
    assert!(forget_agent(&*store, "b", 2).await);
    assert_eq!(
        store
            .agent(&agent("b"))
            .await
            .expect("a store that can be read"),
        None
    );
    assert_eq!(attempt(&*store, &tag("b", 1)).await, None);
    assert_eq!(events(&*store, events_of("b")).await, []);
    let told = events(
        &*store,
        EventQuery {
            after: newest,
            ..all_events()
        },
    )
    .await;
    let told: Vec<_> = told
        .iter()
        .map(|event| (&event.agent, &event.detail))
        .collect();
    assert_eq!(told, [(&None, &json!({"forgotten": "b"}))]);
    let left = all_of_agent(&*store, "a").await;
    assert_eq!((left.0, left.1, left.2), (others.0, others.1, others.2));
}

/// With nothing of the old one, also where a store gives its place again.
pub async fn a_forgotten_agent_can_be_created_anew(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    done_agent(
        &*store,
        "a",
        FREE,
        vec![begun_attempt("a", 1), ended_attempt(1)],
    )
    .await;
    forget_agent(&*store, "a", 2).await;
    add_agent(&*store, "a").await;
    let (anew, attempts, events, _) = all_of_agent(&*store, "a").await;
    let anew = anew.expect("the agent is there");
    assert_eq!(
        (anew.seq, anew.attempt_number, anew.lease.fence),
        (1, 0, Fence(0))
    );
    assert_eq!((attempts.len(), events.len()), (0, 1));
}

/// Only then is it worth reading them all.
pub async fn the_mark_of_agents_changes_with_their_holders(harness: &dyn Harness) {
    let store = harness.open().await;
    let mark = async || store.agents_mark().await.expect("a store that can be read");
    let mut marks = vec![mark().await];
    add_agent(&*store, "a").await;
    marks.push(mark().await);
    let fence = done_agent(&*store, "a", FREE, vec![taken_by(1)])
        .await
        .fence;
    marks.push(mark().await);
    done_agent(&*store, "a", fenced(fence), vec![begun_attempt("a", 1)]).await;
    assert_eq!(mark().await, marks[2]);
    done_agent(&*store, "a", fenced(fence), vec![AgentChange::LeaseEnded]).await;
    marks.push(mark().await);
    done_agent(&*store, "a", FREE, vec![taken_by(2)]).await;
    marks.push(mark().await);
    for (at, mark) in marks.iter().enumerate() {
        assert!(
            !marks[..at].contains(mark),
            "the {at}th is as one before: {marks:?}"
        );
    }
}
