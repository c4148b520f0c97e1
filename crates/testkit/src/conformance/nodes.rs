//! Nodes: one lease for all that a machine holds, final once it ran out.

use relight_core::event::EventKind;
use relight_core::ids::NodeName;
use relight_core::lease::ProcessIdentity;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Span;

use super::Harness;
use super::given::{CLOCK_NOISE_MS_MAX, all_events, events, later, noon};
use relight_store::{EventQuery, Joined, Store};

const TTL: Span = Span::from_ms(10 * CLOCK_NOISE_MS_MAX);

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a valid name")
}

fn new(text: &str) -> NewNode {
    NewNode {
        name: name(text),
        instance: format!("home of {text}"),
        labels: vec!["gpu".to_owned(), "größer".to_owned()],
        address: Some("https://node:7717".to_owned()),
        version: "1.2.3".to_owned(),
        ttl: TTL,
        process: None,
    }
}

async fn join(store: &dyn Store, node: NewNode) -> Joined {
    join_after(store, node, None).await
}

async fn join_after(store: &dyn Store, node: NewNode, last: Option<Epoch>) -> Joined {
    store
        .join_node(node, last, noon())
        .await
        .expect("a store that can be written")
}

async fn joined(store: &dyn Store, node: NewNode) -> Epoch {
    match join(store, node).await {
        Joined::As(epoch) => epoch,
        refused => panic!("{refused:?}"),
    }
}

async fn renew(store: &dyn Store, text: &str, epoch: Epoch) -> bool {
    store
        .renew_node(&name(text), epoch)
        .await
        .expect("a store that can be written")
}

async fn leave(store: &dyn Store, text: &str, epoch: Epoch) -> bool {
    store
        .leave_node(&name(text), epoch, later(1))
        .await
        .expect("a store that can be written")
}

async fn drain(store: &dyn Store, text: &str, draining: bool) -> bool {
    store
        .drain_node(&name(text), draining, noon())
        .await
        .expect("a store that can be written")
}

async fn forget(store: &dyn Store, text: &str) -> bool {
    store
        .forget_node(&name(text), noon())
        .await
        .expect("a store that can be written")
}

async fn nodes(store: &dyn Store) -> Vec<Node> {
    store.nodes().await.expect("a store that can be read")
}

/// What a node says of itself is seen by all, in the order of names.
pub async fn nodes_are_seen_by_every_handle(harness: &dyn Harness) {
    let (one, other) = (harness.open().await, harness.open().await);
    joined(&*one, new("b")).await;
    joined(&*one, new("a")).await;
    let seen = nodes(&*other).await;
    assert_eq!(
        seen.iter().map(|node| node.new.clone()).collect::<Vec<_>>(),
        [new("a"), new("b")]
    );
    assert!(
        seen.iter()
            .all(|node| node.is_live() && node.epoch == Epoch(1) && !node.draining)
    );
    assert_eq!(seen[0].joined_at, noon());
}

/// The lease counts down, and a renewal gives it its whole time.
pub async fn a_renewed_lease_of_a_node_has_its_whole_time(harness: &dyn Harness) {
    let store = harness.open().await;
    let epoch = joined(&*store, new("a")).await;
    harness.advance(Span::from_ms(TTL.as_ms() / 2)).await;
    let half = nodes(&*store).await[0].left;
    assert!(half.as_ms() <= TTL.as_ms() / 2, "{half}");
    assert!(renew(&*store, "a", epoch).await);
    let whole = nodes(&*store).await[0].left;
    assert!(
        whole <= TTL && whole.as_ms() + CLOCK_NOISE_MS_MAX >= TTL.as_ms(),
        "{whole}"
    );
}

/// Others may have taken what it held: it must join anew.
pub async fn a_lease_of_a_node_that_ran_out_is_never_renewed(harness: &dyn Harness) {
    let store = harness.open().await;
    let epoch = joined(&*store, new("a")).await;
    harness.advance(TTL).await;
    assert!(!nodes(&*store).await[0].is_live());
    assert!(!renew(&*store, "a", epoch).await);
    let again = joined(&*store, new("a")).await;
    assert!(again > epoch);
    assert!(!renew(&*store, "a", epoch).await && renew(&*store, "a", again).await);
}

/// A daemon that was killed comes back at once; a stranger with the same name does not.
pub async fn a_name_belongs_to_one_installation_while_its_lease_lasts(harness: &dyn Harness) {
    let store = harness.open().await;
    let first = joined(&*store, new("a")).await;
    let stranger = NewNode {
        instance: "another home".to_owned(),
        ..new("a")
    };
    match join(&*store, stranger.clone()).await {
        Joined::Taken(node) => assert_eq!(node.new, new("a")),
        other => panic!("{other:?}"),
    }
    let again = joined(&*store, new("a")).await;
    assert!(again > first && !renew(&*store, "a", first).await);
    harness.advance(TTL).await;
    assert!(joined(&*store, stranger).await > again);
}

fn process(pid: u32, boot: &str) -> Option<ProcessIdentity> {
    Some(ProcessIdentity {
        pid,
        start: 1,
        boot: boot.to_owned(),
        node: Some(name("a")),
    })
}

/// Two daemons of one installation do not take its lease from each other for ever: the later one has it.
pub async fn a_process_that_another_one_overtook_does_not_join_anew(harness: &dyn Harness) {
    let store = harness.open().await;
    let [frozen, successor] = [1, 2].map(|pid| NewNode {
        process: process(pid, "now"),
        ..new("a")
    });
    let first = joined(&*store, frozen.clone()).await;
    let second = joined(&*store, successor.clone()).await;
    for _ in 0..2 {
        match join_after(&*store, frozen.clone(), Some(first)).await {
            Joined::Overtaken(node) => assert_eq!(node.new, successor),
            other => panic!("{other:?}"),
        }
        harness.advance(TTL).await;
    }
    let anew = join_after(&*store, successor, Some(second)).await;
    assert!(
        matches!(anew, Joined::As(epoch) if epoch > second),
        "{anew:?}"
    );
}

/// A cloned machine has the same home. What its original runs it cannot see, so it may not be that node.
pub async fn a_copy_of_an_installation_on_another_machine_waits_for_the_lease(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    let [original, copy] = ["one boot", "another"].map(|boot| NewNode {
        process: process(1, boot),
        ..new("a")
    });
    let first = joined(&*store, original.clone()).await;
    match join(&*store, copy.clone()).await {
        Joined::Taken(node) => assert_eq!(node.new, original),
        other => panic!("{other:?}"),
    }
    assert!(renew(&*store, "a", first).await);
    harness.advance(TTL).await;
    joined(&*store, copy).await;
    let back = join_after(&*store, original, Some(first)).await;
    assert!(matches!(back, Joined::Taken(_)), "{back:?}");
}

/// Whoever compares numbers would take the new lease for the old one.
pub async fn a_node_that_was_removed_joins_anew_with_a_larger_number(harness: &dyn Harness) {
    let store = harness.open().await;
    let first = joined(&*store, new("a")).await;
    harness.advance(TTL).await;
    assert!(forget(&*store, "a").await);
    let anew = join_after(&*store, new("a"), Some(first)).await;
    assert!(
        matches!(anew, Joined::As(epoch) if epoch > first),
        "{anew:?}"
    );
}

/// Nobody waits for a lease that was given back.
pub async fn a_node_that_left_is_not_waited_for(harness: &dyn Harness) {
    let store = harness.open().await;
    let epoch = joined(&*store, new("a")).await;
    assert!(!leave(&*store, "a", Epoch(epoch.0 + 1)).await);
    assert!(leave(&*store, "a", epoch).await);
    assert!(!nodes(&*store).await[0].is_live() && !renew(&*store, "a", epoch).await);
    assert!(!leave(&*store, "a", epoch).await);
}

/// Draining outlives the daemon; removing is for nodes that are gone.
pub async fn a_node_is_drained_through_restarts_and_removed_when_gone(harness: &dyn Harness) {
    let store = harness.open().await;
    assert!(!drain(&*store, "a", true).await);
    joined(&*store, new("a")).await;
    assert!(drain(&*store, "a", true).await);
    joined(&*store, new("a")).await;
    assert!(nodes(&*store).await[0].draining);
    assert!(drain(&*store, "a", false).await);
    assert!(!nodes(&*store).await[0].draining);
    assert!(!forget(&*store, "a").await);
    harness.advance(TTL).await;
    assert!(forget(&*store, "a").await);
    assert!(nodes(&*store).await.is_empty() && !forget(&*store, "a").await);
}

/// Each of these is told once; renewals are not.
pub async fn what_happens_to_a_node_is_told(harness: &dyn Harness) {
    let store = harness.open().await;
    let epoch = joined(&*store, new("a")).await;
    renew(&*store, "a", epoch).await;
    drain(&*store, "a", true).await;
    leave(&*store, "a", epoch).await;
    forget(&*store, "a").await;
    let query = EventQuery {
        kinds: vec![EventKind::Node],
        ..all_events()
    };
    let told = events(&*store, query).await;
    let whats: Vec<_> = told
        .iter()
        .map(|event| event.detail["what"].as_str().unwrap_or("?"))
        .collect();
    assert_eq!(whats, ["joined", "draining", "left", "removed"]);
    assert!(told.iter().all(|event| event.detail["node"] == "a"));
}

/// Whoever compares marks reads all nodes exactly when there is something to see.
pub async fn a_glance_at_the_nodes_tells_everything_but_renewals(harness: &dyn Harness) {
    let store = harness.open().await;
    let glance = async || {
        store
            .nodes_summary()
            .await
            .expect("a store that can be read")
    };
    let mut marks = vec![glance().await.mark];
    assert_eq!(glance().await.first_end, None);
    let epoch = joined(&*store, new("a")).await;
    marks.push(glance().await.mark);
    harness.advance(Span::from_ms(TTL.as_ms() / 2)).await;
    joined(&*store, new("b")).await;
    marks.push(glance().await.mark);
    let first_end = glance().await.first_end.expect("two leases last");
    assert!(first_end.as_ms() <= TTL.as_ms() / 2, "{first_end}");
    assert!(renew(&*store, "a", epoch).await);
    assert_eq!(glance().await.mark, marks[2]);
    drain(&*store, "a", true).await;
    marks.push(glance().await.mark);
    leave(&*store, "a", epoch).await;
    marks.push(glance().await.mark);
    harness.advance(TTL).await;
    marks.push(glance().await.mark);
    forget(&*store, "a").await;
    marks.push(glance().await.mark);
    joined(&*store, new("b")).await;
    marks.push(glance().await.mark);
    for (at, mark) in marks.iter().enumerate() {
        assert!(
            !marks[..at].contains(mark),
            "the {at}th is as one before: {marks:?}"
        );
    }
}
