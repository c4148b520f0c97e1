//! Nodes that are killed and nodes that leave: how soon what they had goes on elsewhere.
//!
//! Pairs of nodes of one fleet, each pair with one agent that only its two nodes may have. Whoever has
//! it is ended, and its successor says when its first instruction ran; then the ended node joins anew.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use relight_testkit::postgres::Cluster;
use relight_testkit::world::clock::monotonic_ns;
use relight_testkit::world::daemon::{Entry, Home, Supervisor};
use relight_testkit::world::processes;

use crate::births::{Birth, Births};
use crate::keeper::{prefix_of, span_ms};
use crate::product::Library;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;

/// The shortest lease there is.
const LEASE_MS: u64 = 3_000;
/// How often it is renewed.
const RENEW_MS: u64 = 1_000;
/// Pairs that are killed side by side.
const PAIRS: usize = 8;
/// Kills of all pairs together.
const KILLS: usize = 200;
/// Leaves of all pairs together.
const LEAVES: usize = 40;
/// No takeover takes longer.
const BACK_MAX: Duration = Duration::from_secs(30);
/// Tasks that a lost node held.
const TASKS: usize = 1_000;
/// Longest time until all of them are given to their strategy.
const SWEPT_MAX: Duration = Duration::from_secs(60);

pub(crate) fn rows(stage: &Stage, cluster: &Cluster) -> anyhow::Result<Vec<Row>> {
    let pairs = stage.pick(PAIRS, PAIRS / 2);
    let url = cluster.url("?schema=takeover&sslmode=disable");
    // The schema is made once, not by all at the same time.
    stage.runtime.block_on(Library::open_url(&url))?;
    let kills = stage.pick(KILLS, PAIRS) / pairs;
    let killed = by_pairs(stage, &url, pairs, "killed", kills, Pair::kill_ms)?;
    let leaves = stage.pick(LEAVES, PAIRS) / pairs;
    let left = by_pairs(stage, &url, pairs, "left", leaves, Pair::leave_ms)?;
    let swept = (0..stage.pick(5, 1)).map(|round| swept_ms(stage, cluster, round));
    let swept = Samples::new(swept.collect::<anyhow::Result<_>>()?);
    let count = kills * pairs;
    let what = format!("killed node to first instruction elsewhere, lease {LEASE_MS} ms");
    let (lease_ms, p99) = (LEASE_MS as f64, Samples::new(vec![killed.p99()]));
    Ok(vec![
        Row::new(&what, "ms").figure(Some(&killed)),
        Row::new(format!("{what}, p99 of {count}"), "ms")
            .figure(Some(&p99))
            .target(Target::ValueMax(lease_ms + 1_000.0)),
        Row::new("node that leaves to first instruction elsewhere", "ms")
            .figure(Some(&left))
            .target(Target::ValueMax(500.0)),
        Row::new(
            format!("{TASKS} tasks of a lost node recovered, since its lease ran out"),
            "ms",
        )
        .figure(Some(&swept))
        .target(Target::ValueMax(3_000.0)),
    ])
}

/// Each pair does it so often, all at the same time.
fn by_pairs(
    stage: &Stage,
    url: &str,
    pairs: usize,
    name: &str,
    times: usize,
    measure: fn(&mut Pair) -> anyhow::Result<f64>,
) -> anyhow::Result<Samples> {
    let mut pairs = (0..pairs)
        .map(|number| Pair::start(stage, url, &format!("{name}-{number}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let figures = thread::scope(|scope| {
        let measured: Vec<_> = pairs
            .iter_mut()
            .map(|pair| scope.spawn(move || (0..times).map(|_| measure(pair)).collect()))
            .collect();
        let joined = measured
            .into_iter()
            .map(|one| one.join().expect("a pair does not panic"));
        joined.collect::<anyhow::Result<Vec<Vec<f64>>>>()
    })?;
    Ok(Samples::new(figures.concat()))
}

/// Two nodes, and the agent that one of them has.
struct Pair {
    nodes: [Node; 2],
    births: Births,
    agent: String,
    worker: Birth,
    /// Draws the moment of the next kill between two renewals.
    random: u64,
}

/// A node, while it lives.
struct Node {
    name: String,
    home: Home,
    daemon: Option<Supervisor>,
}

impl Pair {
    fn start(stage: &Stage, url: &str, name: &str) -> anyhow::Result<Pair> {
        let folder = stage.subfolder(name)?;
        let mut births = Births::in_folder(&folder)?;
        let agent = format!("{}agent", prefix_of(name));
        let label = format!("{:?}", format!("label:{name}"));
        let program = stage.floor("floor-worker").display().to_string();
        let pipe = births.path().display().to_string();
        let entry = Entry::at_once(&agent, &[&program, &pipe]).with("placement", &label);
        let node = |side: &str| -> anyhow::Result<Node> {
            let mut home = Home::new(stage.relight(), &folder.join(side))?;
            home.variables
                .push(("RELIGHT_STORE".to_owned(), url.to_owned()));
            home.configure(std::slice::from_ref(&entry))?;
            configure_node(&home, &format!("labels = [{name:?}]\n"))?;
            let mut node = Node {
                name: format!("{name}-{side}"),
                home,
                daemon: None,
            };
            node.up()?;
            Ok(node)
        };
        let nodes = [node("a")?, node("b")?];
        let worker = births
            .next(BACK_MAX)
            .with_context(|| nodes[0].home.last_said())?;
        let random = u64::from(worker.pid);
        Ok(Pair {
            nodes,
            births,
            agent,
            worker,
            random,
        })
    }

    /// SIGKILL of everything that a node is, at any moment; until its agent runs on the other one.
    fn kill_ms(&mut self) -> anyhow::Result<f64> {
        self.pause();
        let node = self.holder()?;
        let shims = processes::shims(|agent| agent == self.agent);
        let daemon = self.nodes[node].daemon.take().context("its node lives")?;
        let began = monotonic_ns();
        processes::kill(daemon.pid());
        shims.iter().for_each(|(shim, _)| processes::kill(*shim));
        processes::kill(self.worker.pid);
        daemon.kill()?;
        self.born_after(began, node)
    }

    /// SIGTERM; until its agent runs on the other one.
    fn leave_ms(&mut self) -> anyhow::Result<f64> {
        self.pause();
        let node = self.holder()?;
        let daemon = self.nodes[node].daemon.take().context("its node lives")?;
        let began = monotonic_ns();
        daemon.terminate()?;
        self.born_after(began, node)
    }

    fn born_after(&mut self, began: u64, ended: usize) -> anyhow::Result<f64> {
        let other = &self.nodes[1 - ended];
        self.worker = self
            .births
            .next(BACK_MAX)
            .with_context(|| other.home.last_said())?;
        ensure!(self.holder()? == 1 - ended, "it came back where it was");
        self.nodes[ended].up()?;
        Ok(span_ms(began, self.worker.at_ns))
    }

    /// Which of the two has the agent: its home is the agent's.
    fn holder(&self) -> anyhow::Result<usize> {
        let environment = fs::read(format!("/proc/{}/environ", self.worker.pid))?;
        let is_in = |node: &Node| {
            let home = format!("HOME={}", node.home.folder.display());
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == home.as_bytes())
        };
        self.nodes
            .iter()
            .position(is_in)
            .context("the agent runs on one of the two")
    }

    /// Anywhere between two renewals.
    fn pause(&mut self) {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        thread::sleep(Duration::from_millis((self.random >> 33) % RENEW_MS));
    }
}

impl Node {
    /// Starts it, and waits until it answers.
    fn up(&mut self) -> anyhow::Result<()> {
        let daemon = self.home.up(&["--node", &self.name])?;
        daemon.is_ready(&self.home)?;
        self.daemon = Some(daemon);
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(daemon) = node.daemon.take() {
                // Gone or not: the agent is ended below.
                let _ = daemon.kill();
            }
        }
        processes::end_all(|agent| agent == self.agent);
    }
}

fn configure_node(home: &Home, more: &str) -> anyhow::Result<()> {
    let file = home.folder.join("relight.toml");
    let agents = fs::read_to_string(&file).unwrap_or_default();
    let node = format!("\n[node]\nlease = \"{LEASE_MS}ms\"\nrenew = \"{RENEW_MS}ms\"\n{more}");
    Ok(fs::write(file, agents + &node)?)
}

/// One daemon, and a node that let its lease run out while it held many tasks: from then until each of
/// them was given to its strategy.
fn swept_ms(stage: &Stage, cluster: &Cluster, round: usize) -> anyhow::Result<f64> {
    let schema = format!("swept{round}");
    let url = cluster.url(&format!("?schema={schema}&sslmode=disable"));
    let library = stage.runtime.block_on(Library::open_url(&url))?;
    let mut home = Home::new(stage.relight(), &stage.subfolder(&schema)?)?;
    home.variables.push(("RELIGHT_STORE".to_owned(), url));
    configure_node(&home, "")?;
    let mut node = Node {
        name: "heir".to_owned(),
        home,
        daemon: None,
    };
    node.up()?;
    stage
        .runtime
        .block_on(library.lose_node("lost", LEASE_MS, TASKS))?;
    let answer = swept(cluster, &schema).with_context(|| node.home.last_said());
    node.daemon.take().context("it was started")?.terminate()?;
    answer
}

fn swept(cluster: &Cluster, schema: &str) -> anyhow::Result<f64> {
    let sql = format!(
        "SELECT (SELECT COUNT(*) FROM {schema}.task WHERE held),
                (extract(epoch FROM clock_timestamp()) * 1000)::bigint - lease_until
         FROM {schema}.node WHERE name = 'lost'"
    );
    let until = monotonic_ns() + u64::try_from(SWEPT_MAX.as_nanos()).unwrap_or(u64::MAX);
    while monotonic_ns() < until {
        let found = cluster.sql(&sql);
        let (held, since_ms) = found.split_once('|').with_context(|| found.clone())?;
        if held == "0" {
            return Ok(since_ms.parse()?);
        }
    }
    anyhow::bail!("the tasks of a lost node are still held after {SWEPT_MAX:?}")
}
