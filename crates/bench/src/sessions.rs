//! `sessions`: turns marked and cleared per second, and a gateway's restart with many of them in flight.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use crate::call::Call;
use crate::contest::{Contest, Results};
use crate::group::{Group, Grouped, Single};
use crate::load::{Carrier, Until, Worker, per_second};
use crate::product::Library;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::sinks::Table;
use crate::stage::Stage;

const AT_ONCE: [usize; 3] = [1, 8, 64];
const IN_FLIGHT: [usize; 3] = [1, 1_000, 100_000];
/// About what a session's row and its event hold.
const MARK_BYTES: usize = 250;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = pair_rows(stage)?;
    for count in IN_FLIGHT {
        rows.extend(restart_rows(stage, count)?);
    }
    Ok(rows)
}

/// Two durable writes, one after the other.
struct Pair<W: Worker>(W);

impl<W: Worker> Worker for Pair<W> {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.0.write().await?;
        self.0.write().await
    }
}

/// Runs one turn after the other in a conversation of its own.
struct Conversation {
    library: Arc<Library>,
    key: String,
}

impl Worker for Conversation {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.library.turn(&self.key).await
    }
}

fn pair_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let until = Until::Elapsed(Duration::from_millis(stage.pick(1_000, 200)));
    let home = stage.subfolder("sessions-home")?;
    let library = Arc::new(stage.runtime.block_on(Library::open(&home))?);
    let table = &stage.folder().join("sessions-raw.db");
    let mut contest = Contest::default();
    for at_once in AT_ONCE {
        contest.enter(raw(at_once), move |_| {
            raw_pairs(stage, table, at_once, until)
        });
        let library = Arc::clone(&library);
        contest.enter(product(at_once), move |_| {
            let conversation = |number| {
                let key = format!("chat:{at_once}:{number}");
                Conversation {
                    library: Arc::clone(&library),
                    key,
                }
            };
            let conversations = (0..at_once).map(conversation).collect();
            per_second(&stage.runtime, Carrier::Tasks, conversations, until)
        });
    }
    let results = contest.run(stage.pick(7, 3))?;
    Ok(AT_ONCE.map(|at_once| pair_row(&results, at_once)).into())
}

fn raw_pairs(stage: &Stage, table: &Path, at_once: usize, until: Until) -> anyhow::Result<f64> {
    let (table, body): (_, Arc<str>) = (Table::open(table)?, prose(MARK_BYTES).into());
    if at_once == 1 {
        let lone = vec![Pair(Single(table, body))];
        return per_second(&stage.runtime, Carrier::Tasks, lone, until);
    }
    let group = Group::start(table, at_once);
    let worker = || Pair(Grouped(group.clone(), body.clone()));
    let workers = std::iter::repeat_with(worker).take(at_once).collect();
    per_second(&stage.runtime, Carrier::Tasks, workers, until)
}

fn pair_row(results: &Results, at_once: usize) -> Row {
    let row = Row::new(product(at_once), "pairs/s")
        .figure(results.get(&product(at_once)))
        .beside(raw(at_once), results.get(&raw(at_once)));
    if at_once == 64 {
        row.target(Target::TimesFloorMin(0.4))
    } else {
        row
    }
}

fn product(at_once: usize) -> String {
    format!("begin and end, {at_once} callers")
}

fn raw(at_once: usize) -> String {
    format!("two rows, SQLite WAL+FULL, {at_once} callers")
}

/// A gateway died with so many turns in flight: until all are decided and told, as one process.
fn restart_rows(stage: &Stage, count: usize) -> anyhow::Result<Vec<Row>> {
    let template = stage.subfolder(&format!("cut-off-{count}"))?;
    stage.runtime.block_on(async {
        let library = Library::open(&template).await?;
        library.cut_off_sessions(count).await
    })?;
    let again = stage.folder().join("cut-off-again");
    let recover = Call::new(stage.relight(), stage.folder())
        .environment("RELIGHT_HOME", again.to_string_lossy())
        .line("session recover --json", 0);
    copy(&template, &again)?;
    let told = recover.stdout()?.matches("\"deaths_in_a_row\":1").count();
    ensure!(told == count, "{told} of {count} sessions were decided");
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..stage.pick(9, 3) {
        copy(&template, &again)?;
        let (ms, kib) = recover.wall_ms_and_peak_kib()?;
        times.push(ms);
        memory.push(kib / 1024.0);
    }
    let what = format!("recover, {count} turns in flight");
    let time = Row::new(what.clone(), "ms").figure(Some(&Samples::new(times)));
    let memory = Row::new(what, "MiB").figure(Some(&Samples::new(memory)));
    Ok(match count {
        100_000 => {
            vec![
                time.target(Target::ValueMax(1_000.0)),
                memory.target(Target::ValueMax(100.0)),
            ]
        }
        _ => vec![time, memory],
    })
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
