//! Who looks after an agent when its node changes its mind: what no daemon of a live node has is given
//! back, so that another node takes it up.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Fleet, LEASE, Meet};
use crate::ground::{is_alive, now, signal, until};

/// Longer than the lease of these fleets.
#[test]
fn an_agent_that_its_node_may_not_run_any_more_is_ended_and_goes_on_elsewhere() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    fleet.agent_is("placement = \"b\"");
    let _a = fleet.up("a");
    fleet.until_lives("b", 2);
    assert!(!is_alive(pid));
    assert_eq!(
        fleet.causes("b"),
        ["stopped"],
        "it was ended by its own node, not by its shim"
    );
    fleet.ground.assert_never_doubled();
}

#[test]
fn an_agent_that_was_being_removed_when_the_lease_was_lost_is_given_back() {
    let fleet = Fleet::new(Meet::InOneFile, "grace = \"60s\"");
    fleet.ground.script(
        "agent",
        "trap 'echo told >>told' TERM\necho >armed\nwhile :; do sleep 0.02; done",
    );
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    fleet.ground.until_lines("armed", 1);
    let with_agent = fleet.ground.read("relight.toml");
    fleet
        .ground
        .config(with_agent.split("[[agent]]").next().unwrap());
    a.signal(Signal::HUP);
    fleet.ground.until_lines("told", 1);
    a.freeze();
    until("its shim ends it", || (!is_alive(pid)).then_some(()));
    until("the lease runs out", || {
        (fleet.state_of("a", "a") == "gone").then_some(())
    });
    a.signal(Signal::CONT);
    until("it has joined anew", || {
        (fleet.state_of("a", "a") == "live").then_some(())
    });
    fleet.ground.config(&with_agent);
    let _b = fleet.up("b");
    fleet.until_lives("b", 2);
}

/// Registers an agent that lives until it is told to end.
fn register(fleet: &Fleet, node: &str) {
    let folder = fleet.ground.work("").display().to_string();
    let agent = json!({"name": "r", "command": ["./agent"], "folder": folder, "restart": "always"});
    let answered = fleet.send_with(node, "POST", "/api/agents", Some(&agent));
    assert_eq!(answered.status, 201, "{answered:?}");
}

fn fleet_that_takes_commands() -> Fleet {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let config = fleet.ground.read("relight.toml");
    let without_agent = config.split("[[agent]]").next().unwrap();
    fleet
        .ground
        .config(&format!("[daemon]\ncommands = true\n{without_agent}"));
    fleet
}

fn node_of(fleet: &Fleet, asked: &str, attempt: u32) -> String {
    until(&format!("attempt {attempt} lives"), || {
        let agent = fleet.agent(asked);
        let lives = agent["state"] == "running" && agent["attempt"] == attempt;
        agent["node"]
            .as_str()
            .filter(|_| lives && agent["pid"].is_u64())
            .map(str::to_owned)
    })
}

#[test]
fn an_agent_that_was_registered_goes_on_elsewhere_and_can_be_removed() {
    let fleet = fleet_that_takes_commands();
    let (mut up, nodes) = (Vec::new(), ["a", "b"]);
    for node in nodes {
        up.push(fleet.up(node));
    }
    register(&fleet, "a");
    let first = node_of(&fleet, "a", 1);
    let at = nodes.iter().position(|node| *node == first).unwrap();
    up.remove(at).kill();
    let other = nodes[1 - at];
    assert_eq!(node_of(&fleet, other, 2), other);
    let _back = fleet.up(nodes[at]);
    let removed = fleet.send(other, "DELETE", "/api/agents/r");
    assert_eq!(removed.status, 204, "{removed:?}");
    let begun = now();
    until("any other had time to take it", || {
        (begun.elapsed() > Duration::from_secs(1)).then_some(())
    });
    assert_eq!(
        fleet.agent(other),
        Value::Null,
        "nobody brings back what was removed"
    );
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_node_that_drains_leaves_a_registered_agent_to_another() {
    let fleet = fleet_that_takes_commands();
    let _a = fleet.up("a");
    let _b = fleet.up("b");
    assert_eq!(fleet.call("b", &["node", "drain", "a"]).code, 0);
    register(&fleet, "a");
    assert_eq!(node_of(&fleet, "a", 1), "b");
}

#[test]
fn a_frozen_daemon_is_taken_over_and_ends() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    a.freeze();
    let successor = fleet.begin("a", &["--take-over"]);
    successor.until_said("lives and is adopted");
    a.signal(Signal::CONT);
    let ended = a.end();
    assert_eq!(ended.code, 77, "{ended:?}");
    assert!(
        ended.stderr.contains("another daemon is node a now"),
        "{ended:?}"
    );
    let begun = now();
    until("a whole lease", || (begun.elapsed() > LEASE).then_some(()));
    assert_eq!(fleet.until_lives("a", 1), pid, "nothing was restarted");
    assert!(
        !successor.said().contains("lease of this node ran out"),
        "{}",
        successor.said()
    );
}

#[test]
fn a_placement_that_is_read_again_is_obeyed() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let b = fleet.up("b");
    let pid = fleet.until_placed("b", 1);
    let a = fleet.up("a");
    fleet.agent_is("placement = \"b\"");
    a.signal(Signal::HUP);
    a.until_said("the configuration was read again");
    let shim = fleet.ground.shim("a");
    b.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    until("b is gone", || {
        (fleet.state_of("a", "b") == "gone").then_some(())
    });
    let gone = now();
    until("a had time to take it", || {
        (gone.elapsed() > Duration::from_secs(2)).then_some(())
    });
    let _b = fleet.up("b");
    fleet.until_placed("b", 2);
    assert_eq!(fleet.ground.lines("places"), ["b", "b"]);
}

#[test]
fn what_runs_where_its_placement_forbids_it_now_is_handed_over() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    fleet.agent_is("placement = \"b\"");
    a.signal(Signal::HUP);
    a.until_said("a is placed on other nodes now; it is handed over");
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}
