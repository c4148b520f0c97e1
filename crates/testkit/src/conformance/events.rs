//! What happened, in order, and who is told.

use std::time::Duration;

use relight_core::change::Change;
use relight_core::event::{Event, EventKind};
use relight_core::status::TaskStatus;
use relight_core::time::Span;
use serde_json::json;

use super::Harness;
use super::given::{
    FREE, add, add_held, all_events, begun, commit_of, done, ended, events, fenced, id, later,
    lease_of, noon, note, output, put, step_key, steps, to,
};
use relight_store::EventQuery;

fn ids(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.id).collect()
}

/// With the change's own kind and detail, seen from the task it was applied to.
pub async fn each_change_leaves_one_event(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let mut before = super::given::read(&*store, "t").await;
    let changes = vec![
        Change::Status {
            to: TaskStatus::Blocked,
            reason: Some("why".to_owned()),
        },
        to(TaskStatus::Assigned),
        Change::Retried,
        lease_of(Some(1_000)),
        Change::FenceRaised,
        Change::Noted(
            EventKind::CheckpointDamaged,
            json!({"why": ["torn", 1, null]}),
        ),
        note("x"),
    ];
    done(&*store, "t", FREE, changes.clone()).await;
    let mut expected = vec![(
        EventKind::TaskCreated,
        json!({"title": null, "agent": null}),
    )];
    for change in &changes {
        expected.push((change.kind(), change.detail(Some(&before))));
        change.apply(&mut before, noon());
    }
    let seen = events(&*store, all_events()).await;
    let told: Vec<_> = seen
        .iter()
        .map(|event| (event.kind, event.detail.clone()))
        .collect();
    assert_eq!(told, expected);
    assert!(
        seen.iter()
            .all(|event| event.task == Some(id("t")) && event.at == noon())
    );
}

/// A write without a fence is marked so.
pub async fn events_tell_step_and_fence(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    done(&*store, "t", fenced(fence), vec![begun("s"), note("x")]).await;
    done(&*store, "t", FREE, vec![ended("s", "out")]).await;
    let seen = events(
        &*store,
        EventQuery {
            after: 2,
            ..all_events()
        },
    )
    .await;
    let told: Vec<_> = seen
        .iter()
        .map(|event| (event.kind, event.step.clone(), event.fence))
        .collect();
    let step = Some(step_key("s"));
    assert_eq!(
        told,
        [
            (EventKind::StepBegun, step.clone(), Some(fence)),
            (EventKind::TaskContext, None, Some(fence)),
            (EventKind::StepDone, step, None),
        ]
    );
}

/// Ids grow through every handle, and are not given again when the newest are removed.
pub async fn events_come_in_commit_order_and_are_never_reused(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    add(&*store, "t").await;
    add(&*other, "u").await;
    done(&*store, "t", FREE, vec![note("x"), note("y")]).await;
    put(&*store, "t", super::given::at_seq(9), vec![note("z")])
        .await
        .expect_err("refused");
    let seen = events(&*store, all_events()).await;
    assert!(
        ids(&seen).is_sorted_by(|a, b| a < b) && seen[0].id > 0,
        "{:?}",
        ids(&seen)
    );
    let tasks: Vec<_> = seen.iter().filter_map(|event| event.task.clone()).collect();
    assert_eq!(tasks, [id("t"), id("u"), id("t"), id("t")]);
    let newest = store
        .newest_event()
        .await
        .expect("a store that can be read");
    assert_eq!(Some(newest), seen.last().map(|event| event.id));
    store
        .forget(vec![(id("t"), 2)], noon())
        .await
        .expect("a store that can be written");
    done(&*other, "u", FREE, vec![note("x")]).await;
    let after = EventQuery {
        after: newest,
        ..all_events()
    };
    assert_eq!(
        events(&*store, after).await.len(),
        2,
        "ids after the newest one"
    );
}

/// By an event of no task, for those of the task are gone with it.
pub async fn a_forgotten_task_is_told_of(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    store
        .forget(vec![(id("t"), 1)], later(5))
        .await
        .expect("a store that can be written");
    let seen = events(&*store, all_events()).await;
    let told: Vec<_> = seen
        .iter()
        .map(|e| (e.kind, e.at, e.task.clone(), &e.detail))
        .collect();
    assert_eq!(
        told,
        [(
            EventKind::TaskForgotten,
            later(5),
            None,
            &json!({"task": "t"})
        )]
    );
    assert_eq!(
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
        seen[0].id
    );
}

/// Each page ends before the first event of the one before, down to the oldest.
pub async fn events_can_be_read_back_in_pages(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    add(&*store, "other").await;
    for number in 0..9 {
        done(&*store, "t", FREE, vec![note(&number.to_string())]).await;
    }
    let of_task = EventQuery {
        task: Some(id("t")),
        ..all_events()
    };
    let mut paged: Vec<Event> = Vec::new();
    for _ in 0..4 {
        let before = paged.first().map(|event| event.id);
        let query = EventQuery {
            before,
            newest: true,
            limit: 4,
            ..of_task.clone()
        };
        let mut page = events(&*store, query).await;
        assert!(page.len() <= 4);
        page.append(&mut paged);
        paged = page;
    }
    assert_eq!(paged, events(&*store, of_task).await);
    let first = paged[0].id;
    let between = EventQuery {
        after: first,
        before: Some(first + 2),
        ..all_events()
    };
    assert_eq!(ids(&events(&*store, between).await), [first + 1]);
    for before in [0, first] {
        let none = EventQuery {
            before: Some(before),
            ..all_events()
        };
        assert_eq!(events(&*store, none).await, []);
    }
    let all = EventQuery {
        before: Some(u64::MAX),
        ..all_events()
    };
    assert_eq!(events(&*store, all).await.len(), 11);
}

/// It has its place among the others, so that whoever reads in pages gets past it.
pub async fn an_event_of_no_known_kind_is_read_as_such(harness: &dyn Harness) {
    let store = harness.open().await;
    let told = |kind| relight_store::StoreEvent {
        at: noon(),
        kind,
        detail: serde_json::json!({"a": 1}),
    };
    let both = vec![told(EventKind::Drain), told(EventKind::Unknown)];
    let kept = store.keep_and_tell("x", None, 1.into(), both).await;
    assert!(kept.expect("a store that can be written"));
    let seen = events(&*store, all_events()).await;
    let newest = store
        .newest_event()
        .await
        .expect("a store that can be read");
    let last = seen.last().expect("two were told");
    assert_eq!((last.id, last.kind), (newest, EventKind::Unknown));
    assert_eq!(seen.len(), 2);
    let known = EventQuery {
        kinds: vec![EventKind::Drain],
        ..all_events()
    };
    assert_eq!(events(&*store, known).await, seen[..1]);
}

/// Each page begins after the last event of the one before.
pub async fn events_can_be_read_in_pages(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    for number in 0..10 {
        done(&*store, "t", FREE, vec![note(&number.to_string())]).await;
    }
    let mut paged = Vec::new();
    for _ in 0..4 {
        let after = paged.last().map_or(0, |event: &Event| event.id);
        let page = events(
            &*store,
            EventQuery {
                after,
                limit: 4,
                ..all_events()
            },
        )
        .await;
        assert!(page.len() <= 4);
        paged.extend(page);
    }
    assert_eq!(paged, events(&*store, all_events()).await);
    assert_eq!(
        events(
            &*store,
            EventQuery {
                limit: 0,
                ..all_events()
            }
        )
        .await,
        []
    );
    assert_eq!(
        events(
            &*store,
            EventQuery {
                after: u64::MAX,
                ..all_events()
            }
        )
        .await,
        []
    );
}

/// All conditions hold together.
pub async fn events_can_be_asked_for_by_task_and_kind(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["t", "u"] {
        add(&*store, task).await;
        done(
            &*store,
            task,
            FREE,
            vec![note("x"), begun("s"), ended("s", "")],
        )
        .await;
    }
    let kinds = vec![EventKind::StepDone, EventKind::TaskCreated];
    let query = EventQuery {
        kinds,
        task: Some(id("u")),
        agent: None,
        ..all_events()
    };
    let seen = events(&*store, query.clone()).await;
    let told: Vec<_> = seen.iter().map(|event| event.kind).collect();
    assert_eq!(told, [EventKind::TaskCreated, EventKind::StepDone]);
    let rest = events(
        &*store,
        EventQuery {
            after: seen[0].id,
            ..query.clone()
        },
    )
    .await;
    assert_eq!(ids(&rest), [seen[1].id]);
    let both = events(
        &*store,
        EventQuery {
            task: None,
            agent: None,
            ..query.clone()
        },
    )
    .await;
    assert_eq!(both.len(), 4);
    let nobody = EventQuery {
        task: Some(id("absent")),
        agent: None,
        ..query
    };
    assert_eq!(events(&*store, nobody).await, []);
}

/// The last ones, in the order they happened.
pub async fn the_newest_events_come_oldest_first(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    for number in 0..6 {
        done(&*store, "t", FREE, vec![note(&number.to_string())]).await;
    }
    let all = events(&*store, all_events()).await;
    let newest = EventQuery {
        newest: true,
        limit: 3,
        ..all_events()
    };
    assert_eq!(events(&*store, newest.clone()).await, all[4..]);
    let after = EventQuery {
        after: all[5].id,
        ..newest.clone()
    };
    assert_eq!(events(&*store, after).await, all[6..]);
    let everything = EventQuery {
        limit: usize::MAX,
        ..newest
    };
    assert_eq!(events(&*store, everything).await, all);
}

/// Steps live on their records; the rest may be forgotten.
pub async fn forgotten_events_are_the_old_ones_that_are_no_record_of_a_step(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(
        &*store,
        "t",
        FREE,
        vec![begun("s"), ended("s", "out"), note("x"), begun("open")],
    )
    .await;
    let at = later(60);
    let commit = commit_of(&id("t"), FREE, vec![note("new")]);
    store
        .commit(relight_store::Commit { at, ..commit })
        .await
        .expect("a free commit is taken");
    let before = super::given::all_of(&*store, "t").await;
    assert_eq!(
        store
            .forget_events(noon())
            .await
            .expect("a store that can be written"),
        0
    );
    assert_eq!(
        store
            .forget_events(at)
            .await
            .expect("a store that can be written"),
        2
    );
    assert_eq!(
        store
            .forget_events(at)
            .await
            .expect("a store that can be written"),
        0
    );
    let left: Vec<_> = events(&*store, all_events())
        .await
        .iter()
        .map(|e| e.kind)
        .collect();
    assert_eq!(
        left,
        [
            EventKind::StepBegun,
            EventKind::StepDone,
            EventKind::StepBegun,
            EventKind::TaskContext
        ]
    );
    let after = super::given::all_of(&*store, "t").await;
    assert_eq!((after.0, after.1, after.3), (before.0, before.1, before.3));
    assert!(output(&*store, "t", "s").await.is_some());
    assert_eq!(steps(&*store, "t").await, ["s", "open"]);
}

/// So that a watcher's place stays true, and its id is not given again.
pub async fn the_newest_event_is_never_forgotten(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![note("x")]).await;
    let newest = store
        .newest_event()
        .await
        .expect("a store that can be read");
    assert_eq!(
        store
            .forget_events(later(60))
            .await
            .expect("a store that can be written"),
        1
    );
    assert_eq!(
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
        newest
    );
    done(&*store, "t", FREE, vec![note("y")]).await;
    let seen = ids(&events(&*store, all_events()).await);
    assert_eq!((seen.len(), seen[0]), (2, newest));
}

/// Within a second, though it looks at another handle.
pub async fn a_waiter_is_woken_by_another_handle(harness: &dyn Harness) {
    let (store, waiting) = (harness.open().await, harness.open().await);
    add(&*store, "t").await;
    let newest = waiting
        .newest_event()
        .await
        .expect("a store that can be read");
    let waiter = tokio::spawn(async move {
        // It may return early, so it looks and waits again.
        while waiting
            .newest_event()
            .await
            .expect("a store that can be read")
            == newest
        {
            waiting
                .changed(newest)
                .await
                .expect("a store that can be read");
        }
    });
    tokio::task::yield_now().await;
    done(&*store, "t", FREE, vec![note("x")]).await;
    let woken = tokio::time::timeout(Duration::from_secs(2), waiter).await;
    woken
        .expect("the waiter is woken within a second")
        .expect("no panic");
}

/// What was committed between the reading and the waiting is not missed.
pub async fn a_waiter_for_what_is_there_does_not_wait(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let waited = tokio::time::timeout(Span::from_secs(2).as_duration(), store.changed(0)).await;
    waited
        .expect("nothing to wait for")
        .expect("a store that can be read");
}
