//! `scan`: how fast `relight check` looks over many unfinished tasks and checkpoint files.
//!
//! Twice each: while all are fresh (the usual answer, held to the target) and when every
//! one is stale, with as many lines to print. Answers are verified before they are timed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::call::Call;
use crate::contest::Contest;
use crate::group::Sink as _;
use crate::holder::Adder;
use crate::load::{Carrier, Until, per_second};
use crate::product::{Library, checkpoint_text};
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::sinks::Table;
use crate::stage::Stage;

const COUNT: usize = 100_000;
const COUNT_QUICK: usize = 10_000;
const ADDERS: usize = 250;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = task_rows(stage)?;
    rows.extend(file_rows(stage)?);
    Ok(rows)
}

fn task_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let count = stage.pick(COUNT, COUNT_QUICK);
    let target = Target::ValueMax(100.0 * count as f64 / COUNT as f64);
    let what = format!("check, {count} tasks");
    let folder = stage.subfolder("tasks")?;
    let home = stage.subfolder("tasks/home")?;
    let library = stage.runtime.block_on(Library::open(&home))?;
    add_tasks(stage, &Arc::new(library), count)?;
    let floor = filled_table(&folder.join("raw.db"), count)?;
    let check = check_call(stage, &folder);
    wait_until_stale();
    let (fresh, stale) = (fresh(&check, "10m")?, stale(&check, "1s", count)?);

    let mut contest = Contest::default();
    contest.enter("fresh", |_| fresh.wall_ms());
    contest.enter("stale", |_| stale.wall_ms());
    contest.enter("raw", |_| {
        let began = Instant::now();
        assert_eq!(floor.read_all()?, count, "the floor has as many rows");
        Ok(began.elapsed().as_secs_f64() * 1e3)
    });
    let results = contest.run(stage.pick(15, 5))?;
    let row = |what: String, contestant| {
        Row::new(what, "ms")
            .figure(results.get(contestant))
            .beside("raw SQLite, every row read in process", results.get("raw"))
    };
    Ok(vec![
        row(what.clone(), "fresh").target(target),
        row(what + ", all stale", "stale"),
    ])
}

fn file_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let count = stage.pick(COUNT, COUNT_QUICK);
    let target = Target::TimesFasterMin(10.0);
    let what = format!("check, {count} files");
    let folder = stage.subfolder("files")?;
    let memory = stage.subfolder("files/memory/checkpoints")?;
    write_files(&memory, count)?;
    let check = check_call(stage, &folder).argument("--root").argument(".");
    wait_until_stale();
    let (fresh_check, stale_check) = (fresh(&check, "10m")?, stale(&check, "1s", count)?);

    let mut contest = Contest::default();
    contest.enter("fresh", |_| fresh_check.wall_ms());
    contest.enter("stale", |_| stale_check.wall_ms());
    contest.enter("read", |_| read_all_ms(&memory));
    if let Some(python) = &stage.python {
        let script = stage.script("scan.py", include_str!("../floors/scan.py"))?;
        let scan = Call::new(python, &folder)
            .argument(script.to_string_lossy())
            .argument(".");
        let (fresh_scan, stale_scan) = (scan.clone().argument("600"), scan.argument("1"));
        ensure!(
            fresh_scan.stdout()?.starts_with("OK"),
            "the Python scan found stale files"
        );
        let stale_scan = stale_scan.expecting(1);
        contest.enter("python fresh", move |_| fresh_scan.wall_ms());
        contest.enter("python stale", move |_| stale_scan.wall_ms());
    }
    let results = contest.run(stage.pick(7, 3))?;
    let row = |what: &str, contestant| Row::new(what, "ms").figure(results.get(contestant));
    let python = "Python json + glob";
    let all_stale = format!("{what}, all stale");
    Ok(vec![
        row(&what, "fresh")
            .faster_than(python, results.get("python fresh"))
            .target(target),
        row(&what, "fresh").beside("every file read, one core", results.get("read")),
        row(&all_stale, "stale").faster_than(python, results.get("python stale")),
    ])
}

pub(crate) fn add_tasks(stage: &Stage, library: &Arc<Library>, count: usize) -> anyhow::Result<()> {
    let adder = |number| Adder {
        library: library.clone(),
        number,
        added: 0,
    };
    let adders: Vec<Adder> = (0..ADDERS).map(adder).collect();
    assert_eq!(count % ADDERS, 0, "every adder adds as many");
    per_second(
        &stage.runtime,
        Carrier::Tasks,
        adders,
        Until::Written(count / ADDERS),
    )
    .map(drop)
}

fn filled_table(path: &Path, count: usize) -> anyhow::Result<Table> {
    let mut table = Table::open(path)?;
    let bodies: Vec<Arc<str>> = vec![prose(300).into(); count];
    table.commit(&bodies)?;
    Ok(table)
}

fn write_files(folder: &Path, count: usize) -> anyhow::Result<()> {
    for number in 0..count {
        let workflow = format!("workflow-{number}");
        fs::write(
            folder.join(format!("{workflow}.json")),
            checkpoint_text(&workflow),
        )?;
    }
    Ok(())
}

fn check_call(stage: &Stage, folder: &Path) -> Call {
    let home = folder.join("home").to_string_lossy().into_owned();
    Call::new(stage.relight(), folder)
        .environment("RELIGHT_HOME", home)
        .argument("check")
}

fn wait_until_stale() {
    thread::sleep(Duration::from_millis(2100));
}

fn fresh(check: &Call, threshold: &str) -> anyhow::Result<Call> {
    let call = check.clone().argument("--stale").argument(threshold);
    ensure!(
        call.stdout()?.starts_with("OK"),
        "`check` found stale work among fresh"
    );
    Ok(call)
}

fn stale(check: &Call, threshold: &str, count: usize) -> anyhow::Result<Call> {
    let call = check
        .clone()
        .argument("--stale")
        .argument(threshold)
        .expecting(1);
    let alerts = call
        .stdout()?
        .lines()
        .filter(|line| line.starts_with("ALERT"))
        .count();
    ensure!(
        alerts == count,
        "`check` named {alerts} of {count} stale ones"
    );
    Ok(call)
}

fn read_all_ms(folder: &Path) -> anyhow::Result<f64> {
    let began = Instant::now();
    for entry in fs::read_dir(folder)? {
        fs::read(entry?.path())?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
