//! Small records of the whole store: kept by whoever read what is there.

use relight_core::event::EventKind;
use relight_core::time::Time;
use serde_json::{Value, json};

use super::Harness;
use super::given::all_events;
use relight_store::{KeptRange, Store, StoreEvent};

async fn kept(store: &dyn Store, name: &str) -> Option<Value> {
    store.kept(name).await.expect("a store that can be read")
}

async fn keep(store: &dyn Store, name: &str, before: Option<Value>, now: Value) -> bool {
    store
        .keep(name, before, now)
        .await
        .expect("a store that can be written")
}

/// Else nothing changes, and whoever asked reads again.
pub async fn a_record_is_kept_if_it_is_still_what_was_read(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    assert_eq!(kept(&*store, "boots").await, None);
    assert!(
        !keep(&*store, "boots", Some(json!(0)), json!(1)).await,
        "it was never kept"
    );
    assert!(keep(&*store, "boots", None, json!([1])).await);
    assert!(
        !keep(&*other, "boots", None, json!([2])).await,
        "it is there"
    );
    assert_eq!(kept(&*other, "boots").await, Some(json!([1])));
    assert!(
        !keep(&*other, "boots", Some(json!([2])), json!([3])).await,
        "it is another"
    );
    assert!(keep(&*other, "boots", Some(json!([1])), json!([1, 2])).await);
    assert_eq!(kept(&*store, "boots").await, Some(json!([1, 2])));
}

/// Each adds one to what it read, and reads again when another was first: none is lost.
pub async fn no_record_of_two_keepers_is_lost(harness: &dyn Harness) {
    let stores = [harness.open().await, harness.open().await];
    assert!(keep(&*stores[0], "count", None, json!(0)).await);
    let keepers = stores.clone().map(|store| {
        tokio::spawn(async move {
            for _ in 0..20 {
                loop {
                    let before = kept(&*store, "count").await.expect("it was kept");
                    let more = json!(before.as_u64().expect("a number") + 1);
                    if keep(&*store, "count", Some(before), more).await {
                        break;
                    }
                }
            }
        })
    });
    for keeper in keepers {
        keeper.await.expect("no panic");
    }
    assert_eq!(kept(&*stores[0], "count").await, Some(json!(40)));
}

/// A record and the events that tell of it are one: both are there, or neither.
pub async fn what_is_told_of_a_record_is_told_if_it_was_kept(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let told = |word: &str| {
        let at = Time::from_ms(1_000);
        let kinds = [EventKind::BootLoop, EventKind::Alert];
        Vec::from(kinds.map(|kind| StoreEvent {
            at,
            kind,
            detail: json!({"text": word}),
        }))
    };
    let kept_first = store
        .keep_and_tell("boots", None, json!(1), told("yes"))
        .await;
    assert!(kept_first.expect("a store that can be written"));
    let kept_then = other
        .keep_and_tell("boots", None, json!(2), told("no"))
        .await;
    assert!(
        !kept_then.expect("a store that can be written"),
        "it is there"
    );
    assert_eq!(kept(&*other, "boots").await, Some(json!(1)));
    let events = other
        .events(all_events())
        .await
        .expect("a store that can be read");
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.detail.clone()))
        .collect();
    let yes = json!({"text": "yes"});
    assert_eq!(
        seen,
        [(EventKind::BootLoop, yes.clone()), (EventKind::Alert, yes)]
    );
    assert!(
        events
            .iter()
            .all(|event| event.task.is_none() && event.agent.is_none())
    );
    assert_eq!(other.newest_event().await.expect("readable"), events[1].id);
}

/// Nothing kept is not none; names and values are any text.
pub async fn records_come_back_as_they_were(harness: &dyn Harness) {
    let store = harness.open().await;
    let odd = "größer\n'; --\t\u{1b}[31m🏴 \0 \u{10ffff}";
    let values = [
        json!(null),
        json!(false),
        json!(""),
        json!(0.1),
        json!([u64::MAX, i64::MIN, 1e300, odd]),
        json!({"b": {"": []}, "a": {odd: odd}}),
    ];
    for name in ["", "a", "A", odd] {
        let mut before = None;
        for value in &values {
            assert!(
                keep(&*store, name, before, value.clone()).await,
                "{name:?} {value}"
            );
            before = kept(&*store, name).await;
            assert_eq!(before.as_ref(), Some(value));
        }
    }
}

/// From one name to before another, in the order of their bytes, either way.
pub async fn records_are_listed_and_removed_by_their_names(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let name = |text: &str| format!("record/{text}");
    for text in ["b/2", "b", "a", "b/10", "b/é", "b0", "B/1"] {
        assert!(keep(&*store, &name(text), None, json!(text)).await);
    }
    let range = |from: &str, to: &str, descending, limit| KeptRange {
        from: name(from),
        to: name(to),
        descending,
        limit,
    };
    let listed = async |range: KeptRange| {
        let found = other
            .kept_in(range)
            .await
            .expect("a store that can be read");
        let texts = found.into_iter().map(|(found, value)| {
            assert_eq!(json!(found["record/".len()..]), value);
            found["record/".len()..].to_owned()
        });
        texts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        listed(range("b/", "b/\u{10ffff}", false, None)).await,
        "b/10 b/2 b/é"
    );
    assert_eq!(
        listed(range("b/", "b/\u{10ffff}", true, Some(2))).await,
        "b/é b/2"
    );
    assert_eq!(listed(range("A", "b/2", false, None)).await, "B/1 a b b/10");
    assert_eq!(listed(range("b/2", "b/2", false, None)).await, "");
    let forget = async |range| store.forget_kept(range).await.expect("it can be written");
    assert_eq!(forget(range("b/", "b/\u{10ffff}", false, Some(1))).await, 3);
    assert_eq!(forget(range("b", "b\u{1}", false, None)).await, 1);
    assert_eq!(forget(range("b", "b\u{1}", false, None)).await, 0);
    assert_eq!(listed(range("A", "z", false, None)).await, "B/1 a b0");
    assert!(
        keep(&*other, &name("b"), None, json!("b")).await,
        "it is gone"
    );
}
