//! `relight up`: the daemon over many agents, and what survives its death.

use std::fmt::Write as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, is_alive, until};

/// An entry of the configuration for `work/agent`.
fn entry(name: &str, keys: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\"]\n{keys}\n")
}

fn with_one(script: &str, keys: &str) -> Ground {
    let ground = Ground::with_agent(script);
    ground.config(&entry("a", keys));
    ground
}

/// What a verb answered of the states before and after.
fn states(ground: &Ground, verb: &str) -> (Value, Value) {
    let answer = ground.json(&[verb, "a"]);
    (answer["previous_state"].clone(), answer["state"].clone())
}

#[test]
fn start_takes_up_the_failed_task_of_an_agent_again() {
    let ground = Ground::with_agent(
        "if [ -e mended ]; then relight task done; else relight task fail --reason broken; exit 1; fi",
    );
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\nmax_attempts = 0\n",
    );
    assert_eq!(
        ground
            .call(&["task", "add", "t", "--max-retries", "0"])
            .code,
        0
    );
    let _daemon = ground.up(&[]);
    ground.until_agent("a", |agent| {
        agent["state"] == "crashed" || agent["state"] == "terminated"
    });
    assert_eq!(ground.task_status("t"), "failed");
    std::fs::write(ground.work("mended"), "").unwrap();
    let ran = ground.call(&["start", "a"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ground.until_state("a", "stopped");
    assert_eq!(ground.task_status("t"), "completed");
}

#[test]
fn paused_it_starts_nothing_before_a_person_does() {
    let ground = with_one("echo $$ >>births; sleep 300", "");
    let _daemon = ground.up(&["--paused"]);
    ground.until_state("a", "suspended");
    assert_eq!(ground.read("births"), "");
    assert_eq!(
        states(&ground, "start"),
        (json!("suspended"), json!("running"))
    );
    ground.births(1);
}

#[test]
fn agents_that_are_kept_are_adopted_by_the_next_daemon() {
    let ground = with_one("echo $$ >>births; sleep 300", "");
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    let down = ground.call(&["down", "--keep-agents"]);
    assert_eq!(
        (down.code, &*down.stdout),
        (0, "the daemon has ended; agents left running: 1\n")
    );
    assert_eq!(daemon.end().code, 0);
    assert!(is_alive(pid));
    let daemon = ground.up(&[]);
    assert_eq!(ground.until_runs("a", 1), pid);
    let down = ground.call(&["down"]);
    assert_eq!(
        (down.code, &*down.stdout),
        (0, "the daemon has ended; agents stopped: 1\n")
    );
    assert_eq!(daemon.end().code, 0);
    assert!(!is_alive(pid));
    assert_eq!(ground.births(1).len(), 1);
    ground.assert_nothing_is_left();
}

#[test]
fn a_stopped_agent_is_not_counted_as_left_running() {
    let ground = with_one("sleep 300", "");
    let daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    let down = ground.call(&["down", "--keep-agents"]);
    assert_eq!(
        (down.code, &*down.stdout),
        (0, "the daemon has ended; agents left running: 0\n")
    );
    assert_eq!(daemon.end().code, 0);
}

#[test]
fn a_restart_that_cannot_start_anything_is_answered_with_the_reason() {
    let ground = with_one("sleep 300", "folder = \"sub\"\ngrace = \"1s\"");
    std::fs::create_dir(ground.work("sub")).unwrap();
    std::fs::rename(ground.work("agent"), ground.work("sub/agent")).unwrap();
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    std::fs::rename(ground.work("sub/agent"), ground.work("away")).unwrap();
    let says = |verb: &str, why: &str| {
        let ran = ground.call(&[verb, "a"]);
        assert_eq!(ran.code, 75, "{ran:?}");
        let text = format!("agent a did not start: {why}");
        assert!(ran.stderr.contains(&text), "{ran:?}");
        assert!(ran.stderr.contains("relight ps a shows"), "{ran:?}");
    };
    says("restart", "there is no program ./agent");
    std::fs::remove_dir(ground.work("sub")).unwrap();
    let folder = ground.work("sub").display().to_string();
    says("start", &format!("its folder {folder} is missing"));
    std::fs::create_dir(ground.work("sub")).unwrap();
    std::fs::rename(ground.work("away"), ground.work("sub/agent")).unwrap();
    assert_eq!(states(&ground, "restart").1, json!("running"));
}

#[test]
fn a_stop_is_never_undone() {
    let ground = with_one("echo $$ >>births; sleep 300", "");
    let daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    assert_eq!(
        states(&ground, "stop"),
        (json!("running"), json!("stopped"))
    );
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    assert_eq!(ground.call(&["recover"]).code, 0);
    daemon.kill();
    assert_eq!(ground.call(&["recover"]).code, 0);
    let daemon = ground.up(&[]);
    assert_eq!(ground.agent("a")["detail"], "stopped by a person");
    daemon.signal(Signal::TERM);
    daemon.end();
    let _daemon = ground.up(&["--resume-anyway"]);
    assert_eq!(
        (ground.state("a").as_str(), ground.births(1).len()),
        ("stopped", 1)
    );
    assert_eq!(
        states(&ground, "start"),
        (json!("stopped"), json!("running"))
    );
}

#[test]
fn a_stop_is_recorded_before_the_signal_and_holds_after_sigkill() {
    let ground = with_one(
        "trap 'echo told >told' TERM; echo $$ >>births; while :; do sleep 0.02; done",
        "grace = \"8s\"",
    );
    let daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    ground.births(1);
    let mut stop = ground.start(&["stop", "a"]);
    ground.until_lines("told", 1);
    assert!(stop.is_alive());
    daemon.kill();
    stop.end();
    let _daemon = ground.up(&[]);
    ground.until_state("a", "stopped");
    assert_eq!(ground.births(1).len(), 1);
}

#[test]
fn what_is_terminated_stays_so_until_a_person_restarts_it() {
    let ground = with_one(
        "echo $$ >>births; [ -e mended ] && exec sleep 300; exit 1",
        "max_attempts = 1\ncooldown = \"10ms\"",
    );
    let daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    daemon.kill();
    let daemon = ground.up(&[]);
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    assert_eq!(
        (ground.state("a").as_str(), ground.births(2).len()),
        ("terminated", 2)
    );
    std::fs::write(ground.work("mended"), "").unwrap();
    assert_eq!(
        states(&ground, "restart"),
        (json!("terminated"), json!("running"))
    );
    assert_eq!(ground.agent("a")["recoveries_in_a_row"], 0);
}

#[test]
fn restart_works_on_every_state_and_answers_the_one_before() {
    let script = "read -r what <what; case $what in live) exec sleep 300;; crash) exit 1;; later) exit 75;; esac";
    let ground = Ground::with_agent(script);
    ground.config(&entry(
        "a",
        "cooldown = \"10m\"\ndefer = \"10m\"\ntask = \"t\"",
    ));
    let will = |what: &str| std::fs::write(ground.work("what"), format!("{what}\n")).unwrap();
    will("live");
    let _daemon = ground.up(&[]);
    let first = ground.until_runs("a", 1);
    let answer = ground.json(&["restart", "a"]);
    assert_eq!(
        (&answer["previous_state"], &answer["state"]),
        (&json!("running"), &json!("running"))
    );
    assert_eq!(answer["task_cancelled"], "t");
    assert_ne!(ground.until_runs("a", 2), first);
    for (what, state) in [("crash", "crashed"), ("later", "suspended")] {
        will(what);
        ground.call(&["restart", "a"]);
        ground.until_state("a", state);
        will("live");
        assert_eq!(states(&ground, "restart"), (json!(state), json!("running")));
    }
    assert_eq!(
        states(&ground, "stop"),
        (json!("running"), json!("stopped"))
    );
    assert_eq!(
        states(&ground, "restart"),
        (json!("stopped"), json!("running"))
    );
    assert_eq!(ground.call(&["restart", "nobody"]).code, 1);
}

#[test]
fn start_of_what_runs_changes_nothing() {
    let ground = with_one("sleep 300", "");
    let _daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    assert_eq!(
        states(&ground, "start"),
        (json!("running"), json!("running"))
    );
    assert_eq!(ground.until_runs("a", 1), pid);
}

#[test]
fn a_second_daemon_is_exit_75() {
    let ground = with_one("sleep 300", "");
    let _daemon = ground.up(&[]);
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 75);
    assert!(ran.stderr.contains("relight down"), "{ran:?}");
}

#[test]
fn an_agent_that_a_run_has_is_left_alone_by_up_and_the_others_go_on() {
    let ground = Ground::with_agent("sleep 300");
    ground.config(&(entry("a", "") + &entry("b", "")));
    let _run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let daemon = ground.up(&[]);
    daemon.until_said("a is left alone");
    ground.until_runs("b", 1);
    assert_eq!(ground.until_runs("a", 1), pid);
}

#[test]
fn ps_logs_and_deaths_need_no_daemon() {
    let ground = with_one("echo words; exit 1", "restart = \"never\"");
    let daemon = ground.up(&[]);
    ground.until_state("a", "crashed");
    daemon.kill();
    assert_eq!(ground.agents().len(), 1);
    assert_eq!(ground.log("a"), "words\n");
    assert_eq!(ground.causes("a"), ["failed"]);
    assert_eq!(ground.call(&["restart", "a"]).code, 69);
}

#[test]
fn agents_get_a_short_environment_and_what_their_entry_says() {
    let ground = with_one(
        "env >env; exit 0",
        "env = { OWN = \"of the entry\" }\nenv_pass = [\"PASSED\"]",
    );
    let variables = [
        ("PASSED", "on"),
        ("SECRET", "no"),
        ("LANG", "C"),
        ("RELIGHT_TOKEN", "no"),
    ];
    let _daemon = ground.start_with(&["up"], &variables);
    ground.until_state("a", "stopped");
    let lines = ground.lines("env");
    for line in ["OWN=of the entry", "PASSED=on", "LANG=C", "RELIGHT_AGENT=a"] {
        assert!(
            lines.iter().any(|found| found == line),
            "{line} is not in {lines:#?}"
        );
    }
    let leaked = |name: &str| lines.iter().any(|line| line.starts_with(name));
    assert!(
        !leaked("SECRET=") && !leaked("RELIGHT_TOKEN="),
        "{lines:#?}"
    );
}

#[test]
fn the_alert_command_is_told_as_json() {
    let ground = with_one("exit 1", "max_attempts = 0");
    ground.script("alert", "cat >told.part; mv told.part told");
    ground.config(&(entry("a", "max_attempts = 0") + "[alert]\ncommand = [\"./alert\"]\n"));
    let _daemon = ground.up(&[]);
    let told: Value = serde_json::from_str(&ground.until_lines("told", 1).concat()).unwrap();
    assert!(told.to_string().contains("terminated"), "{told}");
    assert!(ground.read("told").ends_with("}\n"), "it is a whole line");
}

#[test]
fn even_a_quiet_supervisor_says_an_alert_and_what_to_type() {
    let ground = Ground::with_agent("exit 1");
    let ran = ground.run(&["-q", "--max-attempts", "0"]).end();
    let alert = "ALERT agent a is terminated: ";
    assert!(
        ran.stderr.lines().count() == 1 && ran.stderr.contains(alert),
        "{ran:?}"
    );
    let next = "&& relight run --name a -q --max-attempts 0 -- ./agent";
    assert!(
        ran.stderr
            .contains("relight deaths a says how it died, then cd "),
        "{ran:?}"
    );
    assert!(ran.stderr.contains(next), "{ran:?}");
}

#[test]
fn a_stop_says_what_becomes_of_the_task() {
    let ground = with_one("exec sleep 300", "task = \"t\"");
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    let ran = ground.call(&["stop", "a"]);
    assert_eq!(
        ran.stdout,
        "a: running → stopped (its task t is interrupted)\n"
    );
    assert_eq!(ground.task_status("t"), "interrupted");
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    ground.until_runs("a", 2);
    let stopped = ground.json(&["stop", "a"]);
    assert_eq!(
        (&stopped["task_interrupted"], &stopped["task_cancelled"]),
        (&json!("t"), &json!(null))
    );
}

#[test]
fn a_user_that_is_not_there_is_a_mistake_of_the_configuration() {
    let ground = with_one("exit 0", "user = \"nosuchuser\"");
    let ran = ground.start(&["up"]).end();
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(
        ran.stderr.contains("agent a: there is no user nosuchuser"),
        "{ran:?}"
    );
}

#[test]
fn a_hundred_agents_are_adopted_after_sigkill_and_none_is_doubled() {
    let ground = Ground::with_agent(
        "exec 9>>$RELIGHT_AGENT.lock; flock -n 9 || echo doubled >>complaints\n\
         echo $RELIGHT_AGENT $$ >>births; exec sleep 300",
    );
    let mut config = String::new();
    for number in 0..100 {
        write!(config, "{}", entry(&format!("a{number}"), "")).unwrap();
    }
    ground.config(&config);
    let daemon = ground.up(&[]);
    let pids = |ground: &Ground| {
        until("all run", || {
            let agents = ground.agents();
            let pids: Vec<Option<u64>> = agents.iter().map(|agent| agent["pid"].as_u64()).collect();
            (pids.len() == 100 && pids.iter().all(Option::is_some)).then_some(pids)
        })
    };
    let before = pids(&ground);
    ground.until_lines("births", 100);
    daemon.kill();
    let daemon = ground.up(&[]);
    daemon.until_said("up with 100 of 100 agents");
    assert_eq!(pids(&ground), before);
    assert_eq!(ground.lines("births").len(), 100);
    ground.assert_never_doubled();
    assert!(
        ground
            .agents()
            .iter()
            .all(|agent| agent["attempt"] == 1 && agent["truth"] == "as_recorded")
    );
    assert_eq!(ground.call(&["down"]).code, 0);
    assert_eq!(daemon.end().code, 0);
    ground.assert_nothing_is_left();
}

#[test]
fn a_crash_loop_of_two_hundred_agents_leaves_the_daemon_responsive() {
    let ground = Ground::with_agent("exit 1");
    ground.script("calm", "echo >>calm-lives; exec sleep 300");
    let mut config = String::from("[[agent]]\nname = \"calm\"\ncommand = [\"./calm\"]\n");
    for number in 0..200 {
        write!(
            config,
            "{}",
            entry(&format!("a{number}"), "cooldown = \"1s\"\nmax_attempts = 2")
        )
        .unwrap();
    }
    ground.config(&config);
    let _daemon = ground.start(&["up"]);
    // While all others die.
    ground.until_lines("calm-lives", 1);
    until("the daemon answers", || {
        (ground.call(&["restart", "calm"]).code == 0).then_some(())
    });
    until("all are terminated", || {
        let is_over = |agent: &Value| agent["state"] == "terminated";
        (ground
            .agents()
            .iter()
            .filter(|agent| is_over(agent))
            .count()
            == 200)
            .then_some(())
    });
    let agents = ground.agents();
    let looped = agents.iter().filter(|agent| agent["name"] != "calm");
    assert!(
        looped.into_iter().all(|agent| agent["attempt"] == 3),
        "three lives each, and no more"
    );
    assert_eq!(ground.state("calm"), "running");
}

#[test]
fn what_cannot_be_started_is_warned_of_and_holds_up_no_other() {
    let ground = Ground::with_agent("sleep 300");
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n\
         [[agent]]\nname = \"b\"\ncommand = [\"./none\"]\n",
    );
    let up = ground.up(&[]);
    up.until_said("b cannot be started just now: there is no program ./none");
    ground.until_runs("a", 1);
}

#[test]
fn a_supervisor_that_was_killed_just_now_does_not_hold_off_the_next() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    ground.config("");
    for _ in 0..3 {
        // Nobody waits for their ends.
        ground.up(&[]).signal(Signal::KILL);
        let run = ground.run(&[]);
        ground.until_agent("a", |agent| agent["supervisor"]["pid"] == run.pid());
        run.signal(Signal::KILL);
    }
    assert_eq!(ground.births(1).len(), 1);
}

#[test]
fn no_store_is_made_beside_a_live_daemon_whose_file_is_gone() {
    let ground = Ground::with_agent("exec sleep 300");
    ground.config("");
    let daemon = ground.up(&[]);
    // Stopped, it does not notice, and does not end before the commands are through.
    daemon.freeze();
    for name in ["relight.db", "relight.db-wal", "relight.db-shm"] {
        std::fs::remove_file(ground.home(name)).unwrap();
    }
    for words in [
        &["task", "add", "t"][..],
        &["ps"],
        &["up"],
        &["run", "--", "./agent"],
    ] {
        let ran = ground.call(words);
        assert_eq!(ran.code, 74, "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("is gone"), "{ran:?}");
    }
    assert!(!ground.home("relight.db").exists());
    daemon.signal(Signal::CONT);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, 74);
    assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
}
