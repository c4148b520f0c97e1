//! Any node answers for the whole fleet: what one of them has is started, stopped and read through
//! another.

use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{Fleet, LEASE, Meet};
use crate::ground::{Supervisor, is_alive, now, until};
use crate::relight::Ran;
use crate::server::Cluster;

/// What `agent.wish` told, as seen from a node.
fn wishes(fleet: &Fleet, node: &str) -> Vec<String> {
    let ran = fleet.call(
        node,
        &["events", "--kind", "agent.wish", "-n", "100", "--json"],
    );
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
        json!({
            "agent": "a", "previous_state": "running", "state": "stopped",
            "task_interrupted": null, "task_cancelled": null,
        })
    );
    assert!(!is_alive(pid), "it is answered once its tree is gone");
    let again = fleet.json("b", &["stop", "a"]);
    assert_eq!(
        (&again["previous_state"], &again["state"]),
        (&json!("stopped"), &json!("stopped"))
    );
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
    any_node_will_do(&Fleet::new(Meet::InOneFile, ""));
}

#[test]
fn any_node_starts_and_stops_what_another_has_on_postgresql() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let fleet = Fleet::new(Meet::in_a_schema_of(server), "");
    any_node_will_do(&fleet);
    let ran = fleet.call("b", &["doctor"]);
    let compares = |word: &str| {
        ran.stdout
            .contains(&format!("{word} this machine's (within"))
    };
    assert!(
        ["behind", "level with", "ahead of"]
            .into_iter()
            .any(compares),
        "{ran:?}"
    );
}

#[test]
fn a_command_without_a_daemon_asks_the_node_as_well() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let _a = fleet.up("a");
    fleet.until_lives("a", 1);
    let stopped = fleet.json("nowhere", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(
        wishes(&fleet, "a"),
        ["stop asked by a command", "stop answered by a command"]
    );
}

#[test]
fn what_is_asked_of_a_node_that_goes_is_done_by_its_successor_once() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.freeze();
    let stopped = fleet.json("b", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    a.signal(Signal::CONT);
    a.until_said("the lease of this node ran out");
    until("it has joined anew", || {
        (fleet.state_of("b", "a") == "live").then_some(())
    });
    assert_eq!(
        fleet.call("a", &["start", "a"]).code,
        0,
        "asked through the one that was frozen"
    );
    let agent = fleet.agent("b");
    assert_eq!(
        (&agent["state"], &agent["node"]),
        (&json!("running"), &json!("b"))
    );
    fleet.ground.assert_never_doubled();
}

#[test]
fn what_only_a_node_that_is_gone_may_run_is_stopped_all_the_same() {
    let fleet = Fleet::new(Meet::InOneFile, "placement = \"a\"");
    let a = fleet.up("a");
    fleet.until_placed("a", 1);
    let _b = fleet.up("b");
    a.kill();
    let stopped = fleet.json("b", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let start = fleet.call("b", &["start", "a"]);
    assert_eq!(start.code, 69, "{start:?}");
    assert!(
        start.stderr.contains("nobody supervises agent a just now"),
        "{start:?}"
    );
    let a = fleet.up("a");
    a.until_said("is up with ");
    until("a has it", || {
        (fleet.agent("b")["node"] == "a").then_some(())
    });
    assert_eq!(
        fleet.agent("b")["state"],
        "stopped",
        "nothing brings it back but a person"
    );
    assert_eq!(fleet.ground.lines("places"), ["a"]);
}

/// Who took the agent up, oldest first.
fn takers(fleet: &Fleet) -> Vec<serde_json::Value> {
    let ran = fleet.call(
        "nowhere",
        &["events", "--kind", "agent.taken", "-n", "100", "--json"],
    );
    let told = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    ran.stdout
        .lines()
        .map(|line| told(line)["detail"]["holder"].clone())
        .collect()
}

#[test]
fn a_machine_that_is_no_node_stops_an_agent_of_a_dead_fleet_and_holds_it_by_the_clock() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let fleet = Fleet::new(Meet::in_a_schema_of(server), "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    a.kill();
    until("its shim ends it", || (!is_alive(pid)).then_some(()));
    until("a is gone", || {
        (fleet.state_of("nowhere", "a") == "gone").then_some(())
    });
    let stopped = fleet.json("nowhere", &["stop", "a"]);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let takers = takers(&fleet);
    let [node, command] = takers.as_slice() else {
        panic!("{takers:?}")
    };
    assert_eq!(
        (&node["kind"], &command["kind"]),
        (&json!("process"), &json!("time"))
    );
}

/// Says where it is, and a secret; lives until it is told to end.
const TALKS: &str = "echo \"hello from $RELIGHT_NODE\"\necho password=hunter2hunter2\n\
    trap 'exit 0' TERM\nwhile :; do sleep 0.02; done";

/// A node that others reach over HTTP.
fn up_with_http(fleet: &Fleet, node: &str) -> Supervisor {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let config = fleet.ground.read("relight.toml");
    let config = config.replace("[node]", &format!("[node]\naddress = \"http://{address}\""));
    let file = format!("{node}.toml");
    std::fs::write(fleet.ground.work(&file), config).unwrap();
    let words = [
        "up", "--node", node, "--config", &file, "--listen", &address,
    ];
    let daemon = fleet.start(node, &words);
    daemon.until_said("is up with ");
    daemon
}

fn until_logged(fleet: &Fleet, asked: &str, line: &str) -> Ran {
    until(&format!("{line} in the log"), || {
        let ran = fleet.call(asked, &["logs", "a"]);
        ran.stdout.contains(line).then_some(ran)
    })
}

#[test]
fn what_an_agent_wrote_is_read_through_any_node() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    fleet.ground.script("agent", TALKS);
    let a = up_with_http(&fleet, "a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let ran = until_logged(&fleet, "b", "hello from a");
    assert!(!ran.stdout.contains("hunter2"), "{ran:?}");
    assert!(ran.stderr.contains("from node a"), "{ran:?}");
    let answer = fleet.get("b", "/api/agents/a/logs?lines=1");
    assert_eq!(
        (&answer["node"], &answer["note"]),
        (&json!("a"), &json!(null)),
        "{answer}"
    );
    assert_eq!(
        (
            answer["lines"].as_array().unwrap().len(),
            &answer["truncated"]
        ),
        (1, &json!(true))
    );
    let follows = fleet.call("b", &["logs", "a", "-f"]);
    assert_eq!(follows.code, 1, "{follows:?}");
    assert!(
        follows.stderr.contains("is followed there alone"),
        "{follows:?}"
    );
    assert_eq!(fleet.call("b", &["stop", "a"]).code, 0);
    a.kill();
    // The agent is b's from now on, but what it wrote is where it ran.
    until("a is gone", || {
        (fleet.state_of("b", "a") == "gone").then_some(())
    });
    let ran = fleet.call("b", &["logs", "a"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("hello from a") && !ran.stdout.contains("hunter2"),
        "{ran:?}"
    );
    assert!(
        ran.stderr
            .contains("on node a, which is gone; these are the last lines"),
        "{ran:?}"
    );
    let answer = fleet.get("b", "/api/agents/a/logs");
    assert!(
        answer["note"].as_str().unwrap().contains("which is gone"),
        "{answer}"
    );
    let death = fleet.json("b", &["deaths", "a"])["items"][0].clone();
    assert_eq!(death["node"], "a", "{death}");
}

#[test]
fn a_node_without_an_address_is_named() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    fleet.ground.script("agent", TALKS);
    let _a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let ran = fleet.call("b", &["logs", "a"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    let text = "on node a, which has no address in its [node] section; the store has nothing of it";
    assert!(ran.stderr.contains(text), "{ran:?}");
}

#[test]
fn only_a_ticket_of_the_fleet_opens_a_log_and_nothing_else() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    fleet.ground.script("agent", TALKS);
    let a = up_with_http(&fleet, "a");
    fleet.until_lives("a", 1);
    let said = a.said();
    let url = said
        .split("serving ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let status = |path: &str, authorization: &str| {
        let request = ureq::get(format!("{}{path}", url.trim_end_matches('/')));
        let request = request.config().http_status_as_error(false).build();
        request
            .header("authorization", authorization)
            .call()
            .unwrap()
            .status()
            .as_u16()
    };
    let forged = format!("Relight-Node {}.{}", 1, "0".repeat(64));
    assert_eq!(status("/api/agents/a/logs", &forged), 401);
    assert_eq!(status("/api/agents", &forged), 401);
    assert_eq!(status("/api/health", &forged), 200, "that needs no right");
}

#[test]
fn a_fleet_is_counted_and_looked_at() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    assert_eq!(fleet.get("b", "/api/stats")["nodes"], json!({"live": 2}));
    a.kill();
    until("a is gone", || {
        (fleet.get("b", "/api/stats")["nodes"] == json!({"gone": 1, "live": 1})).then_some(())
    });
    let ran = fleet.call("b", &["doctor"]);
    assert!(ran.stdout.contains("1 live, 1 gone (a)"), "{ran:?}");
    assert!(
        ran.stdout
            .contains("6s: what a dead node had goes on elsewhere within 7s"),
        "{ran:?}"
    );
}

/// What a node of a later version makes of the store.
fn upgrade(fleet: &Fleet) {
    let file = fleet.ground.stage.folder.path().join("shared/relight.db");
    let store = rusqlite::Connection::open(file).unwrap();
    store.pragma_update(None, "user_version", 999).unwrap();
}

#[test]
fn an_old_node_beside_a_newer_store_goes_on_and_a_new_start_of_it_is_told() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let mut a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    upgrade(&fleet);
    let told = fleet.begin("b", &[]).end();
    assert_eq!(told.code, 65, "{told:?}");
    assert!(
        told.stderr
            .contains("has schema 999, this version knows up to"),
        "{told:?}"
    );
    let begun = now();
    until("a whole lease", || (begun.elapsed() > LEASE).then_some(()));
    assert!(a.is_alive() && is_alive(pid), "{}", a.said());
}

#[test]
fn a_sign_of_life_for_an_agent_of_another_node_is_refused_and_says_why() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let _a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let beat = |node| fleet.send(node, "POST", "/api/agents/a/heartbeat");
    assert_eq!(beat("a").status, 200);
    let elsewhere = beat("b");
    assert_eq!(elsewhere.status, 409, "{elsewhere:?}");
    assert_eq!(elsewhere.body["error"]["message"], "agent a is on node a");
    let ran = fleet.call("b", &["beat", "a"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("beats on that machine"), "{ran:?}");
    let removed = fleet.send("b", "DELETE", "/api/agents/a");
    assert_eq!(removed.status, 409, "{removed:?}");
    assert_eq!(
        removed.body["error"]["message"],
        "agent a is supervised on node a"
    );
}

#[test]
fn the_brief_of_an_agent_that_was_moved_says_where_the_work_was() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let script = "cp \"$RELIGHT_BRIEF_FILE\" brief-$RELIGHT_ATTEMPT_NUMBER 2>/dev/null\n\
                  trap 'exit 0' TERM\nwhile :; do sleep 0.02; done";
    fleet.ground.script("agent", script);
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let b = fleet.up("b");
    a.kill();
    fleet.until_lives("b", 2);
    let said = |attempt: u32, text: &str| {
        let file = format!("brief-{attempt}");
        until(text, || {
            fleet.ground.read(&file).contains(text).then_some(())
        });
    };
    said(2, "node b; the work so far was on node a");
    let _a = fleet.up("a");
    b.signal(Signal::TERM);
    fleet.until_lives("a", 3);
    said(3, "node a; the work so far was on node b");
}
