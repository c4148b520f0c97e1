//! A node's lease, on a store whose clock the test moves.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;
use std::time::Duration;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode};
use relight_core::time::Span;
use relight_runtime::fleet::{self, JoinError, Standing};
use relight_runtime::holders::Holders;
use relight_store::{MemoryStore, Store};
use tokio::time::timeout;

const LEASE: Span = Span::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

fn node(name: &str, instance: &str) -> NewNode {
    NewNode {
        name: NodeName::new(name).unwrap(),
        instance: instance.to_owned(),
        labels: Vec::new(),
        address: None,
        version: "1".to_owned(),
        ttl: LEASE,
        process: None,
    }
}

fn holders(store: &MemoryStore) -> Arc<Holders> {
    Arc::new(Holders::new(Arc::new(store.clone())))
}

async fn join(holders: &Arc<Holders>, name: &str) -> fleet::Fleet {
    let (holders, node) = (Arc::clone(holders), node(name, name));
    let (fleet, keep) = fleet::join(holders, node, Span::from_ms(50)).await.unwrap();
    tokio::spawn(keep);
    fleet
}

#[tokio::test]
async fn each_renewal_makes_the_term_longer() {
    let store = MemoryStore::new();
    let fleet = join(&holders(&store), "a").await;
    let first = fleet.term().unwrap().stop_at_ms();
    let mut standing = fleet.standing();
    let is_later =
        |now: &Standing| matches!(now, Standing::Member { term, .. } if term.stop_at_ms() > first);
    timeout(PATIENCE, standing.wait_for(is_later))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_node_whose_lease_ran_out_in_the_store_starts_over() {
    let store = MemoryStore::new();
    let fleet = join(&holders(&store), "a").await;
    store.advance(LEASE);
    let mut standing = fleet.standing();
    let joined_anew = |now: &Standing| now.epoch() == Some(Epoch(2));
    timeout(PATIENCE, standing.wait_for(joined_anew))
        .await
        .unwrap()
        .unwrap();
    assert!(
        fleet.term_of(Epoch(1)).is_none(),
        "what was begun before has no right any more"
    );
    assert!(fleet.term_of(Epoch(2)).is_some());
}

#[tokio::test]
async fn the_end_of_another_lease_is_seen() {
    let store = MemoryStore::new();
    let (ours, others) = (holders(&store), holders(&store));
    let fleet = join(&ours, "a").await;
    store
        .join_node(node("b", "b"), None, relight_core::time::Time::from_ms(0))
        .await
        .unwrap();
    let mut nodes = fleet.nodes();
    let b_lives = |lives: bool| {
        move |nodes: &Arc<[relight_core::node::Node]>| {
            nodes
                .iter()
                .any(|node| node.new.name.as_str() == "b" && node.is_live() == lives)
        }
    };
    timeout(PATIENCE, nodes.wait_for(b_lives(true)))
        .await
        .unwrap()
        .unwrap();
    store
        .leave_node(
            &node("b", "b").name,
            Epoch(1),
            relight_core::time::Time::from_ms(0),
        )
        .await
        .unwrap();
    timeout(PATIENCE, nodes.wait_for(b_lives(false)))
        .await
        .unwrap()
        .unwrap();
    assert!(ours.is_gone(&node("b", "b").name));
    assert!(
        !others.is_gone(&node("b", "b").name),
        "who has not looked has not seen it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_in_use_is_waited_for_and_then_refused() {
    let store = MemoryStore::new();
    let _fleet = join(&holders(&store), "a").await;
    let another = node("a", "another");
    let refused = fleet::join(holders(&store), another, Span::from_ms(50))
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&refused, JoinError::Taken(node) if node.new.instance == "a"),
        "{refused}"
    );
}
