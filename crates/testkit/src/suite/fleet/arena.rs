//! Where a trial plays: a database, and machines on cables with a daemon each, all with the same agents.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relight_runtime::Relight;

use super::super::queue;
use super::node::{Node, SKEWS};
use super::schedule::Trouble;
use super::{LEASE, RENEW};
use crate::checker;
use crate::checker::fleet::Freeze;
use crate::postgres::{Cluster, Durability, Place};
use crate::world::daemon::Entry;
use crate::world::fleet_log::{Deed, FleetLog, Line};
use crate::world::machine::{Blueprint, Machine};
use crate::world::network::{EVERYBODY, Network, SERVER};
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Violation};
use crate::world::{clock, processes};

/// By then a fleet that nobody disturbs has begun all its work.
const BEGIN_MAX: Duration = Duration::from_secs(180);
/// A daemon that ends by itself, for it cannot reach the database, is started again after this.
const START_PAUSE: Duration = Duration::from_millis(500);
const URL_END: &str = "?sslmode=disable";

/// A fleet. Fields are dropped in their order: machines before what they are plugged into.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    pub(super) cluster: Cluster,
    pub(super) network: Network,
    pub(super) log: FleetLog,
    pub(super) agents: Vec<String>,
    pub(super) relight: PathBuf,
    driver: PathBuf,
    pub(super) freezes: Vec<Freeze>,
    pub(super) is_database_up: bool,
    /// Agents and the fences under which somebody tried to write late.
    pub(super) tried_late: Vec<(String, u64)>,
    /// Late writes that were refused.
    pub(super) late_refused: u64,
    /// Steps that were parked and that somebody resolved.
    pub(super) resolved: u64,
    pub(super) resolved_at: Instant,
    /// How often somebody was asked.
    pub(super) asked: usize,
    /// Tasks of the queue, beside those of the agents.
    pub(super) tasks: usize,
}

/// How a fleet is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Make<'a> {
    pub(super) product: &'a Product,
    pub(super) folder: &'a Path,
    pub(super) nodes: usize,
    pub(super) agents: usize,
    /// Turns the wall clock of a process.
    pub(super) clock_library: Option<&'a Path>,
}

impl Arena {
    /// Starts database, machines and daemons; none where there is no PostgreSQL.
    pub(super) fn make(make: Make<'_>, seed: &mut Seed) -> anyhow::Result<Option<Self>> {
        let log = FleetLog::at(make.folder.join("records"))?;
        let network = Network::make()?;
        let namespace = network.file();
        let place = Place {
            namespace,
            address: SERVER.to_owned(),
            callers: EVERYBODY.to_owned(),
        };
        let Some(cluster) = Cluster::start_in(place, Durability::Unsynced) else {
            return Ok(None);
        };
        let agents: Vec<String> = (1..=make.agents)
            .map(|number| format!("a{number}"))
            .collect();
        let mut arena = Self {
            nodes: Vec::new(),
            cluster,
            network,
            log,
            agents,
            relight: make.product.relight.clone(),
            driver: make.product.driver.clone(),
            freezes: Vec::new(),
            is_database_up: true,
            tried_late: Vec::new(),
            late_refused: 0,
            resolved: 0,
            resolved_at: clock::now(),
            asked: 0,
            tasks: 0,
        };
        let configuration = make.folder.join("relight.toml");
        std::fs::write(&configuration, arena.configuration(make.product))?;
        for number in 1..=make.nodes {
            let node = arena.node(make, number, seed)?;
            arena.nodes.push(node);
        }
        for number in 0..make.nodes {
            arena.boot(number, seed)?;
        }
        Ok(Some(arena))
    }

    /// Switches a machine on; its daemon and its workers begin.
    pub(super) fn boot(&mut self, number: usize, seed: &mut Seed) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        node.machine.boot(seed)?;
        node.start(&self.relight)?;
        let driver = self.driver.display().to_string();
        let (url, folder) = (
            self.cluster.url(URL_END),
            self.log.folder().display().to_string(),
        );
        for kind in ["by-process", "by-clock"] {
            node.machine
                .start(&[&driver, "fleet-worker", kind, &url, &folder])?;
        }
        Ok(())
    }

    /// Adds so many tasks for each node to the queue. The database has to be up.
    pub(super) fn fill(&mut self, for_each_node: usize) -> anyhow::Result<()> {
        let end = self.tasks + for_each_node * self.nodes.len();
        let new = self.tasks..end;
        self.with_store(async |relight| queue::fill(&relight, new).await)?;
        self.tasks = end;
        Ok(())
    }

    /// Does something with the store from outside of the fleet.
    pub(super) fn with_store<T>(
        &self,
        act: impl AsyncFnOnce(Relight) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async { act(Relight::open(&self.cluster.socket_url()).await?).await })
    }

    fn configuration(&self, product: &Product) -> String {
        let url = self.cluster.url(URL_END);
        let mut text = format!(
            "[store]\nurl = {url:?}\n[node]\nlease = \"{}ms\"\nrenew = \"{}ms\"\n\
             [queue]\nattempts_max = 1000000\nsweep = \"1s\"\n\
             [recovery]\nmax_attempts = 1000000\ncooldown = \"0s\"\n",
            LEASE.as_millis(),
            RENEW.as_millis()
        );
        let driver = product.driver.display().to_string();
        let folder = self.log.folder().display().to_string();
        for agent in &self.agents {
            let entry = Entry::at_once(agent, &[&driver, "fleet-agent", &folder, agent]);
            let entry = entry
                .with("restart", "\"on-failure\"")
                .with("task", &format!("{agent:?}"));
            text.push_str(&entry.toml());
        }
        text
    }

    fn node(&self, make: Make<'_>, number: usize, seed: &mut Seed) -> anyhow::Result<Node> {
        let name = format!("n{number}");
        let home = make.folder.join(&name);
        std::fs::create_dir_all(&home)?;
        let clock_file = home.join("clock");
        std::fs::write(&clock_file, SKEWS[seed.below(SKEWS.len() as u64) as usize])?;
        let text = |path: &Path| path.display().to_string();
        let mut variables = vec![
            ("RELIGHT_HOME", text(&home)),
            ("HOME", text(&home)),
            ("RELIGHT_NODE", name.clone()),
        ];
        if let Some(library) = make.clock_library {
            variables.extend([
                ("LD_PRELOAD", text(library)),
                ("FAKETIME_TIMESTAMP_FILE", text(&clock_file)),
                ("FAKETIME_CACHE_DURATION", "1".to_owned()),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ]);
        }
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let driver = make.product.driver.clone();
        let blueprint = Blueprint {
            home,
            driver,
            variables: variables.collect(),
        };
        let machine = Machine::new(blueprint, self.network.plug(number)?);
        let (trouble, started_at, frozen_from_ns) = (None, clock::now(), 0);
        Ok(Node {
            name,
            machine,
            clock_file,
            trouble,
            started_at,
            frozen_from_ns,
        })
    }

    /// Waits until every agent has done a step.
    pub(super) fn begin(&mut self) -> anyhow::Result<Vec<Violation>> {
        let end = clock::now() + BEGIN_MAX;
        loop {
            let lines = self.log.lines()?;
            let has_acted = |agent: &String| {
                let is_ack = |deed: &Deed| matches!(deed, Deed::Ack { .. });
                lines
                    .iter()
                    .any(|line| line.agent == *agent && is_ack(&line.deed))
            };
            if self.agents.iter().all(has_acted) {
                return Ok(Vec::new());
            }
            if clock::now() > end {
                let text = format!(
                    "not all agents work after {BEGIN_MAX:?}: {}",
                    self.last_said()
                );
                return Ok(vec![Violation::new(Promise::Lost, text)]);
            }
            self.mind()?;
            clock::pause(Duration::from_millis(20));
        }
    }

    /// Lets time pass, and looks after what is not in trouble.
    pub(super) fn wait_until(&mut self, moment: Instant) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        loop {
            self.mind()?;
            self.resolve_parked()?;
            found.extend(self.write_late()?);
            let left = moment.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Ok(found);
            }
            clock::pause(left.min(Duration::from_millis(100)));
        }
    }

    /// Starts daemons again that ended by themselves, as a host's service manager does.
    pub(super) fn mind(&mut self) -> anyhow::Result<()> {
        processes::reap_orphans();
        for node in &mut self.nodes {
            let is_left_alone = matches!(
                node.trouble,
                Some(Trouble::NodeKilled | Trouble::DaemonKilled | Trouble::NodeFrozen)
            );
            let is_new = node.started_at.elapsed() < START_PAUSE;
            if !is_left_alone && !is_new && node.machine.daemon().is_none() {
                node.start(&self.relight)?;
            }
        }
        Ok(())
    }

    /// Waits until every agent has done a step since the moment; how long that took.
    pub(super) fn goes_on(&mut self, limit: Duration) -> anyhow::Result<Option<Duration>> {
        let since_ns = clock::wall_ns();
        self.becomes(limit, |arena| {
            let lines = arena.log.lines()?;
            let acted =
                |line: &Line| line.at_ns > since_ns && matches!(line.deed, Deed::Ack { .. });
            let works =
                |agent: &String| lines.iter().any(|line| line.agent == *agent && acted(line));
            Ok(arena.agents.iter().all(works))
        })
    }

    /// Tells all agents to end their work, and waits until they have, and the queue is empty; how long
    /// that took.
    pub(super) fn finish(&mut self, limit: Duration) -> anyhow::Result<Option<Duration>> {
        self.log.call_it_a_day()?;
        self.becomes(limit, |arena| {
            let lines = arena.log.lines()?;
            let is_done = |agent: &String| {
                lines
                    .iter()
                    .any(|line| line.agent == *agent && line.deed == Deed::Done)
            };
            let is_empty = async |relight| checker::queue::is_over(&relight, arena.tasks).await;
            Ok(arena.agents.iter().all(is_done) && arena.with_store(is_empty)?)
        })
    }

    fn becomes(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<Duration>> {
        let began = clock::now();
        while !is_so(self)? {
            if began.elapsed() > limit {
                return Ok(None);
            }
            self.mind()?;
            self.resolve_parked()?;
            clock::pause(Duration::from_millis(50));
        }
        Ok(Some(began.elapsed()))
    }

    /// Agents that live, of all machines.
    pub(super) fn live_agents(&self) -> usize {
        self.nodes.iter().map(|node| node.machine.agents()).sum()
    }

    /// The last of what the daemons said.
    pub(super) fn last_said(&self) -> String {
        let last = |node: &Node| {
            let said = std::fs::read_to_string(node.machine.said()).unwrap_or_default();
            let lines: Vec<&str> = said.lines().rev().take(3).collect();
            let lines = lines.into_iter().rev().collect::<Vec<_>>().join(" | ");
            format!("{}: {lines}", node.name)
        };
        self.nodes.iter().map(last).collect::<Vec<_>>().join("; ")
    }
}
