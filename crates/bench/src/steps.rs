//! `steps`: durable steps per second through the library, beside a raw file and raw SQLite.

use std::sync::Arc;
use std::time::Duration;

use crate::contest::{Contest, Results};
use crate::group::{Group, Grouped, Single, Sink};
use crate::holder::{Holder, RESULT_BYTES};
use crate::load::{Until, per_second};
use crate::product::Library;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::sinks::{Append, Table};
use crate::stage::Stage;

const TASKS_AT_ONCE: [usize; 3] = [1, 16, 256];

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let until = Until::Elapsed(Duration::from_millis(stage.pick(1500, 300)));
    let home = stage.subfolder("home")?;
    let library = stage.runtime.block_on(Library::open(&home))?;
    let (file, table) = (&stage.folder().join("append"), &stage.folder().join("raw.db"));
    let mut contest = Contest::default();
    for tasks in TASKS_AT_ONCE {
        contest.enter(append_name(tasks), move |_| {
            raw_per_second(stage, Append::open(file)?, tasks, until)
        });
        contest.enter(sqlite_name(tasks), move |_| {
            raw_per_second(stage, Table::open(table)?, tasks, until)
        });
        if let Some(library) = &library {
            contest.enter(steps_name(tasks), move |round| {
                let name = format!("at-once-{tasks}-round-{round}");
                let holders = Holder::start(&stage.runtime, library, &name, tasks)?;
                per_second(&stage.runtime, holders, until)
            });
        }
    }
    let results = contest.run(stage.pick(7, 3))?;
    let at_once = TASKS_AT_ONCE.iter().flat_map(|tasks| rows_at(*tasks, &results));
    let growing = TASKS_AT_ONCE.windows(2).map(|pair| growing_row(pair[0], pair[1], &results));
    Ok(at_once.chain(growing).collect())
}

fn raw_per_second<S: Sink>(
    stage: &Stage,
    sink: S,
    tasks: usize,
    until: Until,
) -> anyhow::Result<f64> {
    let body: Arc<str> = prose(RESULT_BYTES).into();
    if tasks == 1 {
        return per_second(&stage.runtime, vec![Single(sink, body)], until);
    }
    let group = Group::start(sink, tasks);
    let worker = || Grouped(group.clone(), body.clone());
    let workers = std::iter::repeat_with(worker).take(tasks).collect();
    per_second(&stage.runtime, workers, until)
}

fn rows_at(tasks: usize, results: &Results) -> [Row; 3] {
    let append = results.get(&append_name(tasks));
    let sqlite = results.get(&sqlite_name(tasks));
    let steps = results.get(&steps_name(tasks));
    let share = if tasks == 1 { 0.7 } else { 0.5 };
    [
        Row::new(steps_name(tasks), "steps/s")
            .figure(steps)
            .beside(sqlite_name(tasks), sqlite)
            .target(Target::TimesFloorMin(share)),
        Row::new(steps_name(tasks), "steps/s").figure(steps).beside(append_name(tasks), append),
        Row::new(sqlite_name(tasks), "rows/s").figure(sqlite).beside(append_name(tasks), append),
    ]
}

fn growing_row(fewer: usize, more: usize, results: &Results) -> Row {
    Row::new(format!("growing, {more} beside {fewer} at once"), "steps/s")
        .figure(results.get(&steps_name(more)))
        .beside(steps_name(fewer), results.get(&steps_name(fewer)))
        .target(Target::TimesFloorMin(1.0))
}

fn steps_name(tasks: usize) -> String {
    format!("library, {tasks} at once")
}

fn append_name(tasks: usize) -> String {
    format!("append+fdatasync, {}", manner(tasks))
}

fn sqlite_name(tasks: usize) -> String {
    format!("SQLite WAL+FULL, {}", manner(tasks))
}

fn manner(tasks: usize) -> String {
    if tasks == 1 { "single".into() } else { format!("grouped at {tasks}") }
}
