//! `relight ps` and `relight deaths`, and who holds a task inside an agent, from outside.

use crate::agent_store;
use crate::relight;

use agent_store::{Told, alive, dead};
use relight::Stage;
use relight_core::agent::change::AgentChange;
use relight_core::agent::death::HowEnded;
use relight_core::agent::{AgentPlan, AgentState, Pause, StopReason, Stopper, Takes};
use relight_core::restart_budget::{self, RestartPolicy, Tally};
use relight_core::time::{Span, Time};
use relight_runtime::os::clock;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn only_agent(stage: &Stage) -> Value {
    let ran = stage.run(&["ps", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let agents = json(&ran.stdout)["items"].clone();
    assert_eq!(agents.as_array().unwrap().len(), 1);
    agents[0].clone()
}

#[test]
fn without_agents_ps_says_what_to_type() {
    let stage = Stage::new();
    let ran = stage.run(&["ps"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "no agents; relight run -- CMD makes the first\n")
    );
    let answer = json(&stage.run(&["ps", "--json"]).stdout);
    assert_eq!(
        answer,
        serde_json::json!({"items": [], "next": null, "draining_since": null})
    );
    let ran = stage.run(&["ps", "nobody"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("there is no agent nobody"), "{ran:?}");
}

#[test]
fn each_state_is_told_in_words() {
    let stage = Stage::new();
    let later = clock::now().plus(Span::from_secs(3 * 86_400 + 1_800));
    for (name, state) in [
        ("a", AgentState::Created),
        ("b", AgentState::Crashed { again_at: None }),
        (
            "c",
            AgentState::Crashed {
                again_at: Some(later),
            },
        ),
        (
            "d",
            AgentState::Suspended {
                why: Pause::Deferred,
                until: None,
            },
        ),
        (
            "e",
            AgentState::Stopped {
                by: Stopper::Person,
            },
        ),
        (
            "f",
            AgentState::Stopped {
                by: Stopper::Shutdown,
            },
        ),
        (
            "g",
            AgentState::Stopped {
                by: Stopper::Itself,
            },
        ),
        (
            "h",
            AgentState::Terminated {
                why: "recovered 3 times".to_owned(),
            },
        ),
    ] {
        Told::of(&stage, name).held_by(alive()).is(state);
    }
    let ran = stage.run(&["ps", "--json"]);
    let answer = json(&ran.stdout);
    let told: Vec<&str> = answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["detail"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    created
    crashed
    crashed, again in 3d 29m
    suspended: it said later
    stopped by a person
    stopped with its supervisor
    stopped: finished
    terminated: recovered 3 times; relight deaths h, then relight start h
    ");
    let ran = stage.run(&["ps", "--state", "terminated", "--state", "created"]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "a header, two agents and a remedy: {ran:?}");
    assert!(lines[2].starts_with("h      terminated  "), "{ran:?}");
    assert_eq!(
        lines[3],
        "h: terminated: recovered 3 times; relight deaths h, then relight start h"
    );
    assert_eq!(stage.run(&["ps", "--state", "dead"]).code, 2);
}

#[test]
fn a_supervised_agent_runs() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(alive())
        .runs(1, alive(), (1, 0));
    let agent = only_agent(&stage);
    assert_eq!(agent["truth"], "as_recorded");
    assert_eq!(agent["pid"], std::process::id());
    assert_eq!(agent["supervisor"]["alive"], true);
    let pid = std::process::id();
    let table = stage.run(&["ps"]).stdout;
    assert!(table.contains(&format!("  {pid}  ")), "{table}");
    let table = stage.run(&["ps", "-v"]).stdout;
    assert!(table.contains(&format!("pid {pid}")), "{table}");
    let facts = stage.run(&["ps", "writer"]).stdout;
    assert!(facts.contains("command     ./writer.sh"), "{facts}");
}

#[test]
fn an_agent_that_outlived_its_supervisor_is_orphaned() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(dead())
        .runs(1, alive(), (1, 0));
    assert_eq!(only_agent(&stage)["truth"], "orphaned");
    let shown = stage.run(&["ps"]).stdout;
    assert!(shown.contains("writer  orphaned"), "{shown}");
    let remedy = "; alive without a supervisor; to adopt it: relight up -d";
    assert!(shown.contains(remedy), "{shown}");
    let status = stage.run(&["status"]).stdout;
    let need = format!("{remedy}\n  try: relight up -d\n");
    assert!(status.contains(&need), "{status}");
    assert!(stage.run(&["ps", "-v"]).stdout.contains("none: orphaned"));
}

#[test]
fn a_task_whose_skill_no_agent_has_needs_a_person() {
    let stage = Stage::new();
    let skilled = AgentPlan {
        skills: vec!["read".to_owned()],
        ..AgentPlan::default()
    };
    stage.run(&["task", "add", "odd", "--skill", "reed", "--skill", "read"]);
    assert_eq!(stage.run(&["status"]).code, 0, "any worker may have it");
    Told::of(&stage, "reader").commit(vec![AgentChange::Planned(Box::new(skilled))]);
    let why = "no agent has the skill reed";
    for words in [&["status"][..], &["task", "show", "odd"], &["doctor"]] {
        let shown = stage.run(words);
        assert!(shown.stdout.contains(why), "{shown:?}");
    }
    let needs = json(&stage.run(&["status", "--json"]).stdout);
    assert_eq!(needs["needs_me"][0]["kind"], "no_agent");
    assert_eq!(needs["needs_me_total"], 1);
    stage.run(&["task", "cancel", "odd"]);
    stage.run(&["task", "add", "even", "--skill", "read"]);
    assert_eq!(stage.run(&["status"]).code, 0);
}

#[test]
fn an_agent_that_died_with_its_supervisor_is_not_called_running() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(dead())
        .runs(1, dead(), (1, 0));
    let agent = only_agent(&stage);
    assert_eq!(agent["truth"], "died_unnoticed");
    assert_eq!(agent["pid"], Value::Null);
    assert_eq!(
        agent["detail"],
        "died unnoticed; to continue: relight up, or cd /work && relight run --name writer -- ./writer.sh"
    );
    let status = stage.run(&["status"]);
    assert!(status.stdout.contains("agents    1 died\n"), "{status:?}");
    let counts = &json(&stage.run(&["status", "--json"]).stdout)["agents"];
    assert_eq!(counts.to_string(), r#"{"died":1}"#);
}

#[test]
fn a_recovery_that_nobody_will_make_is_told_so() {
    let stage = Stage::new();
    let again_at = Some(clock::now());
    Told::of(&stage, "writer")
        .held_by(dead())
        .is(AgentState::Crashed { again_at });
    assert_eq!(
        only_agent(&stage)["detail"],
        "crashed, again now; nothing supervises it: relight up, or cd /work && relight run --name writer \
         -- ./writer.sh"
    );
}

#[test]
fn a_held_back_agent_says_what_brings_it_back() {
    let held_back = AgentState::Suspended {
        why: Pause::HeldBack,
        until: None,
    };
    for (holder, hint) in [
        (alive(), "relight start writer"),
        (
            dead(),
            "nothing supervises it: relight up, or cd /work && relight run --name writer -- ./writer.sh",
        ),
    ] {
        let stage = Stage::new();
        Told::of(&stage, "writer")
            .held_by(holder)
            .is(held_back.clone());
        let told = format!("suspended: it waits until a person starts it; {hint}");
        assert_eq!(only_agent(&stage)["detail"], told);
    }
}

#[test]
fn an_attempt_that_is_being_ended_says_why() {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    told.held_by(alive()).runs(1, alive(), (1, 0));
    let (attempt, since) = (Told::tag(1), clock::now());
    told.is(AgentState::Running {
        attempt,
        since,
        ending: Some(StopReason::Hung),
    });
    let detail = only_agent(&stage)["detail"].clone();
    assert!(
        detail.as_str().unwrap().ends_with(" · hung, being stopped"),
        "{detail}"
    );
}

#[test]
fn deaths_are_listed_and_the_newest_told_in_full() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .runs(1, dead(), (1, 0))
        .dies(1, "first\n")
        .runs(2, dead(), (1, 6))
        .dies(2, "second\u{1b}[2J\n");
    insta::assert_snapshot!(stage.run(&["deaths", "writer"]).stdout, @r"
    time                  agent   attempt  cause   how     lived  note
    1970-01-01T00:00:01Z  writer  2        failed  exit 3  2m 5s  the disk \u{1b}[31mwas full
    1970-01-01T00:00:01Z  writer  1        failed  exit 3  2m 5s  the disk \u{1b}[31mwas full

    the newest:

    agent      writer, attempt 2
    died       1970-01-01T00:00:01Z after 2m 5s
    cause      failed, exit 3
    note       the disk \u{1b}[31mwas full
    task       report-7
    last step  fetch
    done       fetch
    in doubt   send
    next       send
    memory     2 MiB at most
    cpu        1s
    leftovers  2

    last output:
    second\u{1b}[2J
    ");
    let one = stage.run(&["deaths", "writer", "--attempt", "1", "--json"]);
    let one = json(&one.stdout);
    assert_eq!(one["items"][0]["post_mortem"]["output"][0], "first");
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert_eq!(stage.run(&["deaths", "-n", "1"]).stdout.lines().count(), 2);
}

#[test]
fn the_table_of_deaths_tells_of_an_end_that_nobody_saw() {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    told.runs(1, dead(), (1, 0))
        .ends(1, HowEnded::Unknown, "", Time::from_ms(1_000));
    let table = stage.run(&["deaths", "-n", "1"]).stdout;
    assert!(table.contains("  at least 2m 5s  "), "{table}");
}

#[test]
fn deaths_of_all_agents_are_in_the_order_in_which_they_died() {
    let stage = Stage::new();
    let (early, late) = (Told::of(&stage, "early"), Told::of(&stage, "late"));
    // The one that began first lives longest.
    late.runs(1, dead(), (1, 0));
    early
        .runs(2, dead(), (1, 0))
        .dies_at(2, "", Time::from_ms(1_000));
    early
        .runs(3, dead(), (1, 0))
        .dies_at(3, "", Time::from_ms(2_000));
    late.dies_at(1, "", Time::from_ms(3_000));
    let told = |count: &str| -> Vec<(String, u64)> {
        let answer = json(&stage.run(&["deaths", "-n", count, "--json"]).stdout);
        let one = |death: &Value| {
            (
                death["agent"].as_str().unwrap().to_owned(),
                death["attempt"].as_u64().unwrap(),
            )
        };
        answer["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(one)
            .collect()
    };
    let (early, late) = ("early".to_owned(), "late".to_owned());
    assert_eq!(told("1"), [(late.clone(), 1)]);
    assert_eq!(told("9"), [(late, 1), (early.clone(), 3), (early, 2)]);
}

#[test]
fn the_doctor_names_agents_that_need_somebody() {
    let stage = Stage::new();
    let gone = AgentState::Terminated {
        why: "recovered 3 times".to_owned(),
    };
    let held_back = AgentState::Suspended {
        why: Pause::HeldBack,
        until: None,
    };
    Told::of(&stage, "spent").held_by(alive()).is(gone);
    Told::of(&stage, "dead")
        .held_by(dead())
        .runs(1, dead(), (1, 0));
    Told::of(&stage, "orphan")
        .held_by(dead())
        .runs(2, alive(), (1, 0));
    Told::of(&stage, "waiter").held_by(alive()).is(held_back);
    Told::of(&stage, "fine")
        .held_by(alive())
        .runs(3, alive(), (1, 0));
    let ran = stage.run(&["doctor"]);
    let about = |line: &&str| line.starts_with("warning  agents ");
    let lines: Vec<&str> = ran.stdout.lines().filter(about).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    warning  agents      1 terminated: recovery is used up (spent); try: relight deaths spent, then relight start spent
    warning  agents      1 died unnoticed (dead); try: relight recover
    warning  agents      1 orphaned: alive without a supervisor (orphan); try: its relight up or relight run adopts it (relight start orphan says which)
    warning  agents      1 held back (waiter); try: relight start waiter
    ");
}

#[test]
fn deaths_that_are_not_there_are_a_no() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["deaths"]).code, 0);
    assert_eq!(stage.run(&["deaths", "nobody"]).code, 1);
    Told::of(&stage, "writer").runs(1, alive(), (1, 0));
    assert_eq!(
        stage.run(&["deaths", "writer"]).stdout,
        "no attempt of agent writer has ended\n"
    );
    assert_eq!(stage.run(&["deaths", "writer", "--attempt", "1"]).code, 1);
    assert_eq!(stage.run(&["deaths", "--attempt", "1"]).code, 2);
}

/// The holder of a task that was started so.
fn holder(stage: &Stage, tag: &str, flags: &[&str]) -> Value {
    let words = [&["task", "start", "t", "--json"], flags].concat();
    let child = stage
        .command(&words)
        .env("RELIGHT_ATTEMPT", tag)
        .spawn()
        .unwrap();
    let ran = relight::finish(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    json(&stage.run(&["task", "show", "t", "--json"]).stdout)["holder"].clone()
}

#[test]
fn inside_an_agent_a_task_is_held_by_the_attempt() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(alive())
        .runs(1, alive(), (1, 0));
    let holder = holder(&stage, Told::tag(1).as_str(), &[]);
    assert_eq!(holder["kind"], "attempt");
    assert_eq!(holder["attempt"], Told::tag(1).as_str());
    assert_eq!(holder["left_ms"], Value::Null);
}

#[test]
fn a_lease_by_time_inside_an_agent_ends_with_the_attempt_or_earlier() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(alive())
        .runs(1, alive(), (1, 0));
    let holder = holder(&stage, Told::tag(1).as_str(), &["--lease", "5m"]);
    assert_eq!(holder["kind"], "attempt");
    assert!(
        holder["left_ms"]
            .as_u64()
            .is_some_and(|left| left <= 300_000),
        "{holder}"
    );
}

#[test]
fn an_attempt_that_nobody_knows_or_that_ended_holds_nothing() {
    let stage = Stage::new();
    assert_eq!(holder(&stage, "other.1.00000000000b", &[])["kind"], "time");
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .runs(1, alive(), (1, 0))
        .dies(1, "");
    assert_eq!(holder(&stage, Told::tag(1).as_str(), &[])["kind"], "time");
}

#[test]
fn a_task_of_an_agent_is_shown_with_its_step() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(alive())
        .runs(1, alive(), (1, 0));
    holder(
        &stage,
        Told::tag(1).as_str(),
        &["--step", "fetch", "--step", "send"],
    );
    let agent = only_agent(&stage);
    assert_eq!(
        (agent["task"].as_str(), agent["step"].as_str()),
        (Some("t"), Some("fetch"))
    );
}

#[test]
fn since_is_when_the_state_last_changed_and_not_the_last_write() {
    let stage = Stage::new();
    let why = "5 deaths in a row".to_owned();
    let agent = Told::of(&stage, "writer");
    agent.is(AgentState::Terminated { why });
    let before = only_agent(&stage);
    agent.commit(vec![AgentChange::Session(Some("s".to_owned()))]);
    let after = only_agent(&stage);
    assert_ne!(after["updated_at"], before["updated_at"]);
    assert_eq!(after["since"], before["since"]);
    agent.is(AgentState::Created);
    assert_ne!(only_agent(&stage)["since"], before["since"]);
}

#[test]
fn idle_agents_are_listed_by_their_state() {
    let stage = Stage::new();
    let started = AgentPlan {
        takes: Takes::Start,
        ..AgentPlan::default()
    };
    let stopped = AgentState::Stopped {
        by: Stopper::Itself,
    };
    Told::of(&stage, "done").is(stopped.clone());
    let idle = Told::of(&stage, "waits");
    idle.commit(vec![AgentChange::Planned(Box::new(started))]);
    idle.is(stopped);
    let listed = |state: &str| {
        let answer = json(&stage.run(&["ps", "--state", state, "--json"]).stdout);
        let items = answer["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("idle"), ["waits"]);
    assert_eq!(listed("stopped"), ["done", "waits"]);
    assert_eq!(stage.run(&["ps", "--state", "busy"]).code, 2);
}

#[test]
fn a_restart_that_is_only_due_is_not_counted_yet() {
    let stage = Stage::new();
    let later = clock::now().plus(Span::from_secs(60));
    let told = Told::of(&stage, "a");
    let (tally, _) = restart_budget::next(&RestartPolicy::default(), Tally::default(), later, 0.0);
    told.commit(vec![AgentChange::Tally(tally)]);
    told.is(AgentState::Crashed {
        again_at: Some(later),
    });
    assert!(stage.run(&["ps", "a"]).stdout.contains("restarts    0 / 0"));
    told.is(AgentState::Created);
    assert!(stage.run(&["ps", "a"]).stdout.contains("restarts    1 / 1"));
}

#[test]
fn columns_stay_under_their_titles_beside_a_long_name() {
    let stage = Stage::new();
    let name = "n".repeat(60);
    Told::of(&stage, &name);
    let table = stage.run(&["ps"]).stdout;
    let (title, row) = table.split_once('\n').unwrap();
    assert_eq!(title.find("state"), row.find("created"), "{table}");
}
