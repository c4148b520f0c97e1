//! What a gateway under supervision held ends with its attempt, though one shim serves all attempts.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, Supervisor, signal};

/// The gateway of the guide: it asks what was cut off, begins a turn, and waits in its first attempt.
const GATEWAY: &str = "relight session recover --policy resume_pending --json >>found\n\
    relight session begin tg:1 --id c1 >>turns; echo \"$? $RELIGHT_ATTEMPT_NUMBER\" >>codes\n\
    [ \"$RELIGHT_RESUMED\" = 1 ] || { echo $$ >>births; sleep 300; }\n\
    relight session end tg:1 --generation $(tail -n1 turns) && echo ended >>ends";

/// Kills or restarts the first attempt by `end`; the second one must find the turn and run it again.
fn assert_next_attempt_finds_the_turn(ground: &Ground, end: impl FnOnce(u32)) {
    end(ground.births(1)[0]);
    ground.until_lines("ends", 1);
    assert_eq!(ground.lines("codes"), ["0 1", "0 2"]);
    assert_eq!(ground.lines("turns"), ["1", "2"]);
    let found: Vec<Value> = serde_json::Deserializer::from_str(&ground.read("found"))
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let keys = |found: &Value| {
        let items = found
            .as_array()
            .or_else(|| found["items"].as_array())
            .unwrap()
            .clone();
        items
            .iter()
            .map(|item| item["key"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found.iter().map(keys).collect::<Vec<_>>(),
        [vec![], vec![json!("tg:1")]]
    );
    assert_eq!(ground.json(&["session", "show", "tg:1"])["state"], "idle");
}

fn up(ground: &Ground) -> Supervisor {
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nrestart = \"on-failure\"\n");
    ground.up(&[])
}

#[test]
fn a_killed_gateway_under_run_finds_its_turn() {
    let ground = Ground::with_agent(GATEWAY);
    let run = ground.run(&[]);
    assert_next_attempt_finds_the_turn(&ground, |pid| signal(pid, Signal::KILL));
    assert_eq!(run.end().code, 0);
}

#[test]
fn a_killed_gateway_under_up_finds_its_turn() {
    let ground = Ground::with_agent(GATEWAY);
    let _daemon = up(&ground);
    assert_next_attempt_finds_the_turn(&ground, |pid| signal(pid, Signal::KILL));
}

#[test]
fn a_restarted_gateway_finds_its_turn() {
    let ground = Ground::with_agent(GATEWAY);
    let _daemon = up(&ground);
    assert_next_attempt_finds_the_turn(&ground, |_| {
        assert_eq!(ground.call(&["restart", "a"]).code, 0);
    });
}

#[test]
fn a_gateway_that_was_adopted_and_killed_finds_its_turn() {
    let ground = Ground::with_agent(GATEWAY);
    let daemon = up(&ground);
    ground.births(1);
    daemon.kill();
    assert_eq!(
        ground
            .call(&["session", "begin", "tg:1", "--id", "other"])
            .code,
        75,
        "it lives"
    );
    let daemon = ground.up(&[]);
    daemon.until_said("lives and is adopted");
    assert_next_attempt_finds_the_turn(&ground, |pid| signal(pid, Signal::KILL));
}

/// Its shim was killed, and the attempt lives on without it: what it holds stays its own.
#[test]
fn a_turn_of_an_attempt_that_lost_its_shim_is_not_cut_off() {
    let ground = Ground::with_agent(&format!("relight task start t || exit 1\n{GATEWAY}"));
    let run = ground.run(&[]);
    let pid = ground.births(1)[0];
    signal(ground.shim("a"), Signal::KILL);
    run.until_said("without");
    assert_eq!(ground.json(&["session", "recover"])["items"], json!([]));
    assert_eq!(
        ground
            .call(&["session", "begin", "tg:1", "--id", "other"])
            .code,
        75
    );
    assert_eq!(ground.call(&["task", "start", "t"]).code, 75);
    assert_next_attempt_finds_the_turn(&ground, |_| signal(pid, Signal::KILL));
}
