//! What an agent that asks for work is offered.

use relight_core::change::Change;
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};

use super::Harness;
use super::given::{
    FREE, add, add_held, add_with, agent, claimant, done, later, lease_of, noon, to,
};
use relight_store::Store;

async fn queue(store: &dyn Store, name: &str, now: Time) -> Vec<String> {
    let found = store
        .claimable(&claimant(name), now, 100)
        .await
        .expect("a store that can be read");
    found.into_iter().map(|task| task.to_string()).collect()
}

/// Larger first; among equals the one that waits longest.
pub async fn the_queue_goes_by_priority_then_by_age(harness: &dyn Harness) {
    let store = harness.open().await;
    let tasks = [
        ("z0", 0),
        ("low", i32::MIN),
        ("a0", 0),
        ("high", i32::MAX),
        ("five", 5),
        ("b0", 0),
    ];
    for (task, priority) in tasks {
        add_with(&*store, task, |new| new.spec.priority = priority).await;
    }
    done(&*store, "z0", FREE, vec![super::given::note("moved last")]).await;
    assert_eq!(
        queue(&*store, "ann", noon()).await,
        ["high", "five", "z0", "a0", "b0", "low"]
    );
}

/// `created`, and `assigned` to it or to nobody in particular; no other status.
pub async fn the_queue_has_what_is_anybodys_or_ones_own(harness: &dyn Harness) {
    let store = harness.open().await;
    for status in TaskStatus::ALL {
        add(&*store, status.as_str()).await;
        done(&*store, status.as_str(), FREE, vec![to(status)]).await;
    }
    add_with(&*store, "anns", |new| new.agent = Some(agent("ann"))).await;
    add_with(&*store, "bobs", |new| new.agent = Some(agent("bob"))).await;
    let expected = [
        "created",
        "assigned",
        "deferred",
        "interrupted",
        "failed",
        "anns",
    ];
    assert_eq!(queue(&*store, "ann", noon()).await, expected);
    assert_eq!(queue(&*store, "carl", noon()).await, expected[..5]);
}

/// Whatever its status: one that belongs to its agent is for nobody else, and for nobody without one.
pub async fn a_pinned_task_is_for_its_agent_alone(harness: &dyn Harness) {
    let store = harness.open().await;
    for status in TaskStatus::ALL {
        add_with(&*store, status.as_str(), |new| {
            new.agent = Some(agent("ann"));
        })
        .await;
        done(
            &*store,
            status.as_str(),
            FREE,
            vec![Change::Pinned(true), to(status)],
        )
        .await;
    }
    add(&*store, "nobodys").await;
    done(&*store, "nobodys", FREE, vec![Change::Pinned(true)]).await;
    let expected = ["created", "assigned", "deferred", "interrupted", "failed"];
    assert_eq!(queue(&*store, "ann", noon()).await, expected);
    assert_eq!(queue(&*store, "bob", noon()).await, [""; 0]);
    done(&*store, "failed", FREE, vec![Change::Pinned(false)]).await;
    assert_eq!(queue(&*store, "bob", noon()).await, ["failed"]);
}

/// Its own limit, else the default of one.
pub async fn a_failed_task_is_in_the_queue_while_retries_are_left(harness: &dyn Harness) {
    let store = harness.open().await;
    for (task, max_retries, used) in [
        ("default", None, 0),
        ("default-used", None, 1),
        ("never", Some(0), 0),
        ("twice", Some(2), 1),
        ("twice-used", Some(2), 2),
        ("always", Some(u32::MAX), 3),
    ] {
        add_with(&*store, task, |new| new.spec.max_retries = max_retries).await;
        let mut changes = vec![Change::Retried; used];
        changes.push(to(TaskStatus::Failed));
        done(&*store, task, FREE, changes).await;
    }
    assert_eq!(
        queue(&*store, "ann", noon()).await,
        ["default", "twice", "always"]
    );
}

/// By time that is left, by a process or by an attempt.
pub async fn a_held_task_is_not_in_the_queue(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "by-time").await;
    let boot = "boot".to_owned();
    let process = Holder::Process(ProcessIdentity {
        pid: 1,
        start: 1,
        boot,
        node: None,
    });
    let attempt = Holder::Attempt {
        process: None,
        attempt: "a".to_owned(),
        shim: relight_core::lease::ProcessIdentity {
            pid: 1,
            start: 1,
            boot: "boot".to_owned(),
            node: None,
        },
    };
    for (task, holder) in [("by-process", process), ("by-attempt", attempt)] {
        add(&*store, task).await;
        done(
            &*store,
            task,
            FREE,
            vec![Change::LeaseTaken { holder, ttl: None }],
        )
        .await;
    }
    add_held(&*store, "given-back").await;
    done(&*store, "given-back", FREE, vec![Change::LeaseEnded]).await;
    assert_eq!(queue(&*store, "ann", noon()).await, ["given-back"]);
    harness.advance(Span::from_secs(800)).await;
    assert_eq!(queue(&*store, "ann", noon()).await, ["given-back"]);
}

/// One that no clock ends stays out.
pub async fn a_task_whose_lease_ran_out_is_in_the_queue_again(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    add(&*store, "for-ever").await;
    done(&*store, "for-ever", FREE, vec![lease_of(None)]).await;
    harness.advance(Span::from_secs(1_000)).await;
    assert_eq!(queue(&*store, "ann", noon()).await, ["t"]);
}

/// Not a millisecond earlier.
pub async fn a_task_is_in_the_queue_from_its_time_on(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![Change::NotBefore(Some(later(10)))]).await;
    let just_before = Time::from_ms(later(10).as_ms() - 1);
    assert_eq!(queue(&*store, "ann", just_before).await, [""; 0]);
    assert_eq!(queue(&*store, "ann", later(10)).await, ["t"]);
}

/// Of what the queue gives; what waits for a person waits for no time.
pub async fn the_queue_tells_when_the_next_task_is_due(harness: &dyn Harness) {
    let store = harness.open().await;
    let due = async |now| store.next_due(now).await.expect("a store that can be read");
    assert_eq!(due(noon()).await, None);
    for (task, status, secs) in [
        ("blocked", TaskStatus::Blocked, 5),
        ("over", TaskStatus::Completed, 6),
        ("failed", TaskStatus::Failed, 20),
        ("deferred", TaskStatus::Deferred, 10),
    ] {
        add(&*store, task).await;
        let changes = vec![to(status), Change::NotBefore(Some(later(secs)))];
        done(&*store, task, FREE, changes).await;
    }
    assert_eq!(due(noon()).await, Some(later(10)));
    assert_eq!(due(later(10)).await, Some(later(20)));
    assert_eq!(due(later(20)).await, None);
}

/// From the moment on at which it expires.
pub async fn an_expired_task_is_not_in_the_queue(harness: &dyn Harness) {
    let store = harness.open().await;
    add_with(&*store, "t", |new| new.expires_at = Some(later(10))).await;
    let just_before = Time::from_ms(later(10).as_ms() - 1);
    assert_eq!(queue(&*store, "ann", just_before).await, ["t"]);
    assert_eq!(queue(&*store, "ann", later(10)).await, [""; 0]);
}

/// The best ones.
pub async fn the_queue_gives_no_more_than_was_asked_for(harness: &dyn Harness) {
    let store = harness.open().await;
    for (number, priority) in [1, 9, 1, 9].into_iter().enumerate() {
        add_with(&*store, &format!("t{number}"), |new| {
            new.spec.priority = priority;
        })
        .await;
    }
    for (limit, expected) in [(0, vec![]), (1, vec!["t1"]), (3, vec!["t1", "t3", "t0"])] {
        let found = store.claimable(&claimant("ann"), noon(), limit).await;
        let found = found.expect("a store that can be read");
        assert_eq!(
            found.iter().map(|task| task.as_str()).collect::<Vec<_>>(),
            expected
        );
    }
}
