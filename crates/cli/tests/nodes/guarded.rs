//! What lives of an agent keeps its node's lease: nobody gives it up while a process of it is left, and
//! nothing lives on that nobody guards.

use std::time::Duration;

use rustix::process::Signal;

use crate::fleet::{Fleet, Meet};
use crate::ground::{ONLY_ONE, is_alive, now, signal, until};
use crate::server::{Cluster, Durability};

const LEASE: Duration = Duration::from_secs(4);

#[test]
fn recover_beside_a_dead_daemon_gives_away_nothing_that_lives() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    let ran = fleet.call("a", &["recover"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("lives without a supervisor"), "{ran:?}");
    assert!(is_alive(pid), "it is left alone");
    until("its shim ends it", || (!is_alive(pid)).then_some(()));
    assert_eq!(fleet.ground.births(1), [pid], "nobody was faster");
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}

#[test]
fn an_agent_whose_shim_is_killed_while_the_store_is_away_is_ended_in_time() {
    let Some(server) = Cluster::start(Durability::Unsynced) else { return };
    let meet = Meet::At(server.url("?schema=fleet&sslmode=disable"));
    let stubborn = format!("{ONLY_ONE}trap '' TERM\nwhile :; do sleep 0.02; done");
    let fleet = Fleet::with_agent(meet, &stubborn, "4s", "grace = \"1m\"");
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let killed = now();
    server.kill();
    signal(fleet.ground.shim("a"), Signal::KILL);
    until("it is ended", || (!is_alive(pid)).then_some(()));
    assert!(killed.elapsed() < LEASE, "{:?}", killed.elapsed());
}

#[test]
fn an_agent_whose_commit_waits_for_longer_than_the_lease_lives_on_while_its_node_does() {
    let Some(server) = Cluster::start(Durability::Unsynced) else { return };
    let fleet = Fleet::new(Meet::At(server.url("?schema=fleet&sslmode=disable")), "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    std::thread::scope(|scope| {
        let held = "BEGIN; SELECT count(*) FROM (SELECT FROM fleet.agent FOR UPDATE) a; \
                    SELECT pg_sleep(6); COMMIT";
        let holds = scope.spawn(|| server.sql(held));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("the agent's row is locked", || (server.sql(waits) == "1").then_some(()));
        // Another plan, which its supervision commits.
        let config = fleet.ground.read("relight.toml");
        fleet.ground.config(&config.replace("restart = \"always\"", "restart = \"on-failure\""));
        a.signal(Signal::HUP);
        a.until_said("the configuration was read again");
        until("a whole lease", || holds.is_finished().then_some(()));
        holds.join().unwrap();
    });
    assert!(is_alive(pid), "{}", a.said());
    let restart = "SELECT body::text FROM fleet.agent";
    until("it is committed", || server.sql(restart).contains("on-failure").then_some(()));
    assert_eq!(fleet.until_lives("a", 1), pid);
    assert_eq!(fleet.state_of("a", "a"), "live");
}
