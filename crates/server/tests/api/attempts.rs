//! Attempts and deaths, a page at a time.

use relight_core::agent::SELF_REPORTING;
use relight_core::agent::change::AgentChange;
use relight_core::agent::decide::{AgentDecisionInput, AgentEvent, decide};
use relight_core::agent::{AgentPlan, StopReason};
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_store::AgentCommit;
use serde_json::Value;

use crate::ground::{Ground, block_on};

const SECOND: i64 = 1_000;

/// An agent of this name that was restarted so many times, once a second.
fn live(ground: &Ground, name: &str, lives: u64) {
    let store = ground.engine.store();
    let name = AgentName::new(name).unwrap();
    let labels = [(SELF_REPORTING.to_owned(), "true".to_owned())].into();
    let plan = AgentPlan {
        labels,
        ..AgentPlan::default()
    };
    let commit = |changes, at| AgentCommit {
        agent: name.clone(),
        guard: Guard::default(),
        at,
        changes,
    };
    let created = commit(vec![AgentChange::Created(Box::new(plan))], Time::from_ms(0));
    block_on(store.commit_agent(created)).unwrap();
    for life in 0..lives {
        let now = Time::from_ms(i64::try_from(life).unwrap() * SECOND);
        let agent = block_on(store.agent(&name)).unwrap().unwrap();
        let moment = AgentDecisionInput {
            now,
            jitter: 0.0,
            chance: life,
            task: None,
        };
        let changes = decide(&agent, AgentEvent::End(StopReason::Restart), moment).changes;
        block_on(store.commit_agent(commit(changes, now))).unwrap();
    }
}

/// All of a list, so many at a time: `agent#number`.
fn all(ground: &Ground, path: &str, limit: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = ground
            .get(&format!("{path}{sign}limit={limit}{after}"))
            .ok();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        // Of an attempt it is its own number; a death says of which attempt it is.
        let number = |item: &Value| item.get("number").unwrap_or(&item["attempt"]).clone();
        let name = |item: &Value| format!("{}#{}", item["agent"].as_str().unwrap(), number(item));
        seen.extend(items.iter().map(name));
        let Some(next) = page["next"].as_str() else {
            return seen;
        };
        after = format!("&after={next}");
    }
}

#[test]
fn pages_of_attempts_and_deaths_follow_each_other() {
    let ground = Ground::new();
    live(&ground, "a", 5);
    live(&ground, "b", 2);
    let everything = ["b#2", "b#1", "a#5", "a#4", "a#3", "a#2", "a#1"];
    for limit in [1, 2, 3, 7, 100] {
        assert_eq!(all(&ground, "/api/attempts", limit), everything, "{limit}");
    }
    assert_eq!(all(&ground, "/api/attempts?agent=a", 2), everything[2..]);
    // What ended before does not count; what lives does.
    let since = "/api/attempts?agent=a&since=1970-01-01T00:00:04Z";
    assert_eq!(all(&ground, since, 1), ["a#5", "a#4"]);
    assert_eq!(
        all(&ground, "/api/agents/a/deaths", 3),
        ["a#4", "a#3", "a#2", "a#1"]
    );
    for path in [
        "/api/attempts?after=nowhere",
        "/api/agents/a/deaths?after=7",
    ] {
        assert_eq!(ground.get(path).status, 422, "{path}");
    }
}
