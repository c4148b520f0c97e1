//! What one node had goes on elsewhere, and never twice at once. Each test is run on one SQLite file, and on
//! one PostgreSQL where there is one.

use std::time::Duration;

use rustix::process::Signal;

use crate::fleet::{Fleet, LEASE, Meet};
use crate::ground::{is_alive, now, signal, until};
use crate::relight::finish;

/// Runs each of these on every store that nodes can share; without PostgreSQL, says so.
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(super::Meet::InOneFile);
            })*
        }
        mod postgres {
            $(#[test]
            fn $test() {
                if let Some(server) = crate::server::Cluster::shared() {
                    super::$test(super::Meet::in_a_schema_of(server));
                }
            })*
        }
    };
}

on_every_store! {
    an_agent_of_a_node_that_was_killed_goes_on_elsewhere_once
    without_its_daemon_an_agent_lives_until_its_shim_ends_it_in_time
    a_daemon_that_comes_back_in_time_adopts_and_restarts_nothing
    a_frozen_daemon_starts_over_and_does_not_double
    a_node_that_leaves_hands_over_at_once
    an_agent_runs_where_its_placement_says
    what_a_person_stopped_stays_stopped_on_every_node
    a_drained_node_hands_over_what_ends_and_takes_nothing
    a_node_that_drains_looks_after_what_runs_when_its_daemon_comes_back
    a_name_that_another_machine_uses_is_refused
    a_task_of_a_lost_node_is_recovered_by_another
    a_second_node_loss_in_a_row_waits_for_no_cooldown
    a_turn_of_a_lost_node_is_found_by_the_next_attempt
    what_no_node_guards_is_not_run
}

fn an_agent_of_a_node_that_was_killed_goes_on_elsewhere_once(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let pid = fleet.until_placed("a", 1);
    let _b = fleet.up("b");
    let shim = fleet.ground.shim("a");
    a.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    fleet.until_placed("b", 2);
    assert_eq!(fleet.causes("b"), ["lost"]);
    assert_eq!(fleet.state_of("b", "a"), "gone");
    assert_eq!(fleet.ground.lines("places"), ["a", "b"]);
    fleet.ground.assert_never_doubled();
}

fn a_second_node_loss_in_a_row_waits_for_no_cooldown(meet: Meet) {
    let fleet = Fleet::new(
        meet,
        "cooldown = \"10m\"\nmax_attempts = 1\ntask = \"pinned\"\n",
    );
    let mut lost = fleet.up("a");
    let mut pid = fleet.until_lives("a", 1);
    for (attempt, next) in [(2, "b"), (3, "c"), (4, "d"), (5, "e")] {
        let successor = fleet.up(next);
        // Its node renews its lease every half second: that is the last sign of it.
        let begun = now();
        until("its node has renewed", || {
            (begun.elapsed() > Duration::from_secs(2)).then_some(())
        });
        let shim = fleet.ground.shim("a");
        lost.kill();
        signal(shim, Signal::KILL);
        signal(pid, Signal::KILL);
        pid = fleet.until_lives(next, attempt);
        lost = successor;
    }
    let deaths = fleet.deaths("e");
    assert_eq!(deaths.len(), 4);
    let lived = |death: &serde_json::Value| death["lived_ms"].as_u64().unwrap();
    assert!(deaths.iter().all(|death| lived(death) > 0), "{deaths:#?}");
}

fn without_its_daemon_an_agent_lives_until_its_shim_ends_it_in_time(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    assert!(is_alive(pid), "its daemon is disposable");
    until("the shim ends it", || (!is_alive(pid)).then_some(()));
    assert_ne!(
        fleet.state_of("b", "a"),
        "gone",
        "everything is dead before the lease ends"
    );
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}

fn a_daemon_that_comes_back_in_time_adopts_and_restarts_nothing(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let pid = fleet.until_placed("a", 1);
    let _b = fleet.up("b");
    a.kill();
    let a = fleet.up("a");
    a.until_said("lives and is adopted");
    // Longer than the lease that it had before.
    let begun = now();
    until("a whole lease", || (begun.elapsed() > LEASE).then_some(()));
    assert_eq!(fleet.until_placed("a", 1), pid);
    assert_eq!(fleet.ground.lines("places"), ["a"]);
    fleet.ground.assert_never_doubled();
}

fn a_frozen_daemon_starts_over_and_does_not_double(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let b = fleet.up("b");
    a.freeze();
    let second = fleet.until_lives("b", 2);
    assert!(!is_alive(pid));
    a.signal(Signal::CONT);
    a.until_said("the lease of this node ran out");
    until("it has joined anew", || {
        (fleet.state_of("b", "a") == "live").then_some(())
    });
    assert_eq!(
        fleet.until_lives("b", 2),
        second,
        "what others have taken stays theirs"
    );
    // It is a node like any other again.
    b.signal(Signal::TERM);
    fleet.until_lives("a", 3);
    fleet.ground.assert_never_doubled();
}

fn a_node_that_leaves_hands_over_at_once(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    // Longer than is waited for anything: who waited for its end would never be seen to take over.
    fleet.lease(Duration::from_secs(3_600));
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.signal(Signal::TERM);
    fleet.until_lives("b", 2);
    assert_eq!(fleet.causes("b"), ["stopped"]);
    assert_eq!(a.end().code, 143);
    assert_eq!(fleet.state_of("b", "a"), "gone");
    fleet.ground.assert_never_doubled();
}

fn an_agent_runs_where_its_placement_says(meet: Meet) {
    let fleet = Fleet::new(meet, "placement = \"b\"");
    let a = fleet.up("a");
    a.until_said("1 agents are placed on other nodes");
    assert_eq!(fleet.ground.lines("places").len(), 0);
    let b = fleet.up("b");
    fleet.until_placed("b", 1);
    b.kill();
    until("b is gone", || {
        (fleet.state_of("a", "b") == "gone").then_some(())
    });
    let _b = fleet.up("b");
    fleet.until_placed("b", 2);
    assert_eq!(fleet.ground.lines("places"), ["b", "b"]);
    fleet.ground.assert_never_doubled();
}

fn what_a_person_stopped_stays_stopped_on_every_node(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    fleet.until_placed("a", 1);
    let b = fleet.up("b");
    assert_eq!(fleet.call("a", &["stop", "a"]).code, 0);
    a.kill();
    b.until_said("is up with 0 of 1");
    until("b has it", || {
        let agent = fleet.agent("b");
        (agent["node"] == "b").then(|| assert_eq!(agent["state"], "stopped"))
    });
    assert_eq!(fleet.ground.lines("places"), ["a"]);
    assert_eq!(fleet.call("b", &["start", "a"]).code, 0);
    fleet.until_placed("b", 2);
}

fn a_drained_node_hands_over_what_ends_and_takes_nothing(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    assert_eq!(fleet.call("b", &["node", "drain", "a"]).code, 0);
    until("it is told", || {
        (fleet.state_of("b", "a") == "draining").then_some(())
    });
    assert!(is_alive(pid), "what runs goes on");
    let told = now();
    until("a has renewed since", || {
        (told.elapsed() > Duration::from_secs(1)).then_some(())
    });
    signal(pid, Signal::KILL);
    fleet.until_lives("b", 2);
    assert_eq!(fleet.call("b", &["node", "drain", "nobody"]).code, 1);
    fleet.ground.assert_never_doubled();
}

fn a_node_that_drains_looks_after_what_runs_when_its_daemon_comes_back(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    assert_eq!(fleet.call("b", &["node", "drain", "a"]).code, 0);
    a.kill();
    let a = fleet.up("a");
    a.until_said("lives and is adopted");
    assert!(is_alive(pid), "what runs goes on");
    signal(pid, Signal::KILL);
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}

fn a_name_that_another_machine_uses_is_refused(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let _a = fleet.up("a");
    let mut command = fleet
        .ground
        .stage
        .command(&["up", "--no-http", "--node", "a"]);
    let [_, (store, url)] = fleet.variables("a");
    let ran = finish(command.env(store, url).spawn().unwrap());
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(
        ran.stderr.contains("another machine is node a already"),
        "{ran:?}"
    );
    assert_eq!(fleet.call("a", &["node", "remove", "a"]).code, 75);
    assert_eq!(fleet.call("a", &["node", "remove", "b"]).code, 1);
}

fn a_task_of_a_lost_node_is_recovered_by_another(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let pid = std::process::id().to_string();
    let ran = fleet.call("a", &["task", "start", "t", "--owner-pid", &pid]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let status = || {
        fleet.json("b", &["task", "show", "t"])["status"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(status(), "in_progress");
    a.kill();
    until("its node is gone", || {
        (status() != "in_progress").then_some(())
    });
    assert_eq!(
        fleet.state_of("b", "a"),
        "gone",
        "its holder lives, but nobody there can say so"
    );
    let late = fleet.call("a", &["task", "done", "t", "--fence", "1"]);
    assert_eq!(late.code, 77, "{late:?}");
}

fn a_turn_of_a_lost_node_is_found_by_the_next_attempt(meet: Meet) {
    let gateway = "relight session recover --json >>found\n\
        relight session begin tg:1 --id c1; echo \"$? $RELIGHT_NODE\" >>codes\n\
        trap 'exit 0' TERM; while :; do sleep 0.02; done";
    let fleet = Fleet::with_agent(meet, gateway, Duration::from_secs(4), "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    fleet.ground.until_lines("codes", 1);
    let _b = fleet.up("b");
    let shim = fleet.ground.shim("a");
    a.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    assert_eq!(fleet.ground.until_lines("codes", 2), ["0 a", "0 b"]);
    let found = fleet.ground.read("found");
    assert!(found.contains("tg:1"), "{found}");
}

fn what_no_node_guards_is_not_run(meet: Meet) {
    let fleet = Fleet::new(meet, "");
    let a = fleet.up("a");
    let ran = fleet.call("a", &["run", "--name", "alone", "--", "./agent"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(
        ran.stderr.contains("relight run cannot guard an agent"),
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains("and relight up"),
        "it says what to do instead: {ran:?}"
    );
    a.signal(Signal::TERM);
    a.end();
}
