//! A fleet under test: nodes are daemons with a home of their own that share a store.

use std::time::Duration;

use relight_core::time::Span;
use relight_server::client::{self, DaemonResponse};
use serde_json::Value;

use crate::ground::{Ground, ONLY_ONE, Supervisor, until};
use crate::relight::{Ran, finish};
use crate::server::{Cluster, unique};

/// Longer than the shortest one: a loaded machine renews late now and then.
pub(crate) const LEASE: Duration = Duration::from_secs(6);

/// Lives until it is told to end, and says on which node.
fn lives() -> String {
    format!(
        "{ONLY_ONE}echo $RELIGHT_NODE >>places\ntrap 'exit 0' TERM\nwhile :; do sleep 0.02; done"
    )
}

fn config(lease: Duration, agent_end: &str) -> String {
    let lease = lease.as_secs();
    format!(
        "[node]\nlease = \"{lease}s\"\nrenew = \"500ms\"\n[[agent]]\nname = \"a\"\n\
         command = [\"./agent\"]\nrestart = \"always\"\n{agent_end}"
    )
}

/// Where the nodes of a fleet meet.
pub(crate) enum Meet {
    InOneFile,
    At(String),
}

impl Meet {
    pub(crate) fn in_a_schema_of(server: &Cluster) -> Self {
        let schema = unique(&format!("fleet{}_", std::process::id()));
        Self::At(server.url(&format!("?schema={schema}&sslmode=disable")))
    }
}

pub(crate) struct Fleet {
    pub(crate) ground: Ground,
    store: String,
}

impl Fleet {
    pub(crate) fn new(meet: Meet, agent_end: &str) -> Self {
        Self::with_agent(meet, &lives(), LEASE, agent_end)
    }

    /// One whose agent does this.
    pub(crate) fn with_agent(meet: Meet, script: &str, lease: Duration, agent_end: &str) -> Self {
        let ground = Ground::with_agent(script);
        ground.config(&config(lease, agent_end));
        let shared = ground.stage.folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        let store = match meet {
            Meet::InOneFile => format!("sqlite:{}", shared.join("relight.db").display()),
            Meet::At(url) => url,
        };
        Self { ground, store }
    }

    /// Nodes that are started from now on have a longer lease.
    pub(crate) fn lease(&self, lease: Duration) {
        self.ground.config(&config(lease, ""));
    }

    /// Whoever reads the configuration from now on finds this said of the agent.
    pub(crate) fn agent_is(&self, agent_end: &str) {
        self.ground.config(&config(LEASE, agent_end));
    }

    pub(crate) fn variables(&self, node: &str) -> [(&'static str, String); 2] {
        let home = self.ground.stage.folder.path().join(format!("home-{node}"));
        [
            ("RELIGHT_HOME", home.display().to_string()),
            ("RELIGHT_STORE", self.store.clone()),
        ]
    }

    /// A node that is up.
    pub(crate) fn up(&self, node: &str) -> Supervisor {
        let daemon = self.begin(node, &[]);
        daemon.until_said("is up with ");
        daemon
    }

    pub(crate) fn begin(&self, node: &str, flags: &[&str]) -> Supervisor {
        self.start(
            node,
            &[&["up", "--no-http", "--node", node], flags].concat(),
        )
    }

    pub(crate) fn start(&self, node: &str, words: &[&str]) -> Supervisor {
        let variables = self.variables(node);
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
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
    pub(crate) fn send(&self, node: &str, method: &str, path: &str) -> DaemonResponse {
        self.send_with(node, method, path, None)
    }

    pub(crate) fn send_with(
        &self,
        node: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> DaemonResponse {
        let socket = self
            .ground
            .stage
            .folder
            .path()
            .join(format!("home-{node}/relight.sock"));
        client::send(&socket, method, path, body, Span::from_secs(120)).unwrap()
    }

    pub(crate) fn get(&self, node: &str, path: &str) -> Value {
        let answered = self.send(node, "GET", path);
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.body
    }

    /// The agent, seen from a node; null before it is known there.
    pub(crate) fn agent(&self, node: &str) -> Value {
        self.json(node, &["ps"])["items"][0].clone()
    }

    /// Waits until the agent lives on this node in this attempt; its pid.
    pub(crate) fn until_lives(&self, node: &str, attempt: u32) -> u32 {
        until(&format!("attempt {attempt} on node {node}"), || {
            let agent = self.agent(node);
            let lives = agent["state"] == "running" && agent["node"] == node;
            let pid = agent["pid"]
                .as_u64()
                .filter(|_| lives && agent["attempt"] == attempt)?;
            u32::try_from(pid).ok()
        })
    }

    /// Waits until an attempt lives and its script has written its line into `places`.
    pub(crate) fn until_placed(&self, node: &str, attempt: u32) -> u32 {
        let pid = self.until_lives(node, attempt);
        self.ground.until_lines("places", attempt as usize);
        pid
    }

    pub(crate) fn deaths(&self, node: &str) -> Vec<Value> {
        self.json(node, &["deaths", "a", "-n", "100"])["items"]
            .as_array()
            .unwrap()
            .clone()
    }

    pub(crate) fn causes(&self, node: &str) -> Vec<String> {
        let deaths = self.json(node, &["deaths", "a", "-n", "100"])["items"].clone();
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
        let nodes = self.json(asked, &["node", "list"])["items"]
            .as_array()
            .unwrap()
            .clone();
        let found = nodes.into_iter().find(|known| known["name"] == node);
        found
            .map(|known| known["state"].as_str().unwrap().to_owned())
            .unwrap_or_default()
    }
}
