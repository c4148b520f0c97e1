//! What a commit does, and what refuses it.

use std::time::Duration;

use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::lease::Fence;
use relight_core::status::TaskStatus;
use relight_core::step::{Output, StepOutcome, StepState};
use relight_core::task::{CheckpointSettings, NewTask, TaskSpec};
use relight_core::time::Span;
use relight_core::usage::{Reading, Usage, UsageMeter};
use serde_json::json;

use super::Harness;
use super::given::{
    FREE, add, add_held, add_with, agent, all_of, at_seq, begun, commit_of, created, done, ended,
    fenced, id, key, later, lease_of, mark, new_task, noon, note, put, read, step, steps, to,
};
use relight_store::CommitError;

/// What one handle was told is done, the next one reads.
pub async fn a_commit_is_seen_by_every_handle(harness: &dyn Harness) {
    let (ours, theirs) = (harness.open().await, harness.open().await);
    add(&*ours, "t").await;
    assert_eq!(read(&*theirs, "t").await, read(&*ours, "t").await);
    done(&*theirs, "t", FREE, vec![note("x")]).await;
    assert_eq!(read(&*ours, "t").await.context["note"], "x");
}

fn full(task: &str) -> NewTask {
    NewTask {
        id: id(task),
        agent: Some(agent("writer")),
        spec: TaskSpec {
            title: Some("Write it".to_owned()),
            steps: vec![
                super::given::step_key("plan").name,
                super::given::step_key("write it down").name,
            ],
            payload: Some(json!({"n": 1, "list": [null, true, 1.5, "x"]})),
            strategy: Some("resume".to_owned()),
            max_retries: Some(7),
            key: Some(key("order 66")),
            priority: -3,
            needs: vec!["rust".to_owned(), "sql".to_owned()],
            ttl_ms: Some(60_000),
            observed: false,
            spent_keys: vec![key("order 64"), key("order 65")],
            meter: meter(),
        },
        context: [("branch".to_owned(), "main".to_owned())].into(),
        expires_at: Some(later(60)),
        checkpoint: Some(door()),
    }
}

fn meter() -> UsageMeter {
    let total = Usage {
        input_tokens: 12_345,
        output_tokens: 67,
        ..Usage::default()
    };
    let source = "session s".to_owned();
    let mut meter = UsageMeter::default();
    meter.read(&Reading { source, total }, total);
    meter
}

fn door() -> CheckpointSettings {
    CheckpointSettings {
        folder: "/srv/memory/checkpoints".to_owned(),
        handoff_to: Some("reviewer".to_owned()),
        notes: Some("two lines\nof notes".to_owned()),
        blocked: true,
    }
}

/// Every field of a new task survives.
pub async fn what_was_asked_for_comes_back_whole(harness: &dyn Harness) {
    let store = harness.open().await;
    let new = full("t");
    store
        .commit(created(new.clone()))
        .await
        .expect("a new task is taken");
    let mut expected = Change::first(&new, noon());
    expected.seq = 1;
    assert_eq!(read(&*store, "t").await, expected);
    let by_key = store
        .task_with_key(&key("order 66"))
        .await
        .expect("a store that can be read");
    assert_eq!(by_key, Some(expected));
}

/// After each kind of change the store's task is what `Change::apply` makes of it.
pub async fn every_change_means_what_apply_says(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let mut expected = read(&*store, "t").await;
    let ended_open = |name, outcome| Change::StepEnded {
        mark: mark(name, 1, true),
        outcome,
        output: None,
    };
    let changes = [
        Change::Assigned(Some(agent("writer"))),
        Change::Status {
            to: TaskStatus::Blocked,
            reason: Some("why".to_owned()),
        },
        to(TaskStatus::Assigned),
        Change::Retried,
        lease_of(Some(1_000)),
        begun("s"),
        ended_open("s", StepOutcome::Done),
        begun("r"),
        ended_open("r", StepOutcome::Failed),
        Change::StepBegun(mark("r", 2, false)),
        Change::StepBegun(mark("r", 3, true)),
        Change::StepResolved {
            mark: mark("r", 3, true),
            happened: true,
        },
        Change::StepSkipped {
            mark: mark("q", 0, false),
            reason: "why".to_owned(),
        },
        Change::LeaseEnded,
        lease_of(None),
        Change::FenceRaised,
        note("x"),
        Change::ContextSet([("more".to_owned(), "y".to_owned())].into()),
        Change::NotBefore(Some(later(5))),
        Change::NotBefore(None),
        Change::StepsDeclared(vec![super::given::step_key("declared").name]),
        Change::CheckpointSettings(door()),
        Change::Noted(EventKind::CheckpointImported, json!({"from": "elsewhere"})),
        Change::Replaced(Box::new(full("t"))),
        Change::StepsCleared,
        Change::Assigned(None),
    ];
    for (count, change) in changes.into_iter().enumerate() {
        let at = later(count as u64);
        let commit = commit_of(&id("t"), FREE, vec![change.clone()]);
        let committed = store.commit(relight_store::Commit { at, ..commit }).await;
        change.apply(&mut expected, at);
        expected.seq += 1;
        assert_eq!(read(&*store, "t").await, expected, "after {change:?}");
        let committed = committed.expect("a free commit is taken");
        assert_eq!(
            (committed.seq, committed.fence),
            (expected.seq, expected.lease.fence)
        );
    }
}

/// The same id again is refused, whatever it asks for.
pub async fn a_task_is_created_once(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let before = all_of(&*store, "t").await;
    let again = store
        .commit(created(new_task("t", |new| new.agent = Some(agent("a")))))
        .await;
    assert!(matches!(again, Err(CommitError::Exists(task)) if task == id("t")));
    assert_eq!(all_of(&*store, "t").await, before);
}

/// Nothing is written about a task that is not there.
pub async fn a_commit_to_an_absent_task_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    for guard in [FREE, fenced(Fence(1)), at_seq(0)] {
        for changes in [vec![note("x")], Vec::new()] {
            let refused = put(&*store, "t", guard, changes).await;
            assert!(matches!(refused, Err(CommitError::Absent(task)) if task == id("t")));
        }
    }
    assert_eq!(
        all_of(&*store, "t").await,
        (None, Vec::new(), Vec::new(), 0)
    );
}

/// The second task with a key is refused and told whose the key is.
pub async fn an_idempotency_key_makes_one_task(harness: &dyn Harness) {
    let store = harness.open().await;
    add_with(&*store, "first", |new| new.spec.key = Some(key("k"))).await;
    let second = new_task("second", |new| new.spec.key = Some(key("k")));
    let refused = store.commit(created(second)).await;
    assert!(
        matches!(&refused, Err(CommitError::KeyTaken { key: k, task }) if *k == key("k") && *task == id("first")),
        "{refused:?}"
    );
    assert_eq!(all_of(&*store, "second").await.0, None);
    let owner = store
        .task_with_key(&key("k"))
        .await
        .expect("a store that can be read");
    assert_eq!(owner.map(|task| task.id), Some(id("first")));
    assert_eq!(
        store
            .task_with_key(&key("other"))
            .await
            .expect("a store that can be read"),
        None
    );
}

/// Two processes that ask for the same work at once make one task.
pub async fn two_creators_of_one_key_make_one_task(harness: &dyn Harness) {
    let (ours, theirs) = (harness.open().await, harness.open().await);
    let with_key = |task| created(new_task(task, |new| new.spec.key = Some(key("k"))));
    let (a, b) = (with_key("a"), with_key("b"));
    let (one, other) = tokio::join!(
        tokio::spawn(async move { ours.commit(a).await }),
        tokio::spawn(async move { theirs.commit(b).await }),
    );
    let both = [one.expect("no panic"), other.expect("no panic")];
    assert_eq!(
        both.iter().filter(|result| result.is_ok()).count(),
        1,
        "{both:?}"
    );
    assert!(
        both.iter()
            .any(|result| matches!(result, Err(CommitError::KeyTaken { .. })))
    );
}

/// A key that its task gave up can be used by another, and not before.
pub async fn a_key_is_free_again_once_its_task_has_another(harness: &dyn Harness) {
    let store = harness.open().await;
    add_with(&*store, "a", |new| new.spec.key = Some(key("k"))).await;
    add(&*store, "b").await;
    let with_key = |task: &str, text: &str| {
        vec![Change::Replaced(Box::new(new_task(task, |new| {
            new.spec.key = Some(key(text));
        })))]
    };
    let refused = put(&*store, "b", FREE, with_key("b", "k")).await;
    assert!(matches!(refused, Err(CommitError::KeyTaken { task, .. }) if task == id("a")));
    done(&*store, "a", FREE, with_key("a", "k2")).await;
    done(&*store, "b", FREE, with_key("b", "k")).await;
    for (text, owner) in [("k", "b"), ("k2", "a")] {
        let found = store
            .task_with_key(&key(text))
            .await
            .expect("a store that can be read");
        assert_eq!(found.map(|task| task.id), Some(id(owner)));
    }
}

/// A task is not in its own way.
pub async fn a_task_may_keep_its_own_key(harness: &dyn Harness) {
    let store = harness.open().await;
    let new = new_task("a", |new| new.spec.key = Some(key("k")));
    store
        .commit(created(new.clone()))
        .await
        .expect("a new task is taken");
    done(&*store, "a", FREE, vec![Change::Replaced(Box::new(new))]).await;
    assert_eq!(read(&*store, "a").await.spec.key, Some(key("k")));
}

/// All or nothing holds also when the last change is the one that cannot be.
pub async fn a_key_taken_later_in_a_commit_refuses_all_of_it(harness: &dyn Harness) {
    let store = harness.open().await;
    add_with(&*store, "a", |new| new.spec.key = Some(key("k"))).await;
    add(&*store, "b").await;
    let before = all_of(&*store, "b").await;
    let thief = new_task("b", |new| new.spec.key = Some(key("k")));
    let changes = vec![
        note("x"),
        lease_of(Some(1_000)),
        begun("s"),
        ended("s", "out"),
        Change::Replaced(Box::new(thief)),
    ];
    let refused = put(&*store, "b", FREE, changes).await;
    assert!(matches!(refused, Err(CommitError::KeyTaken { .. })));
    assert_eq!(all_of(&*store, "b").await, before);
    done(&*store, "b", FREE, vec![note("y")]).await;
    assert_eq!(read(&*store, "b").await.seq, 2);
}

/// Who decided upon an older state must read again.
pub async fn a_commit_that_stands_on_an_old_read_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    let read_at = add(&*store, "t").await.seq;
    done(&*store, "t", at_seq(read_at), vec![note("first")]).await;
    let refused = put(&*store, "t", at_seq(read_at), vec![note("second")]).await;
    assert!(matches!(refused, Err(CommitError::Moved(task)) if task == id("t")));
    let from_the_future = put(&*store, "t", at_seq(99), vec![note("third")]).await;
    assert!(matches!(from_the_future, Err(CommitError::Moved(_))));
    assert_eq!(read(&*store, "t").await.context["note"], "first");
}

/// A writer that lost its lease is told so, and not that it should read again.
pub async fn the_fence_is_compared_before_the_sequence_number(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    let wrong = |fence, seq| Guard {
        fence: Some(Fence(fence)),
        seq: Some(seq),
    };
    let both = put(&*store, "t", wrong(7, 99), vec![note("x")]).await;
    assert!(matches!(both, Err(CommitError::Fenced { .. })));
    let seq_only = put(&*store, "t", wrong(1, 99), vec![note("x")]).await;
    assert!(matches!(seq_only, Err(CommitError::Moved(_))));
    done(&*store, "t", wrong(1, 2), vec![note("x")]).await;
}

/// Fenced or moved on: task, steps and events are as before.
pub async fn a_refused_commit_changes_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    let before = all_of(&*store, "t").await;
    let everything = || vec![note("x"), begun("s"), ended("s", "y"), Change::FenceRaised];
    for guard in [fenced(Fence(0)), fenced(Fence(2)), at_seq(1)] {
        put(&*store, "t", guard, everything())
            .await
            .expect_err("a wrong guard is refused");
    }
    assert_eq!(all_of(&*store, "t").await, before);
    assert_eq!(super::given::output(&*store, "t", "s").await, None);
}

/// Commits handed in together may share a transaction; one that is refused takes none with it.
pub async fn a_failing_operation_fails_alone(harness: &dyn Harness) {
    let store = harness.open().await;
    for number in 0..40 {
        add(&*store, &format!("t{number}")).await;
    }
    let all: Vec<_> = (0..40)
        .map(|number| {
            let store = store.clone();
            let guard = if number % 3 == 0 {
                fenced(Fence(9))
            } else {
                at_seq(1)
            };
            let commit = commit_of(
                &id(&format!("t{number}")),
                guard,
                vec![note("x"), begun("s")],
            );
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    for (number, result) in all.into_iter().enumerate() {
        let result = result.await.expect("no panic");
        let task = format!("t{number}");
        let steps = steps(&*store, &task).await.len();
        if number % 3 == 0 {
            assert!(
                matches!(result, Err(CommitError::Fenced { .. })),
                "{task}: {result:?}"
            );
            assert_eq!((read(&*store, &task).await.seq, steps), (1, 0), "{task}");
        } else {
            assert_eq!(result.map(|c| c.seq).ok(), Some(2), "{task}");
            assert_eq!((read(&*store, &task).await.seq, steps), (2, 1), "{task}");
        }
    }
}

/// However many changes it holds.
pub async fn every_commit_moves_the_sequence_number_by_one(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(add(&*store, "t").await.seq, 1);
    let many = vec![note("x"), lease_of(None), begun("s"), ended("s", "")];
    assert_eq!(done(&*store, "t", FREE, many).await.seq, 2);
    assert_eq!(done(&*store, "t", at_seq(2), vec![note("y")]).await.seq, 3);
    assert_eq!(read(&*store, "t").await.seq, 3);
}

/// It checks its guard and answers where the task stands.
pub async fn an_empty_commit_writes_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    let before = all_of(&*store, "t").await;
    for guard in [FREE, fenced(fence), at_seq(2)] {
        let committed = done(&*store, "t", guard, Vec::new()).await;
        assert_eq!((committed.seq, committed.fence), (2, fence));
    }
    put(&*store, "t", at_seq(1), Vec::new())
        .await
        .expect_err("a wrong guard is refused");
    put(&*store, "t", fenced(Fence(9)), Vec::new())
        .await
        .expect_err("a wrong guard is refused");
    assert_eq!(all_of(&*store, "t").await, before);
}

/// Also when the next commit is about another task.
pub async fn commit_soon_is_there_after_the_next_commit(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    add(&*store, "t").await;
    add(&*store, "u").await;
    store.commit_deferred(commit_of(&id("t"), FREE, vec![begun("s")]));
    done(&*store, "u", FREE, vec![note("x")]).await;
    let seen = step(&*other, "t", "s").await.expect("the step was begun");
    assert_eq!(seen.state, StepState::Begun);
    assert_eq!(read(&*other, "t").await.seq, 2);
}

/// What is handed in first is applied first, whether it was waited for or not.
pub async fn commit_soon_keeps_its_order(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    for number in 0..20 {
        let name = format!("s{number}");
        store.commit_deferred(commit_of(&id("t"), fenced(fence), vec![begun(&name)]));
        if number % 5 == 4 {
            done(&*store, "t", fenced(fence), vec![ended(&name, "x")]).await;
        }
    }
    let expected: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    assert_eq!(steps(&*store, "t").await, expected);
    let task = read(&*store, "t").await;
    assert_eq!((task.seq, task.steps_done, task.steps_open), (26, 4, 16));
}

/// Nobody has to commit after it.
pub async fn commit_soon_gets_there_by_itself(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    add(&*store, "t").await;
    let before = store
        .newest_event()
        .await
        .expect("a store that can be read");
    store.commit_deferred(commit_of(&id("t"), FREE, vec![begun("s")]));
    let arrived = async {
        while step(&*other, "t", "s").await.is_none() {
            other
                .changed(before)
                .await
                .expect("a store that can be read");
        }
    };
    tokio::time::timeout(Duration::from_secs(5), arrived)
        .await
        .expect("it gets there by itself");
}

/// Its failure is nobody's: the next commits are taken.
pub async fn commit_soon_that_is_refused_harms_nobody(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    store.commit_deferred(commit_of(&id("t"), fenced(Fence(9)), vec![begun("lost")]));
    store.commit_deferred(commit_of(&id("absent"), FREE, vec![begun("lost")]));
    store.commit_deferred(commit_of(&id("t"), fenced(fence), vec![begun("kept")]));
    assert_eq!(
        done(&*store, "t", fenced(fence), vec![note("x")]).await.seq,
        4
    );
    assert_eq!(steps(&*store, "t").await, ["kept"]);
}

/// Recalled or made, never both and never neither; too late is said to be too late.
pub async fn what_was_cancelled_is_never_made(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    for number in 0..20 {
        let name = format!("s{number}");
        let commit = commit_of(&id("t"), fenced(fence), vec![begun(&name)]);
        let cancelled = store.commit_deferred(commit).cancel();
        done(&*store, "t", fenced(fence), vec![note("x")]).await;
        assert_eq!(step(&*store, "t", &name).await.is_none(), cancelled);
    }
    let soon = store.commit_deferred(commit_of(&id("t"), fenced(fence), vec![begun("made")]));
    done(&*store, "t", fenced(fence), vec![note("x")]).await;
    assert!(!soon.cancel(), "it was made");
    assert!(step(&*store, "t", "made").await.is_some());
}

/// Created, taken, worked on and finished in one go.
pub async fn a_commit_may_hold_everything_at_once(harness: &dyn Harness) {
    let store = harness.open().await;
    let output = Some(Output::keep(0, b"out".to_vec()));
    let changes = vec![
        Change::Created(Box::new(full("t"))),
        lease_of(Some(1_000)),
        to(TaskStatus::InProgress),
        begun("s"),
        Change::StepEnded {
            mark: mark("s", 1, true),
            outcome: StepOutcome::Done,
            output,
        },
        to(TaskStatus::Completed),
        Change::LeaseEnded,
    ];
    let committed = done(&*store, "t", FREE, changes).await;
    assert_eq!((committed.seq, committed.fence), (1, Fence(1)));
    let task = read(&*store, "t").await;
    assert_eq!(
        (task.status, task.steps_done, task.starts),
        (TaskStatus::Completed, 1, 1)
    );
    assert_eq!(task.lease.held, None);
    harness.advance(Span::from_secs(6_000)).await;
    assert_eq!(
        step(&*store, "t", "s").await.map(|step| step.state),
        Some(StepState::Done)
    );
}
