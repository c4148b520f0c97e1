//! `[budget]`: what all agents of a store may spend together.

use rustix::process::Signal;

use crate::ground::{Ground, is_alive, until};

/// Says what it has spent once the file `go` is there, and then works on.
const SPENDER: &str = r#"echo $$ >>births
until [ -e go ]; do sleep 0.05; done
rm go
echo '{"type": "result", "subtype": "x", "is_error": false, "session_id": "s", "total_cost_usd": 1.5}'
exec sleep 300"#;

/// `a` spends; `b` only runs.
fn config(budget: &str) -> String {
    let agent = |name: &str, command: &str, keys: &str| {
        format!("[[agent]]\nname = \"{name}\"\ncommand = [{command}]\n{keys}grace = \"2s\"\n")
    };
    let spender = agent("a", "\"./agent\"", "preset = \"claude-code\"\n");
    let other = agent("b", "\"sleep\", \"300\"", "");
    format!("[budget]\n{budget}\n{spender}{other}")
}

fn alerts(ground: &Ground) -> Vec<String> {
    let alerts = ground.events("alert");
    let of_store = alerts
        .iter()
        .filter(|alert| alert["detail"]["subject"] == "store");
    of_store
        .map(|alert| alert["detail"]["text"].to_string())
        .collect()
}

#[test]
fn a_spent_budget_suspends_every_agent_until_a_person_or_a_higher_budget_lets_them_continue() {
    let ground = Ground::with_agent(SPENDER);
    ground.config(&config("spend_max = \"1.00\""));
    let daemon = ground.up(&[]);
    let pids = [ground.until_runs("a", 1), ground.until_runs("b", 1)];
    std::fs::write(ground.work("go"), "").unwrap();
    for (name, pid) in ["a", "b"].into_iter().zip(pids) {
        let agent = ground.until_state(name, "suspended");
        assert!(!is_alive(pid), "{agent}");
        let detail = agent["detail"].as_str().unwrap();
        assert!(
            detail.contains("the budget of the store is spent; relight start"),
            "{detail}"
        );
        assert_eq!(agent["restarts_total"], 0, "nothing is charged: {agent}");
        assert_eq!(ground.causes(name), ["stopped"]);
    }
    let alerts_once = alerts(&ground);
    assert_eq!(alerts_once.len(), 1, "{alerts_once:?}");
    let why = "the agents of this store have spent 1.5 within 1d ([budget] spend_max is 1)";
    assert!(alerts_once[0].contains(why), "{alerts_once:?}");
    let status = ground.call(&["status"]);
    assert_eq!(status.code, 1, "{status:?}");
    for words in [why, "relight start NAME", "[budget] in relight.toml"] {
        assert!(status.stdout.contains(words), "{words}: {status:?}");
    }

    // The next daemon starts nothing either.
    daemon.signal(Signal::TERM);
    daemon.end();
    let daemon = ground.up(&[]);
    ground.until_state("b", "suspended");
    assert_eq!(ground.agent("b")["attempt"], 1);

    // A person lets one continue.
    assert_eq!(ground.call(&["start", "b"]).code, 0);
    ground.until_runs("b", 2);
    assert_eq!(ground.state("a"), "suspended");
    ground.config(&config("spend_max = \"5.00\""));
    daemon.signal(Signal::HUP);
    ground.until_runs("a", 2);
    assert_eq!(ground.call(&["status", "-q"]).code, 0);
    assert_eq!(alerts(&ground).len(), 1);
}

#[test]
fn what_is_older_than_the_period_no_longer_counts() {
    let ground = Ground::with_agent(SPENDER);
    ground.config(&config("spend_max = \"1.00\"\nperiod = \"4s\""));
    std::fs::write(ground.work("go"), "").unwrap();
    let _daemon = ground.up(&[]);
    ground.until_agent("b", |agent| {
        agent["state"] == "suspended" || agent["attempt"] == 2
    });
    let second = until("it runs again by itself", || {
        let agent = ground.agent("b");
        (agent["attempt"] == 2 && agent["state"] == "running").then_some(agent)
    });
    assert_eq!(second["restarts_total"], 0, "{second}");
}

/// Several turns in one process: the success of one is not the end of its work.
#[test]
fn an_agent_that_works_on_after_a_success_is_suspended_with_the_others_and_continues() {
    let ground = Ground::with_agent(
        "echo '{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": false, \"total_cost_usd\": 1.5}'\n\
         echo '{\"type\": \"system\", \"subtype\": \"init\", \"session_id\": \"s\"}'\n\
         echo $$ >>births\nexec sleep 300",
    );
    ground.config(&config("spend_max = \"1.00\""));
    let _daemon = ground.up(&[]);
    ground.until_agent("a", |agent| !agent["last_death"].is_null());
    assert_eq!(ground.state("a"), "suspended");
    assert_eq!(ground.causes("a"), ["stopped"]);
    let status = ground.call(&["status"]);
    assert_eq!(status.code, 1, "{status:?}");
    assert!(
        status.stdout.contains("[budget] spend_max is 1"),
        "{status:?}"
    );
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    ground.until_runs("a", 2);
}
