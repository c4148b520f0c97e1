//! Attempts: begun before they are started, ended once, newest first.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::{Attempt, AttemptTag, Cause, Death, RecordedDeath};
use relight_core::change::Change;
use relight_core::lease::Holder;
use relight_core::time::Span;

use super::Harness;
use super::given::{FREE, add, agent, done, fenced, later, lease_of, noon};
use super::given_agents::{
    add_agent, add_supervised, agent_commit, all_attempts, attempt, attempts, attempts_of,
    begun_attempt, done_agent, ended_attempt, ended_by, forget_attempts, found_at_death, process,
    put_agent, spawned_attempt, tag,
};
use relight_store::{AttemptQuery, TaskQuery};

const ODD: &str = "größer\n'; --\t\u{1b}[31m🏴 e\u{301} \u{202e}rtl \0 \u{10ffff}";

/// Each commit adds what it knows, and takes nothing away.
pub async fn an_attempt_keeps_what_was_begun_started_and_ended(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let fence = add_supervised(&*store, "a").await;
    let guard = fenced(fence);
    let begin = agent_commit("a", guard, vec![begun_attempt("a", 1)]);
    store
        .commit_agent(relight_store::AgentCommit {
            at: later(3),
            ..begin
        })
        .await
        .expect("taken");
    let begun = Attempt {
        agent: agent("a"),
        number: 1,
        tag: tag("a", 1),
        begun_at: later(3),
        process: None,
        shim: None,
        log: None,
        ended: None,
        post_mortem: None,
    };
    assert_eq!(attempt(&*other, &tag("a", 1)).await, Some(begun.clone()));
    done_agent(&*store, "a", guard, vec![spawned_attempt(1)]).await;
    let (leader, shim) = (Some(process(101)), Some(process(201)));
    let spawned = Attempt {
        process: leader,
        shim,
        log: Some((3, 4_096)),
        ..begun
    };
    assert_eq!(attempt(&*other, &tag("a", 1)).await, Some(spawned.clone()));
    done_agent(&*store, "a", guard, vec![ended_attempt(1)]).await;
    let ended = Some(ended_by(Cause::Signal, HowEnded::Signal(9)));
    let ended = Attempt {
        ended,
        post_mortem: Some(Default::default()),
        ..spawned
    };
    assert_eq!(attempt(&*other, &tag("a", 1)).await, Some(ended));
}

/// All causes and ways to end, and what was found.
pub async fn the_facts_of_a_death_come_back_whole(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    let hows = [
        HowEnded::Code(i32::MIN),
        HowEnded::Signal(64),
        HowEnded::Unknown,
    ];
    let saids = [
        None,
        Some(ReportedEnd::Success),
        Some(ReportedEnd::Failure(ODD.to_owned())),
        Some(ReportedEnd::Incurable(ODD.to_owned())),
        Some(ReportedEnd::SessionGone),
        Some(ReportedEnd::Later(None)),
        Some(ReportedEnd::Later(Some(later(60)))),
        Some(ReportedEnd::Limited {
            until: Some(later(60)),
            why: "429".to_owned(),
        }),
    ];
    for (place, cause) in Cause::ALL.into_iter().enumerate() {
        let number = place as u32 + 1;
        let death = Death {
            at: later(7),
            last_sign: (place % 2 == 1).then(|| later(5)),
            lived: Span::from_ms(u64::MAX),
            how: hows[place % hows.len()],
            oom: place % 2 == 0,
            unfinished_task: Some(ODD.to_owned()),
            made_progress: place % 2 == 1,
            node_lost: place % 3 == 1,
            said: saids[place % saids.len()].clone(),
            note: Some(ODD.to_owned()),
        };
        let ended = RecordedDeath { cause, death };
        let end = AgentChange::Ended {
            number,
            ended: Box::new(ended.clone()),
            post_mortem: Box::new(found_at_death(ODD)),
        };
        done_agent(&*store, "a", FREE, vec![begun_attempt("a", number), end]).await;
        let kept = attempt(&*store, &tag("a", number))
            .await
            .expect("the attempt is there");
        assert_eq!(
            (kept.ended, kept.post_mortem),
            (Some(ended), Some(found_at_death(ODD)))
        );
    }
}

/// In the order they were begun, whatever the wall clock said; of all agents or of one.
pub async fn attempts_come_newest_first(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["b", "a"] {
        add_agent(&*store, name).await;
    }
    for (at, (name, number)) in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]
        .iter()
        .enumerate()
    {
        let commit = agent_commit(name, FREE, vec![begun_attempt(name, *number)]);
        let at = later(100 - at as u64);
        store
            .commit_agent(relight_store::AgentCommit { at, ..commit })
            .await
            .expect("taken");
    }
    assert_eq!(
        attempts(&*store, all_attempts()).await,
        ["a.3", "b.2", "a.2", "b.1", "a.1"]
    );
    assert_eq!(
        attempts(&*store, attempts_of("a")).await,
        ["a.3", "a.2", "a.1"]
    );
    assert_eq!(attempts(&*store, attempts_of("absent")).await, [""; 0]);
    let two = AttemptQuery {
        limit: 2,
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, two).await, ["a.3", "b.2"]);
    let one = AttemptQuery {
        limit: 1,
        ..attempts_of("b")
    };
    assert_eq!(attempts(&*store, one).await, ["b.2"]);
    let none = AttemptQuery {
        limit: 0,
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, none).await, [""; 0]);
}

/// A page begins where the one before it ended.
pub async fn attempts_are_read_in_pages(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        add_agent(&*store, name).await;
    }
    for (name, number) in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)] {
        done_agent(&*store, name, FREE, vec![begun_attempt(name, number)]).await;
    }
    let before = |name: &str, number| Some(tag(name, number));
    let page = AttemptQuery {
        limit: 2,
        before: before("b", 2),
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, page).await, ["a.2", "b.1"]);
    let of_one = AttemptQuery {
        before: before("a", 3),
        ..attempts_of("a")
    };
    assert_eq!(attempts(&*store, of_one).await, ["a.2", "a.1"]);
    let first = AttemptQuery {
        before: before("a", 1),
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, first).await, [""; 0]);
    let unknown = AttemptQuery {
        before: before("c", 1),
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, unknown).await, [""; 0]);
}

/// What lives is no death.
pub async fn deaths_are_the_attempts_that_ended(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        add_agent(&*store, name).await;
        let life = vec![
            begun_attempt(name, 1),
            ended_attempt(1),
            begun_attempt(name, 2),
        ];
        done_agent(&*store, name, FREE, life).await;
    }
    let ended = AttemptQuery {
        ended: true,
        ..all_attempts()
    };
    assert_eq!(attempts(&*store, ended).await, ["b.1", "a.1"]);
    let ended = AttemptQuery {
        ended: true,
        ..attempts_of("a")
    };
    assert_eq!(attempts(&*store, ended).await, ["a.1"]);
}

/// Same number, another agent.
pub async fn agents_do_not_share_attempts(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        add_agent(&*store, name).await;
        done_agent(&*store, name, FREE, vec![begun_attempt(name, 1)]).await;
    }
    done_agent(&*store, "a", FREE, vec![ended_attempt(1)]).await;
    let other = attempt(&*store, &tag("b", 1))
        .await
        .expect("the attempt is there");
    assert_eq!((other.agent, other.ended), (agent("b"), None));
}

/// A supervisor whose first commit was not answered commits again: it is the same attempt.
pub async fn an_attempt_that_is_begun_again_keeps_its_place(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    add_agent(&*store, "b").await;
    done_agent(
        &*store,
        "a",
        FREE,
        vec![begun_attempt("a", 1), ended_attempt(1)],
    )
    .await;
    done_agent(&*store, "b", FREE, vec![begun_attempt("b", 1)]).await;
    let other = AttemptTag::from_text("a.1.other");
    let again = AgentChange::Begun {
        number: 1,
        tag: other.clone(),
    };
    done_agent(&*store, "a", FREE, vec![again]).await;
    assert_eq!(attempts(&*store, all_attempts()).await, ["b.1", "a.1"]);
    assert_eq!(attempt(&*store, &tag("a", 1)).await, None);
    assert_eq!(
        attempt(&*store, &other)
            .await
            .and_then(|attempt| attempt.ended),
        None
    );
}

/// Its event tells of it, for it happened; nothing comes into being.
pub async fn what_is_said_of_an_attempt_that_is_not_there_changes_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    add_agent(&*store, "a").await;
    done_agent(
        &*store,
        "a",
        FREE,
        vec![spawned_attempt(7), ended_attempt(7)],
    )
    .await;
    assert_eq!(attempts(&*store, all_attempts()).await, [""; 0]);
    assert_eq!(attempt(&*store, &tag("a", 7)).await, None);
}

/// By nobody else, not even by the agent's next attempt; the whole commit is refused.
pub async fn a_tag_is_given_once(harness: &dyn Harness) {
    let store = harness.open().await;
    for name in ["a", "b"] {
        add_agent(&*store, name).await;
    }
    done_agent(&*store, "a", FREE, vec![begun_attempt("a", 1)]).await;
    for (name, number) in [("a", 2), ("b", 1)] {
        let taken = AgentChange::Begun {
            number,
            tag: tag("a", 1),
        };
        let changes = vec![AgentChange::Session(Some("s".to_owned())), taken];
        put_agent(&*store, name, FREE, changes)
            .await
            .expect_err("the tag is taken");
        let agent = store
            .agent(&agent(name))
            .await
            .expect("a store that can be read");
        assert_eq!(agent.and_then(|agent| agent.session), None);
    }
    assert_eq!(attempts(&*store, all_attempts()).await, ["a.1"]);
}

/// So that `deaths` never loses the last word about an agent, nor one that lives.
pub async fn old_deaths_are_forgotten_but_the_newest_attempt_of_each_agent(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, ends) in [("a", [true, true, true]), ("b", [true, false, false])] {
        add_agent(&*store, name).await;
        for (place, ends) in ends.into_iter().enumerate() {
            let number = place as u32 + 1;
            let mut changes = vec![begun_attempt(name, number)];
            changes.extend(ends.then(|| ended_attempt(number)));
            let commit = agent_commit(name, FREE, changes);
            let at = later(u64::from(number));
            store
                .commit_agent(relight_store::AgentCommit { at, ..commit })
                .await
                .expect("taken");
        }
    }
    assert_eq!(forget_attempts(&*store, noon()).await, 0);
    assert_eq!(forget_attempts(&*store, later(2)).await, 2);
    assert_eq!(
        attempts(&*store, all_attempts()).await,
        ["b.3", "b.2", "a.3", "a.2"]
    );
    assert_eq!(forget_attempts(&*store, later(99)).await, 1);
    assert_eq!(
        attempts(&*store, all_attempts()).await,
        ["b.3", "b.2", "a.3"]
    );
    assert_eq!(forget_attempts(&*store, later(99)).await, 0);
}

/// As long as it holds them.
pub async fn tasks_can_be_asked_for_by_the_attempt_that_holds_them(harness: &dyn Harness) {
    let store = harness.open().await;
    let held_by = |tag: &AttemptTag| {
        let attempt = tag.as_str().to_owned();
        let holder = Holder::Attempt {
            process: None,
            attempt,
            shim: process(9),
        };
        Change::LeaseTaken { holder, ttl: None }
    };
    for task in ["free", "timed", "one", "other", "two"] {
        add(&*store, task).await;
    }
    let (ours, theirs) = (AttemptTag::from_text(ODD), tag("a", 2));
    done(&*store, "timed", FREE, vec![lease_of(Some(1_000))]).await;
    done(&*store, "two", FREE, vec![held_by(&ours)]).await;
    done(&*store, "one", FREE, vec![held_by(&ours)]).await;
    done(&*store, "other", FREE, vec![held_by(&theirs)]).await;
    let ask = async |tag: &AttemptTag| {
        let query = TaskQuery {
            held_by: Some(tag.clone()),
            ..TaskQuery::default()
        };
        let tasks = store.tasks(query).await.expect("a store that can be read");
        tasks
            .iter()
            .map(|task| task.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(&ours).await, ["one", "two"]);
    done(&*store, "one", FREE, vec![Change::LeaseEnded]).await;
    done(&*store, "two", FREE, vec![held_by(&theirs)]).await;
    assert_eq!(ask(&ours).await, [""; 0]);
    assert_eq!(ask(&theirs).await, ["other", "two"]);
    done(&*store, "two", FREE, vec![lease_of(None)]).await;
    assert_eq!(ask(&theirs).await, ["other"]);
}
