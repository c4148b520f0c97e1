//! Who may write, and for how long, by the store's own clock.

use relight_core::change::Change;
use relight_core::lease::{Fence, Holder, ProcessIdentity};
use relight_core::time::Span;

use super::Harness;
use super::given::{
    FREE, add, add_held, all_of, at_seq, begun, commit_of, done, fenced, id, later, lease_of, left,
    note, put, read,
};
use relight_store::CommitError;

const fn secs(count: u64) -> Option<Span> {
    Some(Span::from_secs(count))
}

/// A holder that lost its lease changes nothing, whatever it was doing.
pub async fn late_write_of_a_dead_holder_is_refused(harness: &dyn Harness) {
    let (dead, successor) = (harness.open().await, harness.open().await);
    let old = add_held(&*dead, "t").await;
    harness.advance(Span::from_secs(1100)).await;
    let new = done(
        &*successor,
        "t",
        FREE,
        vec![Change::LeaseEnded, lease_of(Some(1_000))],
    )
    .await
    .fence;
    let before = all_of(&*successor, "t").await;
    let refused = put(&*dead, "t", fenced(old), vec![begun("s")]).await;
    assert!(
        matches!(&refused, Err(CommitError::Fenced { task, ours, newest }) if *task == id("t") && *ours == old && *newest == new),
        "{refused:?}"
    );
    assert_eq!(all_of(&*successor, "t").await, before);
}

/// Both read the task free; the store lets one through.
pub async fn two_takers_one_wins(harness: &dyn Harness) {
    let (ours, theirs) = (harness.open().await, harness.open().await);
    for round in 0..10 {
        let task = format!("t{round}");
        let seq = add(&*ours, &task).await.seq;
        let takers = [ours.clone(), theirs.clone()].map(|store| {
            let commit = commit_of(&id(&task), at_seq(seq), vec![lease_of(Some(1_000))]);
            tokio::spawn(async move { store.commit(commit).await })
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
                .any(|result| matches!(result, Err(CommitError::Moved(_))))
        );
        assert_eq!(read(&*ours, &task).await.lease.fence, Fence(1));
    }
}

/// Slow is not dead: as long as nobody else took it, the work counts, and the lease lives again.
pub async fn a_lease_that_ran_out_but_was_not_taken_still_writes(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    harness.advance(Span::from_secs(360_000)).await;
    assert_eq!(left(&*store, "t").await, Some(Span::ZERO));
    done(&*store, "t", fenced(fence), vec![note("x")]).await;
    assert_eq!(left(&*store, "t").await, secs(1_000));
}

/// Given back is given back, though no newer lease was given.
pub async fn a_lease_that_was_given_back_writes_no_more(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    done(&*store, "t", fenced(fence), vec![Change::LeaseEnded]).await;
    let refused = put(&*store, "t", fenced(fence), vec![note("x")]).await;
    assert!(matches!(refused, Err(CommitError::Fenced { ours, newest, .. }) if ours == newest));
    assert_eq!(read(&*store, "t").await.lease.held, None);
}

/// A person takes the right away; the next lease has a number of its own.
pub async fn a_raised_fence_shuts_out_the_holder(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    assert_eq!(
        done(&*store, "t", FREE, vec![Change::FenceRaised])
            .await
            .fence,
        Fence(2)
    );
    let refused = put(&*store, "t", fenced(fence), vec![note("x")]).await;
    assert!(matches!(
        refused,
        Err(CommitError::Fenced {
            newest: Fence(2),
            ..
        })
    ));
    let raised = put(&*store, "t", fenced(Fence(2)), vec![note("x")]).await;
    assert!(
        matches!(raised, Err(CommitError::Fenced { .. })),
        "nobody holds the raised fence"
    );
    assert_eq!(
        done(&*store, "t", FREE, vec![lease_of(None)]).await.fence,
        Fence(3)
    );
}

/// Through taking, giving back and raising.
pub async fn fences_only_grow(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let mut fences = Vec::new();
    for change in [
        lease_of(Some(100)),
        Change::LeaseEnded,
        lease_of(None),
        Change::FenceRaised,
        Change::StepsCleared,
        lease_of(Some(100)),
        lease_of(Some(100)),
    ] {
        fences.push(done(&*store, "t", FREE, vec![change]).await.fence.0);
    }
    assert_eq!(fences, [1, 1, 2, 3, 3, 4, 5]);
    assert_eq!(read(&*store, "t").await.starts, 4);
}

/// A number that was never given opens nothing.
pub async fn a_fence_from_the_future_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    for fence in [Fence(2), Fence(i64::MAX as u64), Fence(u64::MAX)] {
        let refused = put(&*store, "t", fenced(fence), vec![note("x")]).await;
        assert!(
            matches!(refused, Err(CommitError::Fenced { .. })),
            "{refused:?}"
        );
    }
}

/// As the store's clock goes, and never below nothing.
pub async fn the_time_left_counts_down_to_nothing(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    add_held(&*store, "t").await;
    assert_eq!(left(&*store, "t").await, secs(1_000));
    harness.advance(Span::from_secs(400)).await;
    assert_eq!(left(&*other, "t").await, secs(600));
    harness.advance(Span::from_secs(500)).await;
    assert_eq!(left(&*store, "t").await, secs(100));
    for _ in 0..2 {
        harness.advance(Span::from_secs(100)).await;
        assert_eq!(left(&*other, "t").await, Some(Span::ZERO));
    }
}

/// Whatever it changes.
pub async fn every_fenced_commit_renews_the_lease(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    for change in [note("x"), begun("s"), Change::NotBefore(None)] {
        harness.advance(Span::from_secs(700)).await;
        done(&*store, "t", fenced(fence), vec![change]).await;
        assert_eq!(left(&*store, "t").await, secs(1_000));
    }
}

/// Nothing to write is still a sign of life.
pub async fn an_empty_fenced_commit_renews_the_lease(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    harness.advance(Span::from_secs(700)).await;
    done(&*store, "t", fenced(fence), Vec::new()).await;
    assert_eq!(left(&*store, "t").await, secs(1_000));
}

/// Somebody else's write says nothing about the holder's life.
pub async fn an_unfenced_commit_renews_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    harness.advance(Span::from_secs(700)).await;
    done(&*store, "t", FREE, vec![note("x")]).await;
    done(&*store, "t", at_seq(3), vec![note("y")]).await;
    done(&*store, "t", FREE, Vec::new()).await;
    assert_eq!(left(&*store, "t").await, secs(300));
}

/// With the right fence and the wrong sequence number too.
pub async fn a_refused_commit_renews_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    harness.advance(Span::from_secs(700)).await;
    let guard = relight_core::decide::Guard {
        fence: Some(fence),
        seq: Some(99),
    };
    put(&*store, "t", guard, vec![note("x")])
        .await
        .expect_err("a wrong guard is refused");
    assert_eq!(left(&*store, "t").await, secs(300));
}

/// Time is given anew; nothing moves, nobody is told.
pub async fn renewal_is_not_progress(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    let before = all_of(&*store, "t").await;
    harness.advance(Span::from_secs(1100)).await;
    store
        .renew(&id("t"), fence)
        .await
        .expect("the holder renews");
    assert_eq!(
        all_of(&*store, "t").await,
        before,
        "also the time left is as at the begin"
    );
}

/// By a successor, by giving back, or with the task itself.
pub async fn renewal_after_the_lease_was_lost_is_refused(harness: &dyn Harness) {
    let store = harness.open().await;
    let old = add_held(&*store, "t").await;
    let new = done(&*store, "t", FREE, vec![lease_of(Some(1_000))])
        .await
        .fence;
    harness.advance(Span::from_secs(400)).await;
    let refused = store.renew(&id("t"), old).await;
    assert!(matches!(refused, Err(CommitError::Fenced { newest, .. }) if newest == new));
    assert_eq!(
        left(&*store, "t").await,
        secs(600),
        "the successor's time is its own"
    );
    done(&*store, "t", FREE, vec![Change::LeaseEnded]).await;
    let refused = store.renew(&id("t"), new).await;
    assert!(matches!(refused, Err(CommitError::Fenced { .. })));
    let refused = store.renew(&id("absent"), new).await;
    assert!(matches!(refused, Err(CommitError::Absent(_))));
}

/// Only its holder's death does.
pub async fn no_clock_ends_a_lease_without_time(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let fence = done(&*store, "t", FREE, vec![lease_of(None)]).await.fence;
    harness.advance(Span::from_secs(86_400 * 365)).await;
    assert_eq!(left(&*store, "t").await, None);
    store
        .renew(&id("t"), fence)
        .await
        .expect("the holder renews");
    assert_eq!(left(&*store, "t").await, None);
}

/// Each kind of holder, with all that tells it from another.
pub async fn holders_come_back_as_they_were(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let boot = "3f0c2b9e-0000-4000-8000-5bd1e995aa55".to_owned();
    let holders = [
        Holder::Process(ProcessIdentity {
            pid: u32::MAX,
            start: u64::MAX,
            boot,
            node: None,
        }),
        Holder::Attempt {
            process: None,
            attempt: "writer-7".to_owned(),
            shim: relight_core::lease::ProcessIdentity {
                pid: 1,
                start: 1,
                boot: "boot".to_owned(),
                node: None,
            },
        },
        Holder::Time {
            by: "Zoë at the desk".to_owned(),
        },
    ];
    for (count, holder) in holders.into_iter().enumerate() {
        for ttl in [None, secs(6_000)] {
            let at = later(count as u64);
            let change = Change::LeaseTaken {
                holder: holder.clone(),
                ttl,
            };
            let commit = commit_of(&id("t"), FREE, vec![change]);
            store
                .commit(relight_store::Commit { at, ..commit })
                .await
                .expect("a free commit is taken");
            let held = read(&*store, "t")
                .await
                .lease
                .held
                .expect("the task is held");
            assert_eq!(
                (held.holder, held.ttl, held.since, held.left),
                (holder.clone(), ttl, at, ttl)
            );
        }
    }
}

/// What was left of the old lease is not the new one's.
pub async fn a_successor_starts_with_a_whole_lease(harness: &dyn Harness) {
    let store = harness.open().await;
    add_held(&*store, "t").await;
    harness.advance(Span::from_secs(900)).await;
    done(
        &*store,
        "t",
        FREE,
        vec![Change::LeaseEnded, lease_of(Some(3_000))],
    )
    .await;
    assert_eq!(left(&*store, "t").await, secs(3_000));
    done(&*store, "t", FREE, vec![lease_of(None)]).await;
    assert_eq!(left(&*store, "t").await, None);
}
