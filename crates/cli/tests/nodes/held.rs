//! What a process of a machine may hold in a store that others use: only what somebody can judge.

use std::io::Write as _;
use std::process::Stdio;

use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_runtime::EngineAccess as _;
use relight_runtime::Relight;
use serde_json::Value;

use crate::fleet::{Fleet, Meet};
use crate::ground::until;
use crate::relight::{Ran, finish};
use crate::server::Cluster;

/// Ways to hold something as this process.
fn holds(fleet: &Fleet, node: &str) -> [Ran; 4] {
    let pid = std::process::id().to_string();
    let marks =
        r#"{"i": {"session_id": "s", "started_at": "2026-01-01T00:00:00Z", "generation": 1}}"#;
    std::fs::write(fleet.ground.work("marks"), marks).unwrap();
    [
        fleet.call(node, &["session", "import", "marks", "--owner-pid", &pid]),
        fleet.call(node, &["task", "start", "t", "--owner-pid", &pid]),
        fleet.call(
            node,
            &["task", "claim", "--agent", "me", "--owner-pid", &pid],
        ),
        fleet.call(
            node,
            &["session", "begin", "k", "--id", "s", "--owner-pid", &pid],
        ),
    ]
}

fn assert_refused(fleet: &Fleet, node: &str) {
    for ran in holds(fleet, node) {
        assert_eq!(ran.code, 75, "{ran:?}");
        assert!(
            ran.stderr.contains("relight up") && ran.stderr.contains("--lease"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_machine_that_is_no_node_holds_by_time_alone() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let fleet = Fleet::new(Meet::in_a_schema_of(server), "");
    assert_eq!(fleet.call("n", &["task", "add", "q"]).code, 0);
    assert_refused(&fleet, "n");
    assert_eq!(
        fleet.json("n", &["task", "show", "q"])["status"],
        "created",
        "nothing was taken"
    );
    let timed = fleet.call("n", &["task", "start", "t", "--lease", "1m"]);
    assert_eq!(timed.code, 0, "{timed:?}");
    assert_eq!(mcp_starts(&fleet, "n", "m"), "time");
}

#[test]
fn a_process_holds_while_its_node_lives_and_not_after() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let n = fleet.up("n");
    assert_eq!(fleet.call("n", &["task", "add", "q"]).code, 0);
    for ran in holds(&fleet, "n") {
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let _other = fleet.up("o");
    n.kill();
    until("its lease has run out", || {
        (fleet.state_of("o", "n") == "gone").then_some(())
    });
    assert_eq!(fleet.call("n", &["task", "add", "r"]).code, 0);
    assert_refused(&fleet, "n");
}

#[test]
fn on_a_machine_that_is_alone_no_daemon_is_needed() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    fleet.up("n").kill();
    until("its lease has run out", || {
        (fleet.state_of("n", "n") == "gone").then_some(())
    });
    let pid = std::process::id().to_string();
    let ran = fleet.call("n", &["task", "start", "t", "--owner-pid", &pid]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_program_with_the_library_holds_by_a_lease_that_it_renews() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let Meet::At(url) = Meet::in_a_schema_of(server) else {
        unreachable!()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let held = runtime.block_on(async {
        let relight = Relight::open(&url).await.unwrap();
        let task = relight.task("t").unwrap().start().await.unwrap();
        let id = TaskId::new("t").unwrap();
        let read = relight.engine().task(&id).await.unwrap();
        drop(task);
        read.lease.held.unwrap()
    });
    assert!(matches!(held.holder, Holder::Time { .. }), "{held:?}");
    assert!(held.ttl.is_some(), "{held:?}");
}

/// What kind of holder an agent has that starts a task by MCP.
fn mcp_starts(fleet: &Fleet, node: &str, task: &str) -> String {
    let begin = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let call = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "task_start", "arguments": {"task": task}}});
    let mut command = fleet.ground.stage.command(&["mcp"]);
    let mut child = command
        .envs(fleet.variables(node))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{begin}\n{call}").unwrap();
    drop(input);
    let ran = finish(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    let held: Value = fleet.json(node, &["task", "show", task])["holder"].clone();
    held["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("{held}"))
        .to_owned()
}
