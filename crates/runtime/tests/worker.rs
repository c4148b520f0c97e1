//! What a program that works through the queue can rely on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relight_runtime::EngineAccess as _;
use relight_runtime::core::event::EventKind;
use relight_runtime::core::ids::TaskId;
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::task::{Task, Usage};
use relight_runtime::core::time::Span;
use relight_runtime::engine::ActError;
use relight_runtime::os::clock;
use relight_runtime::store::EventQuery;
use relight_runtime::{End, Ended, OpenError, Relight, TaskPolicy};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(120);

async fn memory() -> Relight {
    Relight::open("memory:")
        .await
        .expect("a test that can be set up")
}

/// A store on disk, opened twice, as by two processes.
async fn two_sides() -> (TempDir, Relight, Relight) {
    let folder = tempfile::tempdir().expect("a test that can be set up");
    let url = format!("sqlite:{}/relight.db", folder.path().display());
    let (one, other) = (
        Relight::open(&url)
            .await
            .expect("a test that can be set up"),
        Relight::open(&url)
            .await
            .expect("a test that can be set up"),
    );
    (folder, one, other)
}

async fn add(relight: &Relight, ids: &[&str]) {
    for id in ids {
        relight
            .task(id)
            .expect("a test that can be set up")
            .add()
            .await
            .expect("a test that can be set up");
    }
}

async fn task(relight: &Relight, id: &str) -> Task {
    relight
        .engine()
        .task(&TaskId::new(id).expect("a test that can be set up"))
        .await
        .expect("a test that can be set up")
}

/// The details of all events of a kind.
async fn events(relight: &Relight, id: &str, kind: EventKind) -> Vec<serde_json::Value> {
    let task = Some(TaskId::new(id).expect("a test that can be set up"));
    let kinds = vec![kind];
    let query = EventQuery {
        after: 0,
        before: None,
        task,
        agent: None,
        kinds,
        limit: 100,
        newest: false,
    };
    let events = relight
        .engine()
        .store()
        .events(query)
        .await
        .expect("a test that can be set up");
    events.into_iter().map(|event| event.detail).collect()
}

#[tokio::test]
async fn a_worker_ends_each_task_by_how_its_work_ends() {
    let relight = memory().await;
    add(&relight, &["fine", "wrong", "panics", "later", "asks"]).await;
    let later = clock::now().plus(Span::from_secs(3_600));
    let worker = relight.worker("ann").unwrap().until_empty();
    let worked = worker.run(move |task| async move {
        match task.id().as_str() {
            "fine" => Ok(End::Done),
            "wrong" if task.resumed() => Ok(End::Done),
            "wrong" => Err("the disk is full"),
            "panics" => panic!("at the worst time"),
            "later" => Ok(End::Defer { until: later }),
            _ => Ok(End::Block {
                reason: "which colour?".to_owned(),
            }),
        }
    });
    let worked = worked.await.unwrap();
    // What failed was reassigned at once, and taken again.
    assert_eq!(
        (worked.done, worked.failed, worked.blocked, worked.deferred),
        (2, 3, 1, 1)
    );
    assert_eq!(task(&relight, "fine").await.status, TaskStatus::Completed);
    assert_eq!(task(&relight, "wrong").await.status, TaskStatus::Completed);
    assert_eq!(task(&relight, "later").await.status, TaskStatus::Deferred);
    assert_eq!(task(&relight, "asks").await.status, TaskStatus::Blocked);
    let panicked = task(&relight, "panics").await;
    assert_eq!(panicked.status, TaskStatus::Failed);
    let reason = panicked.reason.unwrap();
    assert_eq!(reason, "panicked: at the worst time (no retry is left)");
    assert_eq!((panicked.retries, panicked.starts), (1, 2));
}

#[tokio::test]
async fn the_first_error_is_kept_with_its_causes_and_without_its_secrets() {
    #[derive(Debug, thiserror::Error)]
    #[error("the mail was not sent")]
    struct NotSent(#[source] std::io::Error);

    let relight = memory().await;
    let running = relight
        .task("t")
        .unwrap()
        .max_retries(0)
        .start()
        .await
        .unwrap();
    let refused = std::io::Error::other("password=hunter2hunter2 was refused");
    let ended = running
        .run(|_| async { Err::<(), _>(NotSent(refused)) })
        .await
        .unwrap();
    let Ended::Failed { recovered, .. } = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(recovered.outcome.as_deref(), Some("retries_used_up"));
    let reason = task(&relight, "t").await.reason.unwrap();
    assert!(
        reason.starts_with("the mail was not sent: password="),
        "{reason}"
    );
    assert!(!reason.contains("hunter2"), "{reason}");
}

#[tokio::test]
async fn a_panic_text_is_redacted_too() {
    let relight = memory().await;
    let running = relight.task("t").unwrap().start().await.unwrap();
    let work = |_| async {
        if true {
            panic!("token=ghp_{}", "a1B2".repeat(9))
        } else {
            Ok::<(), &str>(())
        }
    };
    running.run(work).await.unwrap();
    let reason = task(&relight, "t").await.reason.unwrap();
    assert!(
        reason.starts_with("panicked: ") && !reason.contains("a1B2"),
        "{reason}"
    );
}

#[tokio::test]
async fn an_error_after_the_lease_was_lost_changes_nothing() {
    let relight = memory().await;
    let running = relight.task("t").unwrap().start().await.unwrap();
    let other = relight.clone();
    let ended = running.run(|_| async move {
        let id = TaskId::new("t").unwrap();
        let cancel = relight_runtime::core::decide::TaskEvent::Cancel { reason: None };
        other
            .engine()
            .act(&id, relight_runtime::core::decide::Right::Unfenced, cancel)
            .await
            .unwrap();
        Err::<(), _>("too late")
    });
    assert!(matches!(ended.await.unwrap(), Ended::Lost(_)));
    assert_eq!(task(&relight, "t").await.status, TaskStatus::Cancelled);
}

#[tokio::test]
async fn a_dropped_worker_leaves_its_task_interrupted() {
    let relight = memory().await;
    add(&relight, &["t"]).await;
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&begun);
    let worker = relight.worker("ann").unwrap().run(move |_| {
        let tell = Arc::clone(&tell);
        async move {
            tell.notify_one();
            std::future::pending::<Result<(), &str>>().await
        }
    });
    tokio::select! {
        _ = worker => panic!("nothing ends it"),
        () = begun.notified() => {}
    }
    // The last thing that its tasks do is to give up what they hold.
    let is_interrupted = async {
        while task(&relight, "t").await.status != TaskStatus::Interrupted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, is_interrupted).await.unwrap();
}

#[tokio::test]
async fn a_claimed_task_that_is_let_go_is_for_anybody() {
    let relight = memory().await;
    add(&relight, &["t"]).await;
    drop(relight.queue().claim("ann", &[]).await.unwrap().unwrap());
    let taken = relight.queue().claim_wait("bob", &[], LONG).await.unwrap();
    let taken = taken.unwrap();
    taken.interrupt("it ends").await.unwrap();
    let left = task(&relight, "t").await;
    assert_eq!((left.status, left.agent), (TaskStatus::Interrupted, None));
}

#[tokio::test]
async fn by_resume_or_pinned_a_task_that_is_let_go_stays_its_agents() {
    let relight = memory().await;
    let chosen = relight.task("chosen").unwrap().strategy("resume");
    chosen.unwrap().add().await.unwrap();
    let chosen = relight.queue().claim("ann", &[]).await.unwrap().unwrap();
    let pinned = relight.task("pinned").unwrap().agent("ann").unwrap();
    let pinned = pinned.start().await.unwrap();
    for let_go in [chosen, pinned] {
        let_go.interrupt("it ends").await.unwrap();
        let left = task(&relight, let_go.id().as_str()).await;
        assert_eq!(left.agent.unwrap().as_str(), "ann");
    }
}

#[tokio::test]
async fn a_worker_that_waits_takes_what_is_added_and_stops_when_it_is_told_to() {
    let (_folder, here, there) = two_sides().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = Mutex::new(Some(stop));
    let worker = here
        .worker("ann")
        .unwrap()
        .until(async { drop(stopped.await) });
    let worked = worker.run(move |_| {
        drop(stop.lock().unwrap().take());
        async { Ok::<(), &str>(()) }
    });
    let adding = async { there.task("t").unwrap().add().await.unwrap() };
    let (worked, _) = tokio::join!(tokio::time::timeout(LONG, worked), adding);
    assert_eq!(worked.unwrap().unwrap().done, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_a_task_that_another_has() {
    let (_folder, here, there) = two_sides().await;
    let ids: Vec<String> = (0..120).map(|number| format!("t{number}")).collect();
    add(&here, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let work = |relight: &Relight| {
        let seen = Arc::clone(&seen);
        let worker = relight.worker("ann").unwrap().at_once(8).until_empty();
        worker.run(move |task| {
            seen.lock().unwrap().push(task.id().to_string());
            async { Ok::<(), &str>(()) }
        })
    };
    let (one, other) = tokio::join!(work(&here), work(&there));
    assert_eq!(one.unwrap().done + other.unwrap().done, 120);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 120);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 120);
}

#[tokio::test]
async fn the_best_comes_first_and_only_to_who_can_do_it() {
    let relight = memory().await;
    add(&relight, &["old", "new"]).await;
    relight
        .task("urgent")
        .unwrap()
        .priority(5)
        .add()
        .await
        .unwrap();
    relight
        .task("odd")
        .unwrap()
        .priority(9)
        .needs("welding")
        .add()
        .await
        .unwrap();
    let queue = relight.queue();
    let mut order = Vec::new();
    while let Some(task) = queue.claim("ann", &[]).await.unwrap() {
        order.push(task.id().to_string());
        task.done().await.unwrap();
    }
    assert_eq!(order, ["urgent", "old", "new"]);
    let skilled = queue
        .claim("bob", &["welding".to_owned()])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(skilled.id().as_str(), "odd");
}

#[tokio::test]
async fn a_claim_waits_for_what_is_due_later() {
    let relight = memory().await;
    let running = relight.task("t").unwrap().start().await.unwrap();
    running
        .defer(clock::now().plus(Span::from_secs(2)))
        .await
        .unwrap();
    assert!(relight.queue().claim("ann", &[]).await.unwrap().is_none());
    let due = relight
        .queue()
        .claim_wait("ann", &[], LONG)
        .await
        .unwrap()
        .unwrap();
    assert!(due.resumed());
}

#[tokio::test]
async fn nothing_is_claimed_while_the_store_is_drained() {
    let relight = memory().await;
    add(&relight, &["t"]).await;
    let store = Arc::clone(relight.engine().store());
    relight_runtime::drain::begin(store.as_ref()).await.unwrap();
    let refused = relight.queue().claim("ann", &[]).await.unwrap_err();
    assert!(matches!(refused, ActError::NothingBegun), "{refused}");
    let none = relight
        .queue()
        .claim_wait("ann", &[], Duration::ZERO)
        .await
        .unwrap();
    assert!(none.is_none(), "who waits, waits for the end of the drain");
    relight_runtime::drain::cancel(store.as_ref())
        .await
        .unwrap();
    assert!(relight.queue().claim("ann", &[]).await.unwrap().is_some());
}

#[tokio::test]
async fn a_task_that_is_started_while_draining_waits() {
    let relight = memory().await;
    let store = Arc::clone(relight.engine().store());
    relight_runtime::drain::begin(store.as_ref()).await.unwrap();
    let refused = relight.task("t").unwrap().start().await.unwrap_err();
    assert!(matches!(refused, ActError::Draining { .. }), "{refused}");
    let task = relight
        .engine()
        .task(&TaskId::new("t").unwrap())
        .await
        .unwrap();
    assert_eq!(task.status, TaskStatus::Deferred);
    relight_runtime::drain::cancel(store.as_ref())
        .await
        .unwrap();
    relight.task("t").unwrap().start().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_nobody_waits_for_any_more_holds_nothing() {
    let (_folder, relight, _) = two_sides().await;
    add(&relight, &["t"]).await;
    let queue = relight.queue();
    {
        let claim = queue.claim("ann", &[]);
        tokio::pin!(claim);
        // Asked once, and given up.
        std::future::poll_fn(|context| {
            assert!(claim.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    let again = relight.queue().claim_wait("ann", &[], LONG).await.unwrap();
    assert_eq!(again.unwrap().id().as_str(), "t");
}

#[tokio::test]
async fn what_it_costs_is_counted_for_good_and_ends_it_at_the_limit() {
    let policy = TaskPolicy {
        cost_micros_max: Some(5_000_000),
        ..TaskPolicy::default()
    };
    let relight = Relight::builder("memory:")
        .policy(policy)
        .open()
        .await
        .unwrap();
    let running = relight
        .task("t")
        .unwrap()
        .max_retries(9)
        .start()
        .await
        .unwrap();
    running
        .spend(Usage {
            cost_micros: 3_000_000,
            turns: 2,
            ..Usage::default()
        })
        .await
        .unwrap();
    running
        .step("s", || async { Ok::<_, std::io::Error>(()) })
        .await
        .unwrap();
    running
        .spend(Usage {
            cost_micros: 2_000_000,
            turns: 1,
            ..Usage::default()
        })
        .await
        .unwrap();
    let recovered = running.fail("no idea").await.unwrap();
    assert_eq!(recovered.status, TaskStatus::Suspended);
    assert_eq!(recovered.outcome.as_deref(), Some("parked"));
    let task = task(&relight, "t").await;
    assert_eq!((task.tally.cost_micros, task.tally.turns), (5_000_000, 3));
    assert!(relight.queue().claim("ann", &[]).await.unwrap().is_none());
}

#[tokio::test]
async fn each_decision_is_an_event_with_counts_and_without_what_was_said() {
    let relight = memory().await;
    let running = relight.task("t").unwrap().start().await.unwrap();
    running
        .step("s", || async {
            Ok::<_, std::io::Error>("what was said".to_owned())
        })
        .await
        .unwrap();
    running
        .spend(Usage {
            cost_micros: 70,
            turns: 3,
            ..Usage::default()
        })
        .await
        .unwrap();
    running.fail("the model went away").await.unwrap();
    let told = events(&relight, "t", EventKind::TaskRecovery).await;
    let [told] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(told["strategy"], "fail-and-reassign");
    assert_eq!(told["decision"], "reassign");
    assert_eq!(told["error"], "the model went away");
    let context = &told["context"];
    assert_eq!(
        (&context["steps_done"], &context["turns"]),
        (&1.into(), &3.into())
    );
    assert_eq!(
        (&context["cost_micros"], &context["max_retries"]),
        (&70.into(), &1.into())
    );
    assert!(!told.to_string().contains("what was said"));
}

#[tokio::test]
async fn an_unknown_strategy_is_refused_at_the_start() {
    let opened = Relight::builder("memory:")
        .default_strategy("ask-ops")
        .open()
        .await;
    assert!(matches!(opened.unwrap_err(), OpenError::Strategy(_)));
    let relight = memory().await;
    let refused = relight.task("t").unwrap().strategy("ask-ops").unwrap_err();
    insta::assert_snapshot!(refused, @r#"there is no strategy "ask-ops"; known are fail-and-reassign, resume, suspend"#);
}

#[tokio::test]
async fn work_runs_side_by_side() {
    let relight = memory().await;
    add(&relight, &["a", "b", "c"]).await;
    let all = Arc::new(tokio::sync::Barrier::new(3));
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let worker = relight.worker("ann").unwrap().at_once(3).until_empty();
    let worker = worker.on_end(move |_, ended| {
        assert_eq!(*ended.as_ref().unwrap(), Ended::Done);
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let worked = worker.run(move |_| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok::<(), &str>(())
        }
    });
    assert_eq!(
        tokio::time::timeout(LONG, worked)
            .await
            .unwrap()
            .unwrap()
            .done,
        3
    );
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// The program of the guide; `cargo test` builds it beside the tests.
#[test]
fn the_example_with_a_strategy_of_its_own_does_what_the_guide_says() {
    let tests = std::env::current_exe().unwrap();
    let example = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/own_strategy");
    if !example.exists() {
        eprintln!(
            "SKIPPED: {} is not built (cargo test -p relight builds it)",
            example.display()
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}/relight.db", folder.path().display());
    let output = relight_runtime::os::process::command(&example, &[store])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    insta::assert_snapshot!(said.join("\n"), @"
    2 sent, 2 failures
    mail-bob: no route to bob; now deferred
    mail-bob: no route to bob; now suspended
    sent to ann
    sent to carl
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nobody_claims_a_task_that_is_being_started_by_its_name() {
    let (_folder, one, other) = two_sides().await;
    let claims = tokio::spawn(async move {
        let mut claimed = 0;
        // A task that is added to the queue ends the search.
        while let Some(task) = other.queue().claim_wait("w", &[], LONG).await? {
            let is_last = task.id().as_str() == "last";
            task.done().await?;
            if is_last {
                return Ok::<_, ActError>(claimed);
            }
            claimed += 1;
        }
        panic!("the last task was not seen");
    });
    for number in 0..200 {
        let task = one.task(&format!("named-{number}")).unwrap();
        let task = task
            .start()
            .await
            .expect("nobody else takes what is started");
        task.done().await.unwrap();
    }
    add(&one, &["last"]).await;
    assert_eq!(claims.await.unwrap().unwrap(), 0);
}

/// Long before the safety net, which wakes everybody half a minute after the last write.
#[tokio::test]
async fn a_commit_of_another_side_wakes_whoever_waits() {
    let (_folder, one, other) = two_sides().await;
    let store = one.engine().store();
    let newest = store.newest_event().await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), async {
        while store.newest_event().await.unwrap() == newest {
            store.changed(newest).await.unwrap();
        }
    });
    let (told, ()) = tokio::join!(told, add(&other, &["a"]));
    assert!(told.is_ok());
}
