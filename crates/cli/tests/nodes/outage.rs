//! The database itself is killed: what runs outlives a short outage, is ended in time in a long one, and
//! comes back by itself after it.

use std::time::Duration;

use rustix::process::Signal;

use crate::fleet::{Fleet, LEASE, Meet};
use crate::ground::{is_alive, now, until};
use crate::server::{Cluster, Durability};

/// A server that nobody else needs; none, loudly, without the package.
fn server() -> Option<Cluster> {
    Cluster::start(Durability::Unsynced)
}

fn fleet(server: &Cluster) -> Fleet {
    Fleet::new(Meet::At(server.url("?schema=fleet&sslmode=disable")), "")
}

/// Until when the lease of a node lasts, by the database's clock, and how often it has joined.
fn lease(server: &Cluster, node: &str) -> (i64, i64) {
    let row = server.sql(&format!(
        "SELECT lease_until, epoch FROM fleet.node WHERE name = '{node}'"
    ));
    let (until, epoch) = row.split_once('|').unwrap();
    (until.parse().unwrap(), epoch.parse().unwrap())
}

#[test]
fn a_server_that_is_back_within_the_lease_costs_nothing() {
    let Some(server) = server() else { return };
    let fleet = fleet(&server);
    fleet.lease(Duration::from_secs(30));
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let (before, epoch) = lease(&server, "a");
    server.kill();
    server.start_server();
    let renewed = until("it renews again", || {
        let (until, epoch) = lease(&server, "a");
        (until > before + 1_000).then_some(epoch)
    });
    assert_eq!(renewed, epoch, "under the same lease");
    assert_eq!(fleet.until_lives("a", 1), pid);
    // The queue is served again too.
    let b = fleet.up("b");
    b.signal(Signal::TERM);
    assert_eq!(b.end().code, 143);
    fleet.ground.assert_never_doubled();
}

#[test]
fn without_the_server_agents_end_before_the_lease_and_come_back_with_it() {
    let Some(server) = server() else { return };
    let fleet = fleet(&server);
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    until("b is a node", || {
        (fleet.state_of("a", "b") == "live").then_some(())
    });
    let killed = now();
    server.kill();
    until("it is ended", || (!is_alive(pid)).then_some(()));
    assert!(killed.elapsed() < LEASE, "{:?}", killed.elapsed());
    until("a long outage", || {
        (killed.elapsed() > LEASE * 2).then_some(())
    });
    server.start_server();
    let births = fleet.ground.births(2);
    until("both are nodes again", || {
        let states = ["a", "b"].map(|node| fleet.state_of("a", node));
        (states == ["live", "live"]).then_some(())
    });
    assert!(is_alive(births[1]), "one start was enough");
    let joined = ["a", "b"].map(|node| lease(&server, node).1);
    assert!(
        joined.iter().all(|epoch| *epoch <= 3),
        "not once for each attempt: {joined:?}"
    );
    assert_eq!(fleet.causes("a"), ["lost"]);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_node_says_that_there_is_no_server() {
    let Some(server) = server() else { return };
    let fleet = fleet(&server);
    server.kill();
    let ran = fleet.begin("a", &[]).end();
    assert_eq!(ran.code, 69, "{ran:?}");
    assert!(ran.stderr.contains("cannot be reached"), "{ran:?}");
    assert!(
        ran.stderr.contains(&format!("127.0.0.1:{}", server.port())),
        "{ran:?}"
    );
}
