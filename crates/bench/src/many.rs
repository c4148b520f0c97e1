//! Quiet agents by the hundred and by the thousand: memory, idleness, starting and adopting all of them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use relight_testkit::world::clock::monotonic_ns;
use relight_testkit::world::{clock, processes};

use crate::births::Births;
use crate::keeper::{Keeper, prefix_of, span_ms};
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::usage::{Memory, Work};

/// How many agents, and the most memory that the daemon may have then, in MiB.
const COUNTS: [(usize, Option<f64>); 3] = [(1, None), (100, Some(20.0)), (1_000, Some(60.0))];
/// With so many agents idleness has a target.
const IDLE_COUNT: usize = 100;
/// What idleness is measured over.
const IDLE: Duration = Duration::from_secs(10);
/// After that everything that a start leaves to do is done.
const CALM: Duration = Duration::from_secs(3);
/// Of the most agents, all are adopted by then or never.
const ADOPT_MAX: Duration = Duration::from_secs(60);

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (count, rss_max) in COUNTS {
        // A quick run shows that everything works, and a thousand is the same as a hundred then.
        if stage.quick && count > 100 {
            continue;
        }
        let measured = measure(stage, count);
        let note = measured.as_ref().err().map(|error| format!("{error:#}"));
        rows.extend(table(
            count,
            rss_max,
            measured.ok().as_ref(),
            note.as_deref(),
        ));
    }
    Ok(rows)
}

/// What was found with so many agents.
struct Found {
    start_ms: f64,
    floor_start_ms: f64,
    daemon: Memory,
    shim: Memory,
    shims: usize,
    idle: Work,
    idle_of_shims: Work,
    adopt_ms: f64,
}

fn measure(stage: &Stage, count: usize) -> anyhow::Result<Found> {
    let name = format!("many-{count}");
    let mut keeper = Keeper::prepared(stage, &name, count)?;
    let began = monotonic_ns();
    keeper.serve()?;
    let mut keeper = keeper.wait_for_all(count)?;
    let last = keeper
        .workers
        .iter()
        .map(|birth| birth.at_ns)
        .max()
        .unwrap_or(began);
    let floor_start_ms = spawn_all_ms(stage, count)?;
    thread::sleep(CALM);
    let prefix = prefix_of(&name);
    let shims = processes::shims(|agent| agent.starts_with(&prefix));
    let shims: Vec<u32> = shims.into_iter().map(|(pid, _)| pid).collect();
    let daemon_pid = keeper.pid()?;
    let idle_time = stage.pick(IDLE, Duration::from_secs(2));
    let before = (Work::of(&[daemon_pid])?, Work::of(&shims)?);
    thread::sleep(idle_time);
    let after = (Work::of(&[daemon_pid])?, Work::of(&shims)?);
    Ok(Found {
        start_ms: span_ms(began, last),
        floor_start_ms,
        daemon: Memory::of(daemon_pid)?,
        shim: Memory::mean(&shims)?,
        shims: shims.len(),
        idle: after.0.since(before.0),
        idle_of_shims: after.1.since(before.1),
        adopt_ms: adopt_ms(&mut keeper, count)?,
    })
}

/// Kills the daemon; how long a new one takes until it says that every agent is its own.
fn adopt_ms(keeper: &mut Keeper, count: usize) -> anyhow::Result<f64> {
    keeper.kill_supervisor()?;
    let began = Instant::now();
    keeper.serve()?;
    let pid = keeper.pid()?;
    let home = keeper.home.clone().context("a home of Relight's")?;
    let is_adopted = || {
        if !home.answers() {
            return Ok(false);
        }
        let agents = home.agents()?;
        // Where ps does not tell who supervises, a daemon that answers has to do.
        let ours = agents.iter().filter(|agent| {
            agent.state == "running" && agent.supervisor.is_none_or(|supervisor| supervisor == pid)
        });
        Ok(ours.count() == count)
    };
    ensure!(
        clock::becomes(ADOPT_MAX, is_adopted)?,
        "not all adopted within {ADOPT_MAX:?}"
    );
    let took = began.elapsed();
    let born = keeper.births.next_within(Duration::from_millis(500))?;
    ensure!(
        born.is_none(),
        "{born:?} was started while its agent lived: a double"
    );
    let alive = keeper
        .workers
        .iter()
        .filter(|worker| processes::is_alive(worker.pid))
        .count();
    ensure!(
        alive == count,
        "{alive} of {count} workers outlived the daemon"
    );
    Ok(took.as_secs_f64() * 1e3)
}

/// The floor of a start: as many workers, started one after the other and left alone.
fn spawn_all_ms(stage: &Stage, count: usize) -> anyhow::Result<f64> {
    let mut births = Births::in_folder(&stage.subfolder(&format!("spawn-{count}"))?)?;
    let began = monotonic_ns();
    let workers: Vec<Child> = (0..count)
        .map(|_| worker(stage, births.path()))
        .collect::<anyhow::Result<_>>()?;
    let born = births.take(count, ADOPT_MAX);
    for mut worker in workers {
        worker.kill()?;
        worker.wait()?;
    }
    let last = born?.iter().map(|birth| birth.at_ns).max().unwrap_or(began);
    Ok(span_ms(began, last))
}

fn worker(stage: &Stage, pipe: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(stage.floor("floor-worker"));
    Ok(command.arg(pipe).env_clear().stdin(Stdio::null()).spawn()?)
}

fn table(
    count: usize,
    rss_max: Option<f64>,
    found: Option<&Found>,
    note: Option<&str>,
) -> Vec<Row> {
    let row = |what: &str, unit: &'static str, value: &dyn Fn(&Found) -> f64| {
        let samples = found.map(|found| Samples::new(vec![value(found)]));
        Row::new(format!("{what}, {count} agents"), unit).figure(samples.as_ref())
    };
    let judged = |row: Row, max: Option<f64>| match max {
        Some(max) => row.target(Target::ValueMax(max)),
        None => row,
    };
    let is_idle_judged = count == IDLE_COUNT;
    let floor = found.map(|found| Samples::new(vec![found.floor_start_ms]));
    let mut rows = vec![
        row("start until the last one runs", "ms", &|found| {
            found.start_ms
        })
        .beside("as many bare spawns", floor.as_ref())
        .note(note),
        judged(
            row("daemon RSS", "MiB", &|found| found.daemon.rss_kib / 1024.0),
            rss_max,
        ),
        row("daemon PSS", "MiB", &|found| found.daemon.pss_kib / 1024.0),
        row("a shim's RSS", "MiB", &|found| found.shim.rss_kib / 1024.0),
        judged(
            row("a shim's PSS", "MiB", &|found| found.shim.pss_kib / 1024.0),
            Some(0.3),
        ),
        judged(
            row("idle CPU of the daemon", "ms", &|f| f.idle.cpu_ms),
            is_idle_judged.then_some(1.0),
        ),
        judged(
            row("idle wake-ups of the daemon", "", &|found| {
                found.idle.wake_ups
            }),
            is_idle_judged.then_some(10.0),
        ),
        row("idle wake-ups of all shims", "", &|found| {
            found.idle_of_shims.wake_ups
        }),
    ];
    let adopt_max = (count == 1_000).then_some(2_000.0);
    rows.push(judged(
        row("adopt after SIGKILL", "ms", &|found| found.adopt_ms),
        adopt_max,
    ));
    if let Some(found) = found.filter(|found| found.shims != count) {
        let note = format!("{} shims were found", found.shims);
        rows.push(Row::new(format!("shims, {count} agents"), "").note(Some(note)));
    }
    rows
}
