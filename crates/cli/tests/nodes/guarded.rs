//! What lives of an agent keeps its node's lease: nobody gives it up while a process of it is left, and
//! nothing lives on that nobody guards.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};

use crate::fleet::{Fleet, Meet};
use crate::ground::{ONLY_ONE, is_alive, now, signal, until};
use crate::server::{Cluster, Durability};

/// What is killed at the end of a lease has a second of it to be gone.
const LEASE: Duration = Duration::from_secs(12);

/// The lock that a process of an agent has open, held here as well: as if something of its tree could
/// not be ended.
fn lock_of(pid: u32) -> OwnedFd {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(Result::ok);
    let is_lock = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|file| file.ends_with("agents/a/lock"))
    };
    let mut locks = files.filter(|file| is_lock(file.path()));
    let lock = locks.next().expect("it has its lock").file_name();
    let number: i32 = lock.to_str().unwrap().parse().unwrap();
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).unwrap()
}

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
fn an_agent_with_a_dead_daemon_and_a_stopped_shim_is_ended_in_time() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let shim = fleet.ground.shim("a");
    let _b = fleet.up("b");
    a.kill();
    signal(shim, Signal::STOP);
    until("its shim ends it", || (!is_alive(pid)).then_some(()));
    assert_eq!(fleet.ground.births(1), [pid], "nobody was faster");
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_node_that_leaves_keeps_its_lease_while_something_of_an_agent_is_left() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let lock = lock_of(pid);
    a.signal(Signal::TERM);
    let ran = a.end();
    assert!(
        ran.stderr
            .contains("this node keeps its lease until it ends"),
        "{ran:?}"
    );
    let agent = fleet.agent("b");
    assert_eq!(
        (agent["state"].as_str(), agent["node"].as_str()),
        (Some("stopped"), Some("a"))
    );
    assert_eq!(fleet.state_of("b", "a"), "live", "its lease lasts");
    fleet.until_lives("b", 2);
    assert_eq!(fleet.state_of("b", "a"), "gone");
    drop(lock);
}

#[test]
fn an_agent_whose_shim_is_killed_while_the_store_is_away_is_ended_in_time() {
    let Some(server) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let meet = Meet::At(server.url("?schema=fleet&sslmode=disable"));
    let stubborn = format!("trap '' TERM\n{ONLY_ONE}while :; do sleep 0.02; done");
    let fleet = Fleet::with_agent(meet, &stubborn, LEASE, "grace = \"1m\"");
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
    let Some(server) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let fleet = Fleet::new(Meet::At(server.url("?schema=fleet&sslmode=disable")), "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    std::thread::scope(|scope| {
        let held = "BEGIN; SELECT count(*) FROM (SELECT FROM fleet.agent FOR UPDATE) a; \
                    SELECT pg_sleep(8); COMMIT";
        let holds = scope.spawn(|| server.sql(held));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("the agent's row is locked", || {
            (server.sql(waits) == "1").then_some(())
        });
        // Another plan, which its supervision commits.
        let config = fleet.ground.read("relight.toml");
        fleet
            .ground
            .config(&config.replace("restart = \"always\"", "restart = \"on-failure\""));
        a.signal(Signal::HUP);
        a.until_said("the configuration was read again");
        until("a whole lease", || holds.is_finished().then_some(()));
        holds.join().unwrap();
    });
    assert!(is_alive(pid), "{}", a.said());
    let restart = "SELECT body::text FROM fleet.agent";
    until("it is committed", || {
        server.sql(restart).contains("on-failure").then_some(())
    });
    assert_eq!(fleet.until_lives("a", 1), pid);
    assert_eq!(fleet.state_of("a", "a"), "live");
}
