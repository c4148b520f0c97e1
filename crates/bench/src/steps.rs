//! `steps`: durable steps per second through the library, beside a raw file and raw SQLite.

use std::sync::Arc;
use std::time::Duration;

use crate::contest::{Contest, Results};
use crate::group::{Group, Grouped, Single, Sink};
use crate::holder::{Holder, RESULT_BYTES};
use crate::load::{Carrier, Until, per_second};
use crate::product::Library;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::sinks::{Append, Table};
use crate::stage::Stage;

const AT_ONCE: [usize; 3] = [1, 16, 256];

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let until = Until::Elapsed(Duration::from_millis(stage.pick(1000, 200)));
    let home = stage.subfolder("home")?;
    let library = stage.runtime.block_on(Library::open(&home))?;
    let (file, table) = (
        &stage.folder().join("append"),
        &stage.folder().join("raw.db"),
    );
    let mut contest = Contest::default();
    for load in loads() {
        contest.enter(load.append(), move |_| {
            load.raw(stage, Append::open(file)?, until)
        });
        contest.enter(load.sqlite(), move |_| {
            load.raw(stage, Table::open(table)?, until)
        });
        let library = &library;
        contest.enter(load.library(), move |round| {
            let name = format!("{}-{round}", load.manner().replace(' ', "-"));
            let holders = Holder::start(&stage.runtime, library, &name, load.at_once)?;
            per_second(&stage.runtime, load.carrier, holders, until)
        });
    }
    let results = contest.run(stage.pick(7, 3))?;
    let at_once = loads().into_iter().flat_map(|load| load.rows(&results));
    Ok(at_once.chain(growing_rows(&results)).collect())
}

/// How many write at once, and what carries them.
#[derive(Debug, Clone, Copy)]
struct Load {
    at_once: usize,
    carrier: Carrier,
}

/// Alone, then several in tasks (what targets are held against) and in threads.
fn loads() -> Vec<Load> {
    let in_tasks = AT_ONCE.map(|at_once| Load {
        at_once,
        carrier: Carrier::Tasks,
    });
    let in_threads = AT_ONCE.map(|at_once| Load {
        at_once,
        carrier: Carrier::Threads,
    });
    in_tasks
        .into_iter()
        .chain(in_threads.into_iter().skip(1))
        .collect()
}

impl Load {
    fn raw<S: Sink>(self, stage: &Stage, sink: S, until: Until) -> anyhow::Result<f64> {
        let body: Arc<str> = prose(RESULT_BYTES).into();
        if self.at_once == 1 {
            return per_second(
                &stage.runtime,
                self.carrier,
                vec![Single(sink, body)],
                until,
            );
        }
        let group = Group::start(sink, self.at_once);
        let worker = || Grouped(group.clone(), body.clone());
        let workers = std::iter::repeat_with(worker).take(self.at_once).collect();
        per_second(&stage.runtime, self.carrier, workers, until)
    }

    fn rows(self, results: &Results) -> [Row; 3] {
        let (append, sqlite) = (results.get(&self.append()), results.get(&self.sqlite()));
        let steps = results.get(&self.library());
        let steps = Row::new(self.library(), "steps/s").figure(steps);
        let beside_sqlite = steps.clone().beside(self.sqlite(), sqlite);
        [
            match (self.at_once, self.carrier) {
                (1, _) => beside_sqlite.target(Target::TimesFloorMin(0.7)),
                (256, Carrier::Tasks) => beside_sqlite.target(Target::TimesFloorMin(0.5)),
                _ => beside_sqlite,
            },
            steps.beside(self.append(), append),
            Row::new(self.sqlite(), "rows/s")
                .figure(sqlite)
                .beside(self.append(), append),
        ]
    }

    fn library(self) -> String {
        format!("library, {}", self.manner())
    }

    fn append(self) -> String {
        format!("append+fdatasync, {}", self.manner())
    }

    fn sqlite(self) -> String {
        format!("SQLite WAL+FULL, {}", self.manner())
    }

    fn manner(self) -> String {
        match (self.at_once, self.carrier) {
            (1, _) => "alone".into(),
            (count, Carrier::Tasks) => format!("{count} tasks"),
            (count, Carrier::Threads) => format!("{count} threads"),
        }
    }
}

fn growing_rows(results: &Results) -> Vec<Row> {
    let names = AT_ONCE.map(|at_once| {
        Load {
            at_once,
            carrier: Carrier::Tasks,
        }
        .library()
    });
    let growing = |pair: &[String]| {
        Row::new(format!("growing: {}", pair[1]), "steps/s")
            .figure(results.get(&pair[1]))
            .beside(&pair[0], results.get(&pair[0]))
            .target(Target::TimesFloorMin(1.0))
    };
    names.windows(2).map(growing).collect()
}
