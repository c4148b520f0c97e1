//! `cli`: the wall time of each verb, beside programs that do the least of the same.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::call::Call;
use crate::contest::{Contest, Results};
use crate::hook;
use crate::inserts::{Insert, closest, inserts, mean_syncs, syncs_text};
use crate::row::{Row, Target};
use crate::stage::Stage;
use crate::verbs::{VERBS, Verb, Writes};

const EMPTY: &str = "empty Rust binary";
const PYTHON: &str = "Python script";

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let version = Call::new(stage.relight(), stage.folder())
        .argument("--version")
        .stdout();
    if !version.is_ok_and(|answer| answer.starts_with("relight ")) {
        let row = Row::new("all verbs", "ms").target(Target::TimesFloorMax(1.5));
        return Ok(vec![
            row.note(Some("`relight --version` does not name itself")),
        ]);
    }
    let mut rows = Vec::new();
    for verb in &VERBS {
        rows.extend(match rows_of(stage, verb) {
            Ok(rows) => rows,
            Err(error) => vec![not_measured(verb, &error)],
        });
    }
    rows.extend(hook::rows(stage).unwrap_or_else(|error| {
        let row = Row::new("hook", "ms").target(Target::TimesFloorMax(1.5));
        vec![row.note(Some(format!("{error:#}")))]
    }));
    Ok(rows)
}

fn not_measured(verb: &Verb, error: &anyhow::Error) -> Row {
    let row = Row::new(verb.name(), "ms").note(Some(format!("{error:#}")));
    if verb.has_target {
        row.target(Target::TimesFloorMax(1.5))
    } else {
        row
    }
}

fn rows_of(stage: &Stage, verb: &Verb) -> anyhow::Result<Vec<Row>> {
    let folder = stage.subfolder(&verb.name().replace(' ', "-"))?;
    let relight = Relight::set_up(stage, verb, &folder)?;
    let floors = inserts(stage, verb, &folder)?;
    let syncs = mean_syncs(|number| relight.prepared(number))?;
    let is_durable = verb.writes == Writes::Nothing || syncs != Some(0.0);
    anyhow::ensure!(
        is_durable,
        "it made no sync, so nothing it wrote is durable"
    );
    let floor = closest(&floors, syncs);

    let mut contest = Contest::default();
    contest.enter("relight", |round| relight.prepared(round)?.wall_ms());
    let empty = Call::new(stage.floor("floor-empty"), &folder);
    contest.enter(EMPTY, move |_| empty.wall_ms());
    if let Some(floor) = floor {
        contest.enter(&floor.name, |_| floor.call.wall_ms());
    }
    if let (Some(python), Some(line)) = (&stage.python, verb.python) {
        let script = stage.script("checkpoint.py", include_str!("../floors/checkpoint.py"))?;
        // Apart from the product, whose files have the same names.
        let folder = folder.join("python");
        fs::create_dir_all(&folder)?;
        let call = Call::new(python, &folder).argument(script.to_string_lossy());
        call.clone().line("start bench one", 0).stdout()?;
        contest.enter(PYTHON, move |round| {
            call.clone().line(line, round).wall_ms()
        });
    }
    let results = contest.run(stage.pick(100, 15))?;
    Ok(table(verb, floor, syncs, &results))
}

fn table(verb: &Verb, floor: Option<&Insert>, syncs: Option<f64>, results: &Results) -> Vec<Row> {
    let what = format!("{} ({})", verb.name(), syncs_text(syncs));
    let row = |floor: &str| {
        Row::new(&what, "ms")
            .figure(results.get("relight"))
            .beside(floor, results.get(floor))
    };
    let judged = |row: Row, target| {
        if verb.has_target {
            row.target(target)
        } else {
            row
        }
    };
    let start = row(EMPTY);
    let mut rows = Vec::new();
    match floor {
        Some(floor) => {
            rows.push(judged(row(&floor.name), Target::TimesFloorMax(1.5)));
            rows.push(start);
        }
        // The empty binary is the floor of `--version` alone: other reads open a store.
        None => rows.push(judged(start, Target::TimesFloorMax(1.5))),
    }
    if verb.python.is_some() {
        let python = Row::new(&what, "ms").figure(results.get("relight"));
        let python = python.faster_than(PYTHON, results.get(PYTHON));
        let missing = results
            .get(PYTHON)
            .is_none()
            .then_some("python3 is missing");
        rows.push(judged(python, Target::TimesFasterMin(8.0)).note(missing));
    }
    rows
}

/// The product in a home of its own, ready for its verb.
struct Relight<'a> {
    verb: &'a Verb,
    base: Call,
    fence: Option<String>,
}

impl<'a> Relight<'a> {
    fn set_up(stage: &Stage, verb: &'a Verb, folder: &Path) -> anyhow::Result<Relight<'a>> {
        let home = folder.join("home").to_string_lossy().into_owned();
        let base = Call::new(stage.relight(), folder)
            .environment("RELIGHT_HOME", home)
            .environment("RELIGHT_TASK", "bench");
        let fence = match verb.set_up {
            Some(line) => fence_of(&base.clone().line(line, 0).stdout()?),
            None => None,
        };
        let relight = Relight { verb, base, fence };
        // Once without the clock: an error is told in full, and the store is made.
        relight.prepared(999_999)?.stdout()?;
        Ok(relight)
    }

    /// The verb's call number `number`, after all that has to come before it.
    fn prepared(&self, number: usize) -> anyhow::Result<Call> {
        let mut fence = self.fence.clone();
        let fenced = |fence: &Option<String>| match fence {
            Some(fence) => self.base.clone().environment("RELIGHT_FENCE", fence),
            None => self.base.clone(),
        };
        if let Some(before) = self.verb.before {
            let answer = fenced(&fence).line(before, number).stdout()?;
            fence = fence_of(&answer).or(fence);
        }
        Ok(fenced(&fence).line(self.verb.line, number))
    }
}

/// The `fence` of a JSON answer, whatever else it is.
fn fence_of(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    answer.get("fence").map(Value::to_string)
}
