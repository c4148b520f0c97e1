//! Inside an agent of a fleet on PostgreSQL: every verb works, through the node's daemon, and nothing by
//! which the store is opened is there to be found.

use std::fs;
use std::time::Duration;

use crate::fleet::{Fleet, Meet};
use crate::ground::{Ground, is_alive, until};
use crate::relight::finish;
use crate::server::Cluster;

/// In the store's URL and in the daemon's environment, and nowhere else.
const PASSWORD: &str = "the-password-of-the-fleet";

/// Says what a command answered, and what it printed in one line.
const SAY: &str = "say() { name=$1; shift; printed=$(\"$@\" 2>/dev/null); code=$?; \
                   echo \"$name | $code\" $printed >>said; }\n";
/// What an agent that speaks MCP says.
const QUESTIONS: &str = r#"
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task_start","arguments":{"task":"m"}}}
"#;
/// Long enough for a daemon to be restarted on a loaded machine.
const LEASE: Duration = Duration::from_secs(20);
/// Stays until it is told to end.
const STAY: &str = "trap 'exit 0' TERM\nwhile :; do sleep 0.02; done";

/// A fleet of which one agent does this; none, loudly, where there is no PostgreSQL.
fn fleet(script: &str, agent_end: &str) -> Option<Fleet> {
    let Meet::At(url) = Meet::in_a_schema_of(Cluster::shared()?) else {
        unreachable!()
    };
    let url = url.replace("://relight@", &format!("://relight:{PASSWORD}@"));
    Some(Fleet::with_agent(
        Meet::At(url),
        &format!("{SAY}{script}\n{STAY}"),
        LEASE,
        agent_end,
    ))
}

fn until_said(fleet: &Fleet, count: usize) -> Vec<String> {
    fleet.ground.until_lines("said", count)
}

fn task_status(fleet: &Fleet, task: &str) -> String {
    fleet.json("n", &["task", "show", task])["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn every_verb_of_an_agent_works_through_its_node() {
    let script = r#"
        eval "$(relight task start t --step a --step b --export)"
        echo "fence $RELIGHT_FENCE, next $RELIGHT_NEXT_STEP" >>said
        say run relight step run a -- sh -c 'echo a >>ran; echo out of a'
        say again relight step run a -- sh -c 'echo a >>ran; echo out of a'
        say begin relight -q step begin b
        say end relight -q step end b
        say begin relight -q step begin b
        say failing relight step run c -- sh -c 'exit 7'
        say set relight -q task set branch=main
        say other relight task add t --title other
        say late relight task set --fence 99 branch=other
        say done relight -q task done
        say none relight task show nothing
        relight -q checkpoint start --workflow w --agent me --step one --idempotency k
        say update relight -q checkpoint update --workflow w --complete one --step two
        say resume sh -c 'relight checkpoint resume --workflow w | grep -c fence'
        say complete relight -q checkpoint complete --workflow w
        say file grep -c '"status": *"done"' memory/checkpoints/w.json
        say turn relight session begin k --id s
        say end relight -q session end k --generation 1
        say old relight -q session end k --generation 0
        say claim sh -c 'relight task add q; relight task claim --agent me --json | grep -c q'
        say events sh -c 'relight events --json -n 1000 | grep -c step.done'
        say check relight check
        say run relight run -- true
        say drain relight node drain n
        say prune relight prune
        say mcp sh -c 'relight mcp <questions | grep -c fence'
    "#;
    let Some(fleet) = fleet(script, "") else {
        return;
    };
    fs::write(fleet.ground.work("questions"), QUESTIONS).unwrap();
    let _daemon = fleet.up("n");
    let said = until_said(&fleet, 26).join("\n");
    insta::assert_snapshot!(said, @r"
    fence 1, next a
    run | 0 out of a
    again | 0 out of a
    begin | 0
    end | 0
    begin | 1
    failing | 7
    set | 0
    other | 1
    late | 77
    done | 0
    none | 1
    update | 0
    resume | 0 2
    complete | 0
    file | 0 1
    turn | 0 1
    end | 0
    old | 77
    claim | 0 task q is created 1
    events | 0 4
    check | 0 OK
    run | 78
    drain | 78
    prune | 78
    mcp | 0 2
    ");
    assert_eq!(
        fleet.ground.lines("ran"),
        ["a"],
        "a finished step is not run again"
    );
    assert_eq!(task_status(&fleet, "t"), "completed");
    assert_eq!(
        task_status(&fleet, "m"),
        "in_progress",
        "its holder is the agent, not relight mcp"
    );
    assert!(
        !fleet
            .ground
            .stage
            .folder
            .path()
            .join("home-n/relight.db")
            .exists()
    );
}

#[test]
fn an_agent_that_was_killed_goes_on_after_its_last_finished_step() {
    let script = r#"
        eval "$(relight task start t --step a --step b --export)"
        say a relight step run a -- sh -c 'echo a >>ran; echo one'
        [ "$RELIGHT_ATTEMPT_NUMBER" = 1 ] && kill -9 $$
        say "next $RELIGHT_NEXT_STEP" relight step run b -- sh -c 'echo b >>ran; echo two'
        say done relight -q task done
    "#;
    let Some(fleet) = fleet(script, "") else {
        return;
    };
    let _daemon = fleet.up("n");
    assert_eq!(
        until_said(&fleet, 4),
        ["a | 0 one", "a | 0 one", "next b | 0 two", "done | 0"]
    );
    assert_eq!(fleet.ground.lines("ran"), ["a", "b"]);
    assert_eq!(task_status(&fleet, "t"), "completed");
}

#[test]
fn an_agent_that_lost_its_lease_is_refused() {
    let script = r#"
        eval "$(relight task start t --export)"
        say held relight task set a=1
        until [ -e go ]; do sleep 0.02; done
        say late relight task set a=2
    "#;
    let Some(fleet) = fleet(script, "") else {
        return;
    };
    let _daemon = fleet.up("n");
    until_said(&fleet, 1);
    assert_eq!(
        fleet.call("n", &["task", "release", "t", "--force"]).code,
        0
    );
    fs::write(fleet.ground.work("go"), "").unwrap();
    let said = until_said(&fleet, 2);
    assert!(said[1].starts_with("late | 77"), "{said:?}");
    assert_eq!(fleet.json("n", &["task", "show", "t"])["context"]["a"], "1");
}

#[test]
fn a_step_outlives_the_daemon_through_which_it_was_begun() {
    let script = r#"
        eval "$(relight task start t --step a --export)"
        say a relight step run a -- sh -c 'echo >>begun; until [ -e go ]; do sleep 0.02; done; \
            echo >>over; echo out'
        say done relight -q task done
    "#;
    let Some(fleet) = fleet(script, "") else {
        return;
    };
    let daemon = fleet.up("n");
    fleet.ground.until_lines("begun", 1);
    let pid = fleet.until_lives("n", 1);
    daemon.kill();
    fs::write(fleet.ground.work("go"), "").unwrap();
    // From here on its end is to be recorded, and nobody is there to do it.
    fleet.ground.until_lines("over", 1);
    assert!(fleet.ground.lines("said").is_empty());
    let _daemon = fleet.up("n");
    assert_eq!(until_said(&fleet, 2), ["a | 0 out", "done | 0"]);
    assert!(is_alive(pid), "the agent was adopted");
    assert_eq!(fleet.ground.lines("begun").len(), 1);
    assert_eq!(task_status(&fleet, "t"), "completed");
}

#[test]
fn no_agent_and_no_shim_is_told_how_the_store_is_opened() {
    let script = "for process in $$ $PPID; do\n\
                  cat /proc/$process/environ /proc/$process/cmdline >>seen; done\n\
                  find \"$RELIGHT_HOME\" -type f -exec cat {} + >>seen\n\
                  relight doctor >>seen 2>&1\necho >>looked";
    let Some(fleet) = fleet(script, "env_inherit = true") else {
        return;
    };
    let [home, store] = fleet.variables("n");
    let secret = ("PGPASSWORD", PASSWORD);
    let variables = [
        (home.0, home.1.as_str()),
        (store.0, store.1.as_str()),
        secret,
    ];
    let words = ["up", "--no-http", "--node", "n"];
    let daemon = fleet.ground.start_with(&words, &variables);
    fleet.ground.until_lines("looked", 1);
    let seen = fs::read(fleet.ground.work("seen")).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("RELIGHT_SOCKET="), "{seen}");
    assert!(
        seen.contains("RELIGHT_NODE_LEASE=20000ms"),
        "for how long it lives on: {seen}"
    );
    assert!(seen.contains("__shim"), "{seen}");
    assert!(
        !seen.contains(PASSWORD) && !seen.contains("PGPASSWORD"),
        "{seen}"
    );
    assert!(
        seen.contains("the store of node n"),
        "the doctor has looked: {seen}"
    );
    assert!(!seen.contains("postgres://"), "nor where it is: {seen}");
    // What is looked for is there to be found, where the documentation says so.
    let own = until("the daemon's environment", || {
        fs::read(format!("/proc/{}/environ", daemon.pid())).ok()
    });
    assert!(String::from_utf8_lossy(&own).contains(PASSWORD));
}

#[test]
fn a_command_that_tells_somebody_is_not_told_how_the_store_is_opened() {
    let Some(fleet) = fleet("", "[alert]\ncommand = [\"./told\"]") else {
        return;
    };
    fleet.ground.script("told", "env >seen");
    let mut command = fleet
        .ground
        .stage
        .command(&["alerts", "test", "--config", "relight.toml"]);
    let ran = finish(
        command
            .envs(fleet.variables("n"))
            .env("PGPASSWORD", PASSWORD)
            .spawn()
            .unwrap(),
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let seen = fleet.ground.read("seen");
    assert!(seen.contains("RELIGHT_HOME="), "{seen}");
    assert!(
        !seen.contains(PASSWORD) && !seen.contains("postgres://"),
        "{seen}"
    );
}

/// Takes as long as a daemon is waited for.
#[test]
fn an_agent_whose_daemon_stays_away_is_told_what_to_do() {
    let ground = Ground::new();
    let agent = [("RELIGHT_ATTEMPT", "a.1.0"), ("RELIGHT_NODE", "n")];
    let call = |words: &[&str], more: &[(&str, &str)]| {
        let mut command = ground.stage.command(words);
        finish(
            command
                .envs(agent)
                .envs(more.iter().copied())
                .spawn()
                .unwrap(),
        )
    };
    let away = call(
        &["task", "list"],
        &[("RELIGHT_SOCKET", "/nowhere/relight.sock")],
    );
    assert_eq!(away.code, 69, "{away:?}");
    assert!(
        away.stderr.contains("relight up on this node starts it"),
        "{away:?}"
    );
    let untold = call(&["task", "list"], &[]);
    assert_eq!(untold.code, 69, "{untold:?}");
    assert!(
        untold.stderr.contains("pass RELIGHT_SOCKET on"),
        "{untold:?}"
    );
}
