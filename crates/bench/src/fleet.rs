//! `fleet`: the store in PostgreSQL, beside pgbench with prepared INSERTs on the same server, synced; then
//! what is written, what pruning costs, and nodes that die (`wal`, `pruning`, `takeover`).

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use relight_testkit::postgres::{Cluster, Durability};

use crate::contest::{Contest, Results};
use crate::holder::{Holder, RESULT_BYTES};
use crate::load::{Carrier, Until, per_second};
use crate::product::{Backlog, Library};
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::stage::Stage;
use crate::{claimer, pruning, takeover, wal};

/// Tasks of one node that write at once.
const AT_ONCE: usize = 256;
/// So many nodes have the same number of tasks together.
const NODES: [usize; 2] = [4, 16];
/// Those who claim at once, and connections of the raw floor.
const WORKERS: usize = 64;
/// What all workers claim in a round.
const TASKS: usize = 3_200;
/// Finished tasks that stand in the store beside those that are claimed.
const FINISHED: usize = 1_000_000;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let Some(cluster) = Cluster::start(Durability::Synced) else {
        let row = Row::new(steps(1), "steps/s");
        let row = row.note(Some(
            "there is no PostgreSQL (install the package postgresql)",
        ));
        return Ok(vec![row.target(Target::TimesFloorMin(0.6))]);
    };
    // Before anything is there that the server would tidy up meanwhile.
    let costs = wal::rows(stage, &cluster)?;
    let script = raw_script(stage, &cluster)?;
    let open = |schema: &str| {
        let url = cluster.url(&format!("?schema={schema}&sslmode=disable"));
        stage.runtime.block_on(Library::open_url(&url))
    };
    let library = Arc::new(open("relight")?);
    let full = Arc::new(open("full")?);
    let finished = stage.pick(FINISHED, FINISHED / 100);
    stage
        .runtime
        .block_on(full.fill("finished", finished, Backlog::Finished))?;
    cluster.sql("ANALYZE");
    let seconds = stage.pick(3, 1);
    let until = Until::Elapsed(Duration::from_secs(seconds));
    let fleet = |count: &usize| (0..*count).map(|_| open("relight").map(Arc::new)).collect();
    let nodes: Vec<Vec<Arc<Library>>> = NODES.iter().map(fleet).collect::<anyhow::Result<_>>()?;
    let one = vec![Arc::clone(&library)];
    let beside_many = vec![Arc::clone(&full)];
    let mut contest = Contest::default();
    for connections in [1, WORKERS] {
        let (cluster, script) = (&cluster, &script);
        contest.enter(raw(connections), move |_| {
            pgbench(cluster, script, connections, seconds)
        });
    }
    for at_once in [1, AT_ONCE] {
        let library = &library;
        contest.enter(steps(at_once), move |round| {
            let name = format!("{at_once}-{round}");
            let holders = Holder::start(&stage.runtime, library, &name, at_once)?;
            per_second(&stage.runtime, Carrier::Tasks, holders, until)
        });
    }
    for nodes in &nodes {
        let name = steps_of(nodes.len());
        contest.enter(&name, move |round| {
            steps_per_second(stage, nodes, round, until)
        });
    }
    let mut claimed = vec![(claims(0), &one), (claims(finished), &beside_many)];
    claimed.extend(nodes.iter().map(|nodes| (claims_by(nodes.len()), nodes)));
    let each = stage.pick(TASKS, TASKS / 2) / WORKERS;
    for (name, libraries) in claimed {
        contest.enter(name, move |round| {
            let round = format!("round-{}-{round}", libraries.len());
            claimer::per_second_of(stage, libraries, WORKERS, each, &round)
        });
    }
    let results = contest.run(stage.pick(5, 2))?;
    let mut rows = table(&results, finished);
    rows.extend(costs);
    rows.extend(pruning::rows(stage, &full)?);
    rows.extend(takeover::rows(stage, &cluster)?);
    Ok(rows)
}

fn table(results: &Results, finished: usize) -> Vec<Row> {
    let beside_raw = |at_once: usize, connections: usize, times: f64| {
        let name = steps(at_once);
        let row = Row::new(&name, "steps/s").figure(results.get(&name));
        let floor = raw(connections);
        row.beside(&floor, results.get(&floor))
            .target(Target::TimesFloorMin(times))
    };
    let claimed = Row::new(claims(0), "tasks/s").figure(results.get(&claims(0)));
    let beside_many = Row::new(claims(finished), "tasks/s").figure(results.get(&claims(finished)));
    let of_nodes = |name: String, unit, beside: String| {
        let row = Row::new(&name, unit).figure(results.get(&name));
        row.beside(&beside, results.get(&beside))
    };
    vec![
        beside_raw(1, 1, 0.6),
        beside_raw(AT_ONCE, WORKERS, 2.0),
        of_nodes(steps_of(NODES[0]), "steps/s", steps(AT_ONCE)),
        of_nodes(steps_of(NODES[1]), "steps/s", steps(AT_ONCE)),
        claimed.target(Target::ValueMin(2_000.0)),
        beside_many
            .beside(claims(0), results.get(&claims(0)))
            .target(Target::TimesFloorMin(0.9)),
        of_nodes(claims_by(NODES[0]), "tasks/s", claims(0)),
        of_nodes(claims_by(NODES[1]), "tasks/s", claims(0)),
    ]
}

fn steps(at_once: usize) -> String {
    match at_once {
        1 => "durable steps, one task".to_owned(),
        _ => format!("durable steps, {at_once} tasks of one node"),
    }
}

fn steps_of(nodes: usize) -> String {
    format!("durable steps, {AT_ONCE} tasks of {nodes} nodes")
}

fn raw(connections: usize) -> String {
    format!("prepared INSERT+commit, {connections} connections")
}

fn claims(finished: usize) -> String {
    match finished {
        0 => format!("claim and done, {WORKERS} workers"),
        _ => format!("claim and done, {WORKERS} workers, {finished} finished"),
    }
}

fn claims_by(nodes: usize) -> String {
    format!("claim and done, {WORKERS} workers of {nodes} nodes")
}

/// The table, and what pgbench does to it: one row of the size of a step's result.
fn raw_script(stage: &Stage, cluster: &Cluster) -> anyhow::Result<std::path::PathBuf> {
    cluster.sql("CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)");
    let body = prose(RESULT_BYTES)
        .replace(['\'', ':'], "")
        .replace('\n', " ");
    stage.script(
        "raw.sql",
        &format!("INSERT INTO raw (body) VALUES ('{body}');\n"),
    )
}

fn pgbench(
    cluster: &Cluster,
    script: &std::path::Path,
    connections: usize,
    seconds: u64,
) -> anyhow::Result<f64> {
    let mut bench = Command::new(cluster.program("pgbench"));
    bench
        .args([
            "-n",
            "-M",
            "prepared",
            "-h",
            "127.0.0.1",
            "-U",
            "relight",
            "-f",
        ])
        .arg(script);
    bench.args([
        "-p",
        &cluster.port().to_string(),
        "-c",
        &connections.to_string(),
    ]);
    bench.args([
        "-j",
        &connections.min(2).to_string(),
        "-T",
        &seconds.to_string(),
        "postgres",
    ]);
    let output = bench.output().context("pgbench runs")?;
    ensure!(
        output.status.success(),
        "pgbench: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let figure = line
        .and_then(|line| line.split(' ').next())
        .context("a figure of pgbench")?;
    Ok(figure.parse()?)
}

/// All nodes have as many tasks each.
fn steps_per_second(
    stage: &Stage,
    nodes: &[Arc<Library>],
    round: usize,
    until: Until,
) -> anyhow::Result<f64> {
    let each = AT_ONCE / nodes.len();
    let mut holders = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let name = format!("{}-{number}-{round}", nodes.len());
        holders.extend(Holder::start(&stage.runtime, node, &name, each)?);
    }
    per_second(&stage.runtime, Carrier::Tasks, holders, until)
}
