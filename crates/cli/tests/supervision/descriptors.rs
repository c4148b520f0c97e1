//! A supervisor that has few descriptors: strangers do not starve its agents, and agents are not charged for
//! what the host lacks.

use std::collections::BTreeSet;
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, signal, until};
use crate::http::address;

#[test]
fn connections_of_strangers_leave_descriptors_for_agents_and_commands() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    ground.config(
        "[daemon]\nlisten = \"127.0.0.1:0\"\n\
         [[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ncooldown = \"50ms\"\n",
    );
    let daemon = ground.start_limited(96, &["up"]);
    daemon.until_said("up with ");
    let first = ground.births(1)[0];
    let address = address(&ground);
    // All of them are in the queue of the listener at least, and nobody says a word.
    let strangers: Vec<TcpStream> = (0..120)
        .map_while(|_| TcpStream::connect(&address).ok())
        .collect();
    // Without its shim, a new one is needed, and so are descriptors.
    signal(ground.shim("a"), Signal::KILL);
    signal(first, Signal::KILL);
    ground.births(2);
    assert_eq!(ground.call(&["restart", "a"]).code, 0);
    ground.births(3);
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
    drop(strangers);
    let deaths = ground.deaths("a");
    let cannot = deaths.iter().filter(|death| death["code"] == 126).count();
    assert_eq!(cannot, 0, "{deaths:#?}");
}

#[test]
fn agents_that_the_host_has_no_room_for_wait_and_are_not_charged() {
    const AGENTS: usize = 16;
    let ground = Ground::with_agent("echo $RELIGHT_AGENT >>births; exec sleep 1000");
    let agent = |n| format!("[[agent]]\nname = \"a{n}\"\ncommand = [\"./agent\"]\n");
    ground.config(&(0..AGENTS).map(agent).collect::<String>());
    let daemon = ground.start_limited(64, &["up"]);
    daemon.until_said("up with ");
    daemon.until_said("trying again in ");
    let born = || {
        ground
            .lines("births")
            .into_iter()
            .collect::<BTreeSet<String>>()
    };
    assert!(born().len() < AGENTS, "there was room for all of them");
    // Each one that is stopped makes room for others.
    let mut stopped = BTreeSet::new();
    until("every agent was started", || {
        if let Some(next) = born().difference(&stopped).next().cloned() {
            assert_eq!(ground.call(&["stop", &next]).code, 0);
            stopped.insert(next);
        }
        (born().len() == AGENTS).then_some(())
    });
    for agent in ground.agents() {
        assert_eq!(agent["restarts_total"], json!(0), "{agent:#}");
    }
    assert_eq!(ground.lines("births").len(), AGENTS);
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
}

#[test]
fn a_run_without_descriptors_says_so_and_ends_on_sigterm() {
    let ground = Ground::with_agent("echo $$ >>births");
    let run = ground.start_limited(24, &["run", "--name", "a", "--", "./agent"]);
    run.until_said("too many files are open to take it up; waiting");
    run.signal(Signal::TERM);
    let ran = run.end();
    assert_eq!(ran.code, 143, "{ran:?}");
    assert!(ground.lines("births").is_empty());
}

#[test]
fn too_few_descriptors_to_wait_for_anything_are_an_error_and_no_panic() {
    let ground = Ground::with_agent("exit 0");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    for words in [&["run", "--", "./agent"][..], &["up"], &["events", "-f"]] {
        for files in [8, 10] {
            let ran = ground.start_limited(files, words).end();
            assert_eq!(ran.code, 74, "{files} {words:?}: {ran:?}");
            assert!(ran.stderr.contains("ulimit -n"), "{ran:?}");
        }
    }
}

#[test]
fn a_host_that_refuses_threads_is_an_error_and_no_panic() {
    let ground = Ground::with_agent("exit 0");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let ran = ground.start_without_threads(&["up", "--no-http"]).end();
    assert_eq!(ran.code, 74, "{ran:?}");
    assert!(ran.stderr.contains("cannot start threads"), "{ran:?}");
}

#[test]
fn an_attempt_that_waits_for_room_is_not_charged_when_its_supervisor_is_killed() {
    const AGENTS: usize = 16;
    let ground = Ground::with_agent("echo $RELIGHT_AGENT >>births; exec sleep 1000");
    let agent = |n| format!("[[agent]]\nname = \"a{n}\"\ncommand = [\"./agent\"]\n");
    ground.config(&(0..AGENTS).map(agent).collect::<String>());
    let daemon = ground.start_limited(64, &["up"]);
    daemon.until_said("up with ");
    daemon.until_said("trying again in ");
    daemon.kill();
    let daemon = ground.up(&[]);
    ground.until_lines("births", AGENTS);
    for agent in ground.agents() {
        let seen = (&agent["restarts_total"], &agent["attempt"]);
        assert_eq!(seen, (&json!(0), &json!(1)), "{agent:#}");
    }
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
}
