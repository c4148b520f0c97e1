//! Supervisors that were cut off between two lines: the store and the world differ, and the next one
//! puts it right.

use crate::agent_store;
use crate::ground;

use agent_store::{Told, dead};
use ground::{Ground, ONLY_ONE};
use relight_core::agent::AgentPlan;
use relight_core::agent::change::AgentChange;
use rustix::process::Signal;
use serde_json::json;

/// An agent whose first attempt was on when everything was killed, as its supervisor left it.
fn cut_off(ground: &Ground) -> Told {
    let told = Told::of(&ground.stage, "writer");
    // As `run` below says it: under another command it would be another agent.
    let folder = std::fs::canonicalize(ground.work(""))
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let plan = AgentPlan {
        command: vec!["./agent".to_owned()],
        folder,
        ..AgentPlan::default()
    };
    told.commit(vec![AgentChange::Planned(Box::new(plan))]);
    told.held_by(dead());
    told.runs(1, dead(), (1, 0))
        .commit(vec![AgentChange::Reserved(Told::tag(2))]);
    std::fs::create_dir_all(ground.home("agents/writer/log")).unwrap();
    told
}

/// What the shim of an attempt left when it ended with this code.
fn exit_record(ground: &Ground, number: u32, code: i32) {
    let record = json!({
        "tag": Told::tag(number), "number": number, "process": null, "how": {"code": code},
        "note": null, "at": "2026-01-01T00:00:00Z", "lived": 10, "memory_max_kib": null,
        "cpu_ms": null, "oom": false, "leftovers": 0, "survivors": 0,
    });
    let path = ground.home(&format!("agents/writer/exit-{}.json", number % 2));
    std::fs::write(path, format!("{record}\n")).unwrap();
}

fn run<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "run",
        "--name",
        "writer",
        "--cooldown",
        "10ms",
        "--max-attempts",
        "9",
    ];
    [&base, flags, &["--", "./agent"]].concat()
}

#[test]
fn two_deaths_that_nobody_could_record_are_both_recorded_and_the_third_attempt_is_the_only_one() {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}echo $RELIGHT_ATTEMPT_NUMBER >>numbers"));
    let _told = cut_off(&ground);
    exit_record(&ground, 1, 5);
    exit_record(&ground, 2, 6);
    let ran = ground.start(&run(&[])).end();
    assert_eq!(
        (ran.code, ground.read("numbers").as_str()),
        (0, "3\n"),
        "{ran:?}"
    );
    assert_eq!(ground.causes("writer"), ["failed", "failed", "completed"]);
    assert_eq!(ground.deaths("writer")[1]["code"], 6);
    ground.assert_never_doubled();
}

#[test]
fn what_an_attempt_said_while_nobody_read_it_counts() {
    let ground = Ground::with_agent(ONLY_ONE);
    let _told = cut_off(&ground);
    let said = "{\"type\":\"thread.started\",\"thread_id\":\"0199a213-81c0-7800-8aa1-bbab2a035a53\"}\n\
        {\"type\":\"turn.failed\",\"error\":{\"message\":\"stream disconnected\"}}\n";
    std::fs::write(ground.home("agents/writer/log/000001.log"), said).unwrap();
    exit_record(&ground, 1, 0);
    let ran = ground
        .start(&run(&["--preset", "codex", "--restart", "on-failure"]))
        .end();
    assert_eq!(ground.causes("writer")[0], "failed", "{ran:?}");
    let session = &ground.events("agent.session")[0]["detail"]["session"];
    assert_eq!(session, "0199a213-81c0-7800-8aa1-bbab2a035a53");
}

#[test]
fn a_task_that_was_let_go_of_before_the_death_was_recorded_is_still_unfinished() {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}relight task done"));
    ground.script("first", "sleep 300");
    let first = ground.start(&["run", "--name", "first", "--task", "t", "--", "./first"]);
    ground.until_runs("first", 1);
    first.signal(Signal::TERM);
    first.end();
    assert_eq!(ground.task_status("t"), "interrupted");
    let _told = cut_off(&ground);
    exit_record(&ground, 1, 0);
    let ran = ground.start(&run(&["--task", "t"])).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("writer"), ["failed", "completed"]);
    assert_eq!(ground.task_status("t"), "completed");
}

#[test]
fn recover_judges_an_end_by_the_preset_of_its_agent() {
    let ground = Ground::with_agent(ONLY_ONE);
    let told = cut_off(&ground);
    let plan = AgentPlan {
        preset: "codex".to_owned(),
        ..AgentPlan::default()
    };
    told.commit(vec![AgentChange::Planned(Box::new(plan))]);
    let said = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"stream disconnected\"}}\n";
    std::fs::write(ground.home("agents/writer/log/000001.log"), said).unwrap();
    exit_record(&ground, 1, 0);
    assert_eq!(ground.call(&["recover"]).code, 0);
    assert_eq!(ground.causes("writer"), ["failed"]);
}
