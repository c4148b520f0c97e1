//! `queue`: tasks claimed and done per second, beside raw SQLite; and the start after a crash with
//! many tasks in flight.

use std::sync::Arc;
use std::time::Duration;

use crate::claimer;
use crate::contest::{Contest, Results};
use crate::group::{Group, Grouped, Single};
use crate::holder::RESULT_BYTES;
use crate::load::{Carrier, Until, per_second};
use crate::product::{Backlog, Library};
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::sinks::Table;
use crate::stage::Stage;

const WORKERS: [usize; 3] = [1, 8, 64];
/// What a queue is full of when it is not new.
const MANY: usize = 100_000;
/// What 8 or 64 workers claim in a round; a lone one claims an eighth of it.
const TASKS: usize = 8_000;

/// What stands in the store beside the tasks that are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Finished,
    Deferred,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::Finished, Self::Deferred];

    fn text(self, many: usize) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Finished => format!(", {many} finished"),
            Self::Deferred => format!(", {many} deferred"),
        }
    }
}

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = claim_rows(stage)?;
    rows.extend(crate::restart_tasks::rows(stage)?);
    Ok(rows)
}

fn claim_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let many = stage.pick(MANY, MANY / 10);
    let time = Duration::from_millis(stage.pick(1000, 200));
    let table = &stage.folder().join("raw.db");
    let mut libraries = Vec::new();
    for beside in Beside::ALL {
        let home = stage.subfolder(&format!("{beside:?}"))?;
        let library = Arc::new(stage.runtime.block_on(Library::open(&home))?);
        match beside {
            Beside::Nothing => {}
            Beside::Finished => fill(stage, &library, "beside", many, Backlog::Finished)?,
            Beside::Deferred => fill(stage, &library, "beside", many, Backlog::Deferred)?,
        }
        libraries.push((beside, library));
    }
    let mut contest = Contest::default();
    for workers in WORKERS {
        contest.enter(raw(workers), move |_| {
            raw_per_second(stage, table, workers, time)
        });
        for (beside, library) in &libraries {
            contest.enter(claims(workers, *beside, many), move |round| {
                let each = stage.pick(TASKS, TASKS / 2) / workers.max(8);
                let round = format!("round-{round}-of-{workers}");
                claimer::per_second_of(stage, std::slice::from_ref(library), workers, each, &round)
            });
        }
    }
    let results = contest.run(stage.pick(7, 3))?;
    let all = WORKERS
        .into_iter()
        .flat_map(|workers| Beside::ALL.map(|beside| claim_row(&results, workers, beside, many)));
    Ok(all.collect())
}

fn claim_row(results: &Results, workers: usize, beside: Beside, many: usize) -> Row {
    let name = claims(workers, beside, many);
    let row = Row::new(&name, "tasks/s").figure(results.get(&name));
    if beside == Beside::Nothing {
        let row = row.beside(raw(workers), results.get(&raw(workers)));
        return if workers == 64 {
            row.target(Target::TimesFloorMin(0.4))
        } else {
            row
        };
    }
    let new = claims(workers, Beside::Nothing, many);
    let row = row.beside("a new store", results.get(&new));
    if workers == 64 {
        row.target(Target::TimesFloorMin(0.9))
    } else {
        row
    }
}

fn claims(workers: usize, beside: Beside, many: usize) -> String {
    format!("claim and done, {workers} workers{}", beside.text(many))
}

fn raw(workers: usize) -> String {
    match workers {
        1 => "SQLite WAL+FULL, alone".to_owned(),
        _ => format!("SQLite WAL+FULL, {workers} tasks"),
    }
}

fn raw_per_second(
    stage: &Stage,
    table: &std::path::Path,
    workers: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let body: Arc<str> = prose(RESULT_BYTES).into();
    let sink = Table::open(table)?;
    let until = Until::Elapsed(time);
    if workers == 1 {
        return per_second(
            &stage.runtime,
            Carrier::Tasks,
            vec![Single(sink, body)],
            until,
        );
    }
    let group = Group::start(sink, workers);
    let worker = || Grouped(group.clone(), body.clone());
    let workers = std::iter::repeat_with(worker).take(workers).collect();
    per_second(&stage.runtime, Carrier::Tasks, workers, until)
}

fn fill(
    stage: &Stage,
    library: &Library,
    name: &str,
    count: usize,
    backlog: Backlog,
) -> anyhow::Result<()> {
    stage.runtime.block_on(library.fill(name, count, backlog))
}
