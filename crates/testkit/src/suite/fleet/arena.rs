//! Where a trial plays: a database, and machines on cables with a daemon each, all with the same agents.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use relight::Relight;
use relight_core::time::Span;
use relight_server::client;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::queue;
use super::schedule::{Act, Lane, Part, Trouble};
use super::{LEASE, RENEW};
use crate::checker;
use crate::checker::fleet::Freeze;
use crate::postgres::{Cluster, Durability, Place};
use crate::world::daemon::Entry;
use crate::world::fleet_log::{Deed, FleetLog, Line};
use crate::world::machine::{Blueprint, Machine};
use crate::world::network::{Cut, EVERYBODY, Network, SERVER};
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Violation};
use crate::world::{clock, processes};

/// By then a fleet that nobody disturbs has begun all its work.
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// A daemon that ends by itself, for it cannot reach the database, is started again after this.
const START_PAUSE: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ASK_MAX: Span = Span::from_ms(300);
/// How often it is looked for steps that are parked.
const RESOLVE_PAUSE: Duration = Duration::from_millis(500);
/// Tasks of the queue, beside those of the agents.
pub(super) const TASKS: usize = 200;
const URL_END: &str = "?sslmode=disable";
/// What befalls all nodes before they are healed at once.
const LAST_BLOWS: [Trouble; 7] = [
    Trouble::NodeKilled,
    Trouble::DaemonKilled,
    Trouble::DaemonFrozen,
    Trouble::NodeFrozen,
    Trouble::Cut(Cut::BothWays),
    Trouble::Cut(Cut::ToServer),
    Trouble::Cut(Cut::FromServer),
];
/// By what a wall clock is off.
const SKEWS: [&str; 4] = ["+0", "-1h", "+1h", "+30d"];

/// A node.
#[derive(Debug)]
struct Node {
    name: String,
    machine: Machine,
    /// The file that says by what its wall clock is off.
    clock_file: PathBuf,
    /// What befalls it now.
    trouble: Option<Trouble>,
    started_at: Instant,
    frozen_from_ns: u64,
}

/// A fleet. Fields are dropped in their order: machines before what they are plugged into.
#[derive(Debug)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    cluster: Cluster,
    network: Network,
    pub(super) log: FleetLog,
    pub(super) agents: Vec<String>,
    relight: PathBuf,
    driver: PathBuf,
    pub(super) freezes: Vec<Freeze>,
    is_database_up: bool,
    /// Agents and the fences under which somebody tried to write late.
    tried_late: Vec<(String, u64)>,
    /// Late writes that were refused.
    pub(super) late_refused: u64,
    /// Steps that were parked and that somebody resolved.
    pub(super) resolved: u64,
    resolved_at: Instant,
    /// How often somebody was asked.
    asked: usize,
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
        let place = Place { namespace, address: SERVER.to_owned(), callers: EVERYBODY.to_owned() };
        let Some(cluster) = Cluster::start_in(place, Durability::Unsynced) else { return Ok(None) };
        let agents: Vec<String> = (1..=make.agents).map(|number| format!("a{number}")).collect();
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
    fn boot(&mut self, number: usize, seed: &mut Seed) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        node.machine.boot(seed)?;
        node.start(&self.relight)?;
        let driver = self.driver.display().to_string();
        let (url, folder) = (self.cluster.url(URL_END), self.log.folder().display().to_string());
        for kind in ["by-process", "by-clock"] {
            node.machine.start(&[&driver, "fleet-worker", kind, &url, &folder])?;
        }
        Ok(())
    }

    /// Fills the queue, once the first node has made the store.
    pub(super) fn fill(&self) -> anyhow::Result<()> {
        self.with_store(async |relight| queue::fill(&relight, TASKS).await)
    }

    /// Does something with the store from outside of the fleet.
    pub(super) fn with_store<T>(
        &self,
        act: impl AsyncFnOnce(Relight) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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
            let entry = entry.with("restart", "\"on-failure\"").with("task", &format!("{agent:?}"));
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
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value));
        let driver = make.product.driver.clone();
        let blueprint = Blueprint { home, driver, variables: variables.collect() };
        let machine = Machine::new(blueprint, self.network.plug(number)?);
        let (trouble, started_at, frozen_from_ns) = (None, clock::now(), 0);
        Ok(Node { name, machine, clock_file, trouble, started_at, frozen_from_ns })
    }

    /// Waits until every agent has done a step.
    pub(super) fn begin(&mut self) -> anyhow::Result<Vec<Violation>> {
        let end = clock::now() + BEGIN_MAX;
        loop {
            let lines = self.log.lines()?;
            let has_acted = |agent: &String| {
                let is_ack = |deed: &Deed| matches!(deed, Deed::Ack { .. });
                lines.iter().any(|line| line.agent == *agent && is_ack(&line.deed))
            };
            if self.agents.iter().all(has_acted) {
                return Ok(Vec::new());
            }
            if clock::now() > end {
                let text = format!("not all agents work after {BEGIN_MAX:?}: {}", self.last_said());
                return Ok(vec![Violation::new(Promise::Lost, text)]);
            }
            self.mind()?;
            clock::pause(Duration::from_millis(20));
        }
    }

    /// Does what a schedule says.
    pub(super) fn act(&mut self, act: Act, seed: &mut Seed) -> anyhow::Result<()> {
        match act.lane {
            Lane::Node(number) => self.act_on_node(number, act.trouble, act.part, seed),
            Lane::Database => self.act_on_database(act.trouble, act.part, seed),
        }
    }

    fn act_on_node(
        &mut self,
        number: usize,
        trouble: Trouble,
        part: Part,
        seed: &mut Seed,
    ) -> anyhow::Result<()> {
        let (network, node) = (&self.network, &mut self.nodes[number]);
        node.trouble = (part != Part::End).then_some(trouble);
        match (trouble, part) {
            (Trouble::NodeKilled, Part::Begin) => {
                // A machine without power says nothing; one that only crashes closes its connections.
                if seed.below(2) == 0 {
                    network.cut(&mut node.machine.cable, Cut::BothWays)?;
                }
                node.machine.kill()
            }
            (Trouble::NodeKilled, _) => {
                network.mend(&mut node.machine.cable)?;
                self.boot(number, seed)
            }
            (Trouble::DaemonKilled, Part::Begin) => {
                node.signal_daemon(Signal::KILL);
                Ok(())
            }
            (Trouble::DaemonKilled, _) => node.start(&self.relight),
            (Trouble::DaemonFrozen, Part::Begin) => {
                node.signal_daemon(Signal::STOP);
                Ok(())
            }
            (Trouble::DaemonFrozen, _) => {
                node.signal_daemon(Signal::CONT);
                Ok(())
            }
            (Trouble::NodeFrozen, Part::Begin) => {
                node.frozen_from_ns = clock::wall_ns();
                node.machine.freeze()
            }
            (Trouble::NodeFrozen, _) => {
                node.machine.thaw(seed);
                let (from_ns, until_ns) = (node.frozen_from_ns, clock::wall_ns());
                self.freezes.push(Freeze { node: node.name.clone(), from_ns, until_ns });
                Ok(())
            }
            (Trouble::Cut(cut), Part::Begin) => network.cut(&mut node.machine.cable, cut),
            (Trouble::Flapping, Part::Begin | Part::Again) if seed.below(2) == 0 => {
                let cuts = [Cut::BothWays, Cut::ToServer, Cut::FromServer];
                network.cut(&mut node.machine.cable, cuts[seed.below(3) as usize])
            }
            (Trouble::Cut(_) | Trouble::Flapping, _) => network.mend(&mut node.machine.cable),
            (Trouble::ClockTurned, Part::Begin) => {
                let skew = SKEWS[seed.below(SKEWS.len() as u64) as usize];
                Ok(std::fs::write(&node.clock_file, skew)?)
            }
            (Trouble::ClockTurned, _) => Ok(()),
            (Trouble::DatabaseKilled | Trouble::ConnectionsKilled, _) => {
                unreachable!("a node is no database")
            }
        }
    }

    fn act_on_database(
        &mut self,
        trouble: Trouble,
        part: Part,
        seed: &mut Seed,
    ) -> anyhow::Result<()> {
        match (trouble, part) {
            (Trouble::DatabaseKilled, Part::Begin) => {
                self.cluster.kill();
                self.is_database_up = false;
            }
            (Trouble::DatabaseKilled, _) => self.start_database(),
            (_, _) if self.is_database_up => self.kill_connections(seed),
            (_, _) => {}
        }
        Ok(())
    }

    fn start_database(&mut self) {
        if !self.is_database_up {
            self.cluster.start_server();
            self.is_database_up = true;
        }
    }

    fn kill_connections(&self, seed: &mut Seed) {
        let all = self.cluster.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'relight' ORDER BY pid",
        );
        let chosen: Vec<&str> = all.lines().filter(|_| seed.below(2) == 0).collect();
        if !chosen.is_empty() {
            let pids = chosen.join(", ");
            self.cluster.sql(&format!(
                "SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{pids}]) AS pid"
            ));
        }
    }

    /// Cuts node after node off, then mends them in another order.
    pub(super) fn one_by_one(&mut self, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        for part in [Part::Begin, Part::End] {
            seed.shuffle(&mut order);
            for &number in &order {
                let cuts = [Cut::BothWays, Cut::ToServer, Cut::FromServer];
                let trouble = Trouble::Cut(cuts[seed.below(3) as usize]);
                self.act_on_node(number, trouble, part, seed)?;
                let pause = seed.between(LEASE / 10, LEASE / 2);
                found.extend(self.wait_until(clock::now() + pause)?);
            }
        }
        Ok(found)
    }

    /// Something befalls every node at once, now and then the database too, and lasts longer than all
    /// leases.
    pub(super) fn last_blow(&mut self, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        for number in 0..self.nodes.len() {
            let trouble = LAST_BLOWS[seed.below(LAST_BLOWS.len() as u64) as usize];
            self.act_on_node(number, trouble, Part::Begin, seed)?;
        }
        if seed.below(3) == 0 {
            self.act_on_database(Trouble::DatabaseKilled, Part::Begin, seed)?;
        }
        self.wait_until(clock::now() + seed.between(LEASE, LEASE * 3 / 2))
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
    fn mind(&mut self) -> anyhow::Result<()> {
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

    /// Writes with the fence of an attempt that has a successor, as a message would that was long on its
    /// way. Once for each such fence.
    fn write_late(&mut self) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for (agent, fence) in self.overtaken()? {
            let path = format!("/api/tasks/{agent}/steps/late/begin");
            let body = json!({"fence": fence});
            let Some(answered) = self.ask_somebody("POST", &path, Some(&body)) else { continue };
            match (answered.status, answered.body["error"]["code"].as_str()) {
                (409, Some("fenced")) => self.late_refused += 1,
                (503 | 408, _) => continue,
                (status, _) => {
                    let text = format!(
                        "{agent}: a write with the old fence {fence} was answered {status} {}",
                        answered.body
                    );
                    found.push(Violation::new(Promise::Fence, text));
                }
            }
            self.tried_late.push((agent, fence));
        }
        Ok(found)
    }

    /// Asks one of those who are not in trouble, another one each time, and does not wait for long: the
    /// schedule goes on.
    fn ask_somebody(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<client::Answered> {
        self.asked += 1;
        let well: Vec<&Node> = self.nodes.iter().filter(|node| node.trouble.is_none()).collect();
        let node = well.get(self.asked % well.len().max(1)).filter(|_| self.is_database_up)?;
        let socket = node.machine.home().join("relight.sock");
        client::send(&socket, method, path, body, ASK_MAX).ok()
    }

    /// Each agent with the fence before its newest, where nobody tried that one yet.
    fn overtaken(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let lines = self.log.lines()?;
        let of_agent = |agent: &String| {
            let births = lines.iter().filter(|line| line.agent == *agent);
            let mut fences = births.filter_map(|line| match line.deed {
                Deed::Born { fence, .. } => Some(fence),
                _ => None,
            });
            let newest = fences.next_back()?;
            let before = fences.next_back().filter(|before| *before < newest)?;
            Some((agent.clone(), before))
        };
        let all = self.agents.iter().filter_map(of_agent);
        Ok(all.filter(|late| !self.tried_late.contains(late)).collect())
    }

    /// Ends every trouble: cables, machines, daemons and the database.
    pub(super) fn heal(&mut self, seed: &mut Seed) -> anyhow::Result<()> {
        self.start_database();
        for number in 0..self.nodes.len() {
            if let Some(trouble) = self.nodes[number].trouble {
                self.act_on_node(number, trouble, Part::End, seed)?;
            }
            self.network.mend(&mut self.nodes[number].machine.cable)?;
        }
        self.mind()
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
                lines.iter().any(|line| line.agent == *agent && line.deed == Deed::Done)
            };
            let is_empty = async |relight| checker::queue::is_over(&relight, TASKS).await;
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

    /// The node with most agents is gone for good, and only its lease tells of it.
    pub(super) fn lose_one(&mut self) -> anyhow::Result<()> {
        let network = &self.network;
        let node = self.nodes.iter_mut().max_by_key(|node| node.machine.agents());
        let node = node.context("a fleet has nodes")?;
        node.trouble = Some(Trouble::NodeKilled);
        network.cut(&mut node.machine.cable, Cut::BothWays)?;
        node.machine.kill()
    }

    /// A step that was lost twice with its node waits for a person, who looks at the world and says.
    fn resolve_parked(&mut self) -> anyhow::Result<()> {
        if self.resolved_at.elapsed() < RESOLVE_PAUSE {
            return Ok(());
        }
        self.resolved_at = clock::now();
        let Some(blocked) = self.ask_somebody("GET", "/api/tasks?status=blocked", None) else {
            return Ok(());
        };
        let tasks = blocked.body["items"].as_array().cloned().unwrap_or_default();
        for id in tasks.iter().filter_map(|task| task["id"].as_str()) {
            let path = format!("/api/tasks/{id}");
            let Some(task) = self.ask_somebody("GET", &path, None) else { continue };
            let Some(step) = task.body["in_doubt"][0].as_str() else { continue };
            let lines = self.log.lines()?;
            let is_its =
                |deed: &Deed| matches!(deed, Deed::Effect { step: its, .. } if its == step);
            let happened = lines.iter().any(|line| line.agent == id && is_its(&line.deed));
            let path = format!("{path}/steps/{step}/resolve");
            let answered = self.ask_somebody("POST", &path, Some(&json!({"happened": happened})));
            self.resolved += u64::from(answered.is_some_and(|answered| answered.status == 200));
        }
        Ok(())
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

impl Node {
    fn start(&mut self, relight: &Path) -> anyhow::Result<()> {
        let configuration = self.machine.home().parent().context("a home has a folder")?;
        let configuration = configuration.join("relight.toml").display().to_string();
        let relight = relight.display().to_string();
        // Power cuts are what this is about: nobody is to wait for a person after the third.
        let words = [&relight, "up", "--config", &configuration, "--no-http", "--resume-anyway"];
        self.machine.start(&[&words[..], &["--node", &self.name]].concat())?;
        self.started_at = clock::now();
        Ok(())
    }

    fn signal_daemon(&self, signal: Signal) {
        if let Some(pid) = self.machine.daemon() {
            processes::signal(pid, signal);
        }
    }
}
