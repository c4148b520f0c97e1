//! Several nodes on one store: what one of them had goes on elsewhere, and never twice at once.
//!
//! A node is a daemon with a home of its own. Leases are as short as they may be.

use std::time::Duration;

use relight_core::time::Span;
use relight_server::client::{self, Answered};
use rustix::process::Signal;
use serde_json::Value;

use crate::ground::{Ground, ONLY_ONE, Supervisor, is_alive, now, signal, until};
use crate::relight::{Ran, finish};

/// The lease, a second for who comes late, and what a busy machine adds.
const TAKEOVER_MAX: Duration = Duration::from_secs(3 + 1 + 4);

/// Lives until it is told to end, and says on which node.
fn lives() -> String {
    format!(
        "{ONLY_ONE}echo $RELIGHT_NODE >>places\ntrap 'exit 0' TERM\nwhile :; do sleep 0.02; done"
    )
}

fn config(more: &str) -> String {
    format!(
        "[node]\nlease = \"3s\"\nrenew = \"500ms\"\n[[agent]]\nname = \"a\"\n\
         command = [\"./agent\"]\nrestart = \"always\"\n{more}"
    )
}

/// Several homes on one store.
pub(crate) struct Fleet {
    pub(crate) ground: Ground,
    store: String,
}

impl Fleet {
    pub(crate) fn new(config_end: &str) -> Self {
        let fleet = Self::on("", config_end);
        let shared = fleet.ground.stage.folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        Self { store: format!("sqlite:{}", shared.join("relight.db").display()), ..fleet }
    }

    pub(crate) fn on(store: &str, config_end: &str) -> Self {
        let ground = Ground::with_agent(&lives());
        ground.config(&config(config_end));
        Self { ground, store: store.to_owned() }
    }

    fn variables(&self, node: &str) -> [(&'static str, String); 2] {
        let folder = self.ground.stage.folder.path();
        let home = folder.join(format!("home-{node}")).display().to_string();
        [("RELIGHT_HOME", home), ("RELIGHT_STORE", self.store.clone())]
    }

    /// A node that is up.
    pub(crate) fn up(&self, node: &str) -> Supervisor {
        let daemon = self.begin(node, &[]);
        daemon.until_said("is up with ");
        daemon
    }

    pub(crate) fn begin(&self, node: &str, flags: &[&str]) -> Supervisor {
        self.start(node, &[&["up", "--no-http", "--node", node], flags].concat())
    }

    pub(crate) fn start(&self, node: &str, words: &[&str]) -> Supervisor {
        let variables = self.variables(node);
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.ground.start_with(words, &variables)
    }

    pub(crate) fn call(&self, node: &str, words: &[&str]) -> Ran {
        let mut command = self.ground.stage.command(words);
        finish(command.envs(self.variables(node)).spawn().unwrap())
    }

    pub(crate) fn json(&self, node: &str, words: &[&str]) -> Value {
        let ran = self.call(node, &[words, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// What the API of a node's socket answers.
    pub(crate) fn send(&self, node: &str, method: &str, path: &str) -> Answered {
        let socket = self.ground.stage.folder.path().join(format!("home-{node}/relight.sock"));
        client::send(&socket, method, path, None, Span::from_secs(20)).unwrap()
    }

    pub(crate) fn get(&self, node: &str, path: &str) -> Value {
        let answered = self.send(node, "GET", path);
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.body
    }

    /// The agent, seen from a node; null before it is known there.
    pub(crate) fn agent(&self, node: &str) -> Value {
        self.json(node, &["ps"])["agents"][0].clone()
    }

    /// Waits until the agent lives on this node in this attempt; its pid.
    pub(crate) fn until_lives(&self, node: &str, attempt: u32) -> u32 {
        until(&format!("attempt {attempt} on node {node}"), || {
            let agent = self.agent(node);
            let lives = agent["state"] == "running" && agent["node"] == node;
            let pid = agent["pid"].as_u64().filter(|_| lives && agent["attempt"] == attempt)?;
            u32::try_from(pid).ok()
        })
    }

    fn causes(&self, node: &str) -> Vec<String> {
        let deaths = self.json(node, &["deaths", "a", "-n", "100"])["deaths"].clone();
        let mut causes: Vec<String> = deaths
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["cause"].as_str().unwrap().to_owned())
            .collect();
        causes.reverse();
        causes
    }

    pub(crate) fn state_of(&self, asked: &str, node: &str) -> String {
        let nodes = self.json(asked, &["node", "list"])["nodes"].as_array().unwrap().clone();
        let found = nodes.into_iter().find(|known| known["name"] == node);
        found.map(|known| known["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    }
}

#[test]
fn an_agent_of_a_node_that_was_killed_goes_on_elsewhere_once() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let (shim, killed) = (fleet.ground.shim("a"), now());
    a.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    fleet.until_lives("b", 2);
    assert!(killed.elapsed() < TAKEOVER_MAX, "{:?}", killed.elapsed());
    assert_eq!(fleet.causes("b"), ["lost"]);
    assert_eq!(fleet.state_of("b", "a"), "gone");
    assert_eq!(fleet.ground.lines("places"), ["a", "b"]);
    fleet.ground.assert_never_doubled();
}

#[test]
fn without_its_daemon_an_agent_lives_until_its_shim_ends_it_in_time() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    assert!(is_alive(pid), "its daemon is disposable");
    until("the shim ends it", || (!is_alive(pid)).then_some(()));
    assert_ne!(fleet.state_of("b", "a"), "gone", "everything is dead before the lease ends");
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_daemon_that_comes_back_in_time_adopts_and_restarts_nothing() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    let a = fleet.up("a");
    a.until_said("lives and is adopted");
    // Longer than the lease that it had before.
    let begun = now();
    until("a whole lease", || (begun.elapsed() > Duration::from_secs(4)).then_some(()));
    assert_eq!(fleet.until_lives("a", 1), pid);
    assert_eq!(fleet.ground.lines("places"), ["a"]);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_frozen_daemon_starts_over_and_does_not_double() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let b = fleet.up("b");
    a.signal(Signal::STOP);
    let second = fleet.until_lives("b", 2);
    assert!(!is_alive(pid));
    a.signal(Signal::CONT);
    a.until_said("the lease of this node ran out");
    until("it has joined anew", || (fleet.state_of("b", "a") == "live").then_some(()));
    assert_eq!(fleet.until_lives("b", 2), second, "what others have taken stays theirs");
    // It is a node like any other again.
    b.signal(Signal::TERM);
    fleet.until_lives("a", 3);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_node_that_leaves_hands_over_at_once() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.signal(Signal::TERM);
    let given_back = now();
    fleet.until_lives("b", 2);
    assert!(given_back.elapsed() < Duration::from_secs(2), "{:?}", given_back.elapsed());
    assert_eq!(fleet.causes("b"), ["stopped"]);
    assert_eq!(a.end().code, 143);
    assert_eq!(fleet.state_of("b", "a"), "gone");
    fleet.ground.assert_never_doubled();
}

#[test]
fn an_agent_runs_where_its_placement_says() {
    let fleet = Fleet::new("placement = \"b\"");
    let a = fleet.up("a");
    a.until_said("1 agents are placed on other nodes");
    assert_eq!(fleet.ground.lines("places").len(), 0);
    let b = fleet.up("b");
    fleet.until_lives("b", 1);
    b.kill();
    until("b is gone", || (fleet.state_of("a", "b") == "gone").then_some(()));
    let _b = fleet.up("b");
    fleet.until_lives("b", 2);
    assert_eq!(fleet.ground.lines("places"), ["b", "b"]);
    fleet.ground.assert_never_doubled();
}

#[test]
fn what_a_person_stopped_stays_stopped_on_every_node() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let b = fleet.up("b");
    assert_eq!(fleet.call("a", &["stop", "a"]).code, 0);
    a.kill();
    b.until_said("is up with 0 of 1");
    until("b has it", || {
        let agent = fleet.agent("b");
        (agent["node"] == "b").then(|| assert_eq!(agent["state"], "stopped"))
    });
    assert_eq!(fleet.ground.lines("places"), ["a"]);
    assert_eq!(fleet.call("b", &["start", "a"]).code, 0);
    fleet.until_lives("b", 2);
}

#[test]
fn a_drained_node_hands_over_what_ends_and_takes_nothing() {
    let fleet = Fleet::new("");
    let _a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    assert_eq!(fleet.call("b", &["node", "drain", "a"]).code, 0);
    until("it is told", || (fleet.state_of("b", "a") == "draining").then_some(()));
    assert!(is_alive(pid), "what runs goes on");
    let told = now();
    until("a has renewed since", || (told.elapsed() > Duration::from_secs(1)).then_some(()));
    signal(pid, Signal::KILL);
    fleet.until_lives("b", 2);
    assert_eq!(fleet.call("b", &["node", "drain", "nobody"]).code, 1);
    fleet.ground.assert_never_doubled();
}

#[test]
fn a_name_that_another_machine_uses_is_refused() {
    let fleet = Fleet::new("");
    let _a = fleet.up("a");
    let mut command = fleet.ground.stage.command(&["up", "--no-http", "--node", "a"]);
    let [_, (store, url)] = fleet.variables("a");
    let ran = finish(command.env(store, url).spawn().unwrap());
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("another machine is node a already"), "{ran:?}");
    assert_eq!(fleet.call("a", &["node", "remove", "a"]).code, 75);
    assert_eq!(fleet.call("a", &["node", "remove", "b"]).code, 1);
}

#[test]
fn a_task_of_a_lost_node_is_recovered_by_another() {
    let fleet = Fleet::new("");
    let a = fleet.up("a");
    fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    let pid = std::process::id().to_string();
    let ran = fleet.call("a", &["task", "start", "t", "--owner-pid", &pid]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let status = || fleet.json("b", &["task", "show", "t"])["status"].as_str().unwrap().to_owned();
    assert_eq!(status(), "in_progress");
    a.kill();
    until("its node is gone", || (status() != "in_progress").then_some(()));
    assert_eq!(fleet.state_of("b", "a"), "gone", "its holder lives, but nobody there can say so");
    let late = fleet.call("a", &["task", "done", "t", "--fence", "1"]);
    assert_eq!(late.code, 77, "{late:?}");
}
