//! The start after a crash, with tasks in flight of the process that died.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use crate::call::Call;
use crate::product::{Backlog, Library};
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;

/// What the restarted program tells of itself.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Told {
    first_ms: f64,
    all_ms: f64,
    peak_mib: f64,
}

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let counts = stage.pick([1, 1_000, 100_000], [1, 1_000, 10_000]);
    let mut rows = Vec::new();
    for count in counts {
        let rounds = if count > 10_000 {
            stage.pick(3, 1)
        } else {
            stage.pick(7, 3)
        };
        let mut all = Vec::new();
        for round in 0..rounds {
            let home = stage.subfolder(&format!("in-flight-{count}-{round}"))?;
            all.push(restarted(stage, &home, count)?);
            std::fs::remove_dir_all(&home)?;
        }
        rows.extend(rows_of(count, &all));
    }
    Ok(rows)
}

fn rows_of(count: usize, all: &[Told]) -> [Row; 3] {
    let samples = |of: fn(&Told) -> f64| Samples::new(all.iter().map(of).collect());
    let row = |what: &str, unit, samples: &Samples| {
        Row::new(format!("restart, {count} in flight: {what}"), unit).figure(Some(samples))
    };
    let first = row("first resumed", "ms", &samples(|told| told.first_ms));
    let decided = row("all decided", "ms", &samples(|told| told.all_ms));
    let peak = row("memory at most", "MiB", &samples(|told| told.peak_mib));
    match count {
        1_000 => [
            first.target(Target::ValueMax(50.0)),
            decided.target(Target::ValueMax(1_000.0)),
            peak,
        ],
        _ => [first, decided, peak],
    }
}

/// Leaves so many tasks behind, and starts the program that takes them up.
fn restarted(stage: &Stage, home: &Path, count: usize) -> anyhow::Result<Told> {
    let library = stage.runtime.block_on(Library::open(home))?;
    stage
        .runtime
        .block_on(library.fill("left", count, Backlog::InFlight))?;
    drop(library);
    let program = stage.floor("bench-restarted");
    let store = format!("sqlite:{}", home.join("relight.db").display());
    let said = Call::new(program, home)
        .argument(store)
        .argument(count.to_string())
        .stdout()?;
    serde_json::from_str(&said).with_context(|| said.clone())
}
