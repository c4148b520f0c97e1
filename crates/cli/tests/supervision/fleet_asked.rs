//! Any node answers for the whole fleet: what one of them has is started, stopped and read through
//! another.

use rustix::process::Signal;
use serde_json::json;

use crate::fleet::Fleet;
use crate::ground::{is_alive, until};
use crate::postgres::{Cluster, Durability};

/// What `agent.wish` told, as seen from a node.
fn wishes(fleet: &Fleet, node: &str) -> Vec<String> {
    let ran = fleet.call(node, &["events", "--kind", "agent.wish", "-n", "100", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| event["detail"][name].as_str().unwrap_or("-").to_owned();
        format!("{} {} by {}", word("verb"), word("progress"), word("by"))
    };
    ran.stdout.lines().map(told).collect()
}

fn any_node_will_do(fleet: &Fleet) {
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let stopped = fleet.json("b", &["stop", "a"]);
    assert_eq!(
        stopped,
        json!({"agent": "a", "previous_state": "running", "state": "stopped", "task_cancelled": null})
    );
    assert!(!is_alive(pid), "it is answered once its tree is gone");
    let again = fleet.json("b", &["stop", "a"]);
    assert_eq!((&again["previous_state"], &again["state"]), (&json!("stopped"), &json!("stopped")));
    let started = fleet.json("b", &["start", "a"]);
    assert_eq!(
        (&started["previous_state"], &started["state"]),
        (&json!("stopped"), &json!("running"))
    );
    let second = fleet.until_lives("a", 2);
    assert_eq!(fleet.call("b", &["start", "a"]).code, 0, "it runs already");
    assert_eq!(fleet.until_lives("a", 2), second);
    assert_eq!(fleet.call("b", &["restart", "a"]).code, 0);
    fleet.until_lives("a", 3);
    assert!(!is_alive(second));
    let told = wishes(fleet, "b");
    let expected: Vec<String> = ["stop", "start", "start", "restart"]
        .iter()
        .flat_map(|verb| ["asked", "answered"].map(|is| format!("{verb} {is} by node b")))
        .collect();
    assert_eq!(told, expected);
    fleet.ground.assert_never_doubled();
}

#[test]
fn any_node_starts_and_stops_what_another_has() {
    any_node_will_do(&Fleet::new(""));
}

#[test]
fn any_node_starts_and_stops_what_another_has_on_postgresql() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else { return };
    any_node_will_do(&Fleet::on(&cluster.url(""), ""));
}

#[test]
fn a_command_without_a_daemon_asks_the_node_as_well() {
    let fleet = Fleet::new("");
    let _a = fleet.up("a");
    fleet.until_lives("a", 1);
    let stopped = fleet.json("nowhere", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(wishes(&fleet, "a"), ["stop asked by a command", "stop answered by a command"]);
}

#[test]
fn what_is_asked_of_a_node_that_goes_is_done_by_its_successor_once() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.signal(Signal::STOP);
    let stopped = fleet.json("b", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    a.signal(Signal::CONT);
    a.until_said("the lease of this node ran out");
    until("it has joined anew", || (fleet.state_of("b", "a") == "live").then_some(()));
    assert_eq!(fleet.call("a", &["start", "a"]).code, 0, "asked through the one that was frozen");
    let agent = fleet.agent("b");
    assert_eq!((&agent["state"], &agent["node"]), (&json!("running"), &json!("b")));
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_node_that_does_not_take_a_wish_is_named_and_nothing_is_done() {
    let fleet = Fleet::new("placement = \"nowhere\"");
    let _a = fleet.up("a");
    let _b = fleet.up("b");
    // Supervised on node a, but not by its daemon.
    let run = fleet.start("a", &["run", "--name", "r", "--", "sleep", "1000"]);
    let state = || fleet.agent("b")["state"].clone();
    until("it runs", || (state() == "running").then_some(()));
    let ran = fleet.call("b", &["stop", "r"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("agent r is on node a, which does not answer"), "{ran:?}");
    assert_eq!(state(), "running");
    assert_eq!(wishes(&fleet, "b"), ["stop asked by node b", "stop withdrawn by node b"]);
    run.signal(Signal::TERM);
}
