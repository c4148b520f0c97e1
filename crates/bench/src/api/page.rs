//! The dashboard's first view over a store with a past: what is transferred, and how long until the
//! data is there.
//!
//! Asks for the same things as a browser does, one after the other on one connection; a browser asks
//! for several at once, and is not slower.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::daemon::Daemon;
use super::door::{Door, Stream};
use crate::holder::Holder;
use crate::load::{Carrier, Until, per_second};
use crate::product::Library;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::scan::add_tasks;
use crate::stage::Stage;

const AGENTS: usize = 1_000;
const EVENTS: usize = 100_000;
/// Tasks that the steps of the past belong to.
const TASKS: usize = 250;
/// What the first view shows, as its scripts ask for it.
const FIRST_VIEW: [&str; 5] = [
    "/api/me",
    "/api/stats?hours=24",
    "/api/events?newest=true&limit=1",
    "/api/agents?limit=20",
    "/api/events?kind=attempt.died,attempt.begun&newest=true&limit=30",
];
/// Tasks of a long list.
const LISTED: usize = 100_000;
/// What the page of all tasks shows first.
const TASKS_VIEW: [&str; 4] = [
    "/api/me",
    "/api/stats?hours=24",
    "/api/events?newest=true&limit=1",
    "/api/tasks?newest=true&limit=100",
];
/// What other views and programs ask for.
const LISTS: [&str; 5] = [
    "/api/stats",
    "/api/agents?limit=1000",
    "/api/tasks?limit=50",
    "/api/events?newest=true&limit=100",
    "/metrics",
];

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let (agents, events) = stage.pick((AGENTS, EVENTS), (AGENTS / 10, EVENTS / 10));
    let home = stage.subfolder("past")?;
    let events = make_past(stage, &home, agents, events)?;
    let daemon = Daemon::start(stage, &home)?;
    let files = named_files(&daemon.tcp)?;
    let first = load(&daemon.tcp, &files, &FIRST_VIEW)?;
    let rounds = stage.pick(20, 3);
    let again: Vec<Loaded> = (0..rounds)
        .map(|_| load(&daemon.tcp, &files, &FIRST_VIEW))
        .collect::<anyhow::Result<_>>()?;
    let one = |value: f64| Samples::new(vec![value]);
    let times = Samples::new(again.iter().map(Loaded::ms).collect());
    let beside = format!("{agents} agents, {events} events");
    let note = format!("{} files and {} answers", first.files, FIRST_VIEW.len());
    let mut rows = vec![
        Row::new("dashboard, transferred until the data is shown", "kB")
            .figure(Some(&one(first.bytes as f64 / 1e3)))
            .target(Target::ValueMax(120.0))
            .note(Some(note)),
        Row::new(
            format!("dashboard, first load of a new daemon, {beside}"),
            "ms",
        )
        .figure(Some(&one(first.ms())))
        .target(Target::ValueMax(1_000.0)),
        Row::new("dashboard, each further load", "ms").figure(Some(&times)),
    ];
    for path in LISTS {
        rows.push(list_row(&daemon.tcp, path, rounds)?);
    }
    drop(daemon);
    rows.push(task_row(stage, rounds)?);
    Ok(rows)
}

/// The first rows of a long list of tasks, as the page of all tasks asks for them.
fn task_row(stage: &Stage, rounds: usize) -> anyhow::Result<Row> {
    let count = stage.pick(LISTED, LISTED / 10);
    let home = stage.subfolder("listed")?;
    let library = stage.runtime.block_on(Library::open(&home))?;
    add_tasks(stage, &Arc::new(library), count)?;
    let daemon = Daemon::start(stage, &home)?;
    let files = named_files(&daemon.tcp)?;
    let first = load(&daemon.tcp, &files, &TASKS_VIEW)?;
    let mut times = vec![first.ms()];
    for _ in 1..rounds {
        times.push(load(&daemon.tcp, &files, &TASKS_VIEW)?.ms());
    }
    let note = format!("the first load of a new daemon: {:.0} ms", first.ms());
    let name = format!("dashboard, page of tasks until its first rows are there, {count} tasks");
    Ok(Row::new(name, "ms")
        .figure(Some(&Samples::new(times)))
        .target(Target::ValueMax(1_000.0))
        .note(Some(note)))
}

fn list_row(door: &Door, path: &str, rounds: usize) -> anyhow::Result<Row> {
    let mut stream = door.connect()?;
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    for _ in 0..rounds {
        let began = Instant::now();
        bytes = get(door, &mut stream, path)?.len();
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let note = format!("{:.1} kB", bytes as f64 / 1e3);
    Ok(Row::new(format!("GET {path}"), "ms")
        .figure(Some(&Samples::new(times)))
        .note(Some(note)))
}

/// Agents that died and came back, and tasks whose steps were done; how many events in all.
fn make_past(stage: &Stage, home: &Path, agents: usize, events: usize) -> anyhow::Result<u64> {
    let library = stage.runtime.block_on(Library::open(home))?;
    stage
        .runtime
        .block_on(library.add_agents_with_a_past(agents))?;
    let so_far = stage.runtime.block_on(library.newest_event())? as usize;
    let holders = Holder::start(&stage.runtime, &library, "past", TASKS)?;
    let each = events.saturating_sub(so_far).div_ceil(TASKS);
    per_second(
        &stage.runtime,
        Carrier::Tasks,
        holders,
        Until::Written(each),
    )?;
    stage.runtime.block_on(library.newest_event())
}

/// What the first view took.
struct Loaded {
    took: Duration,
    bytes: usize,
    files: usize,
}

impl Loaded {
    fn ms(&self) -> f64 {
        self.took.as_secs_f64() * 1e3
    }
}

fn load(door: &Door, files: &BTreeSet<String>, view: &[&str]) -> anyhow::Result<Loaded> {
    let began = Instant::now();
    let mut stream = door.connect()?;
    let mut bytes = 0;
    ask(door, &mut stream, "/", &mut bytes)?;
    for file in files {
        ask(door, &mut stream, file, &mut bytes)?;
    }
    for path in view {
        ask(door, &mut stream, path, &mut bytes)?;
    }
    Ok(Loaded {
        took: began.elapsed(),
        bytes,
        files: files.len() + 1,
    })
}

/// The files that the page names; its scripts are all named there, so that none waits for another.
fn named_files(door: &Door) -> anyhow::Result<BTreeSet<String>> {
    let answer = door.connect()?.ask(&door.plain_request("GET", "/", ""))?;
    let text = String::from_utf8(answer.body)?;
    let named = text
        .split(['"', '\''])
        .filter(|word| word.starts_with("/assets/"));
    let files: BTreeSet<String> = named.map(str::to_owned).collect();
    ensure!(files.len() > 10, "the page names only {files:?}");
    Ok(files)
}

fn ask(door: &Door, stream: &mut Stream, path: &str, bytes: &mut usize) -> anyhow::Result<Vec<u8>> {
    let answer = stream.ask(&door.request("GET", path, None))?;
    ensure!(answer.status == 200, "GET {path}: {}", answer.status);
    *bytes += answer.bytes;
    Ok(answer.body)
}

fn get(door: &Door, stream: &mut Stream, path: &str) -> anyhow::Result<Vec<u8>> {
    ask(door, stream, path, &mut 0)
}
