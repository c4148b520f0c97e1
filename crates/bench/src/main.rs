//! `relight-bench NAME`: measures Relight beside its floors, in the same run.
//!
//! A missed target is printed as missed; only `--strict` turns it into an exit code.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench measures time and starts programs"
)]

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

use crate::machine::Machine;
use crate::report::Report;
use crate::stage::Stage;

mod api;
mod births;
mod call;
mod claimer;
mod cli;
mod contest;
mod fleet;
mod group;
mod growth;
mod hang;
mod holder;
mod hook;
mod hundred;
mod inserts;
mod keeper;
mod load;
mod machine;
mod many;
mod product;
mod prose;
mod pruning;
mod queue;
mod redact;
mod report;
mod restart;
mod restart_tasks;
mod row;
mod samples;
mod scan;
mod sdk;
mod sessions;
mod sinks;
mod stage;
mod steps;
mod takeover;
mod usage;
mod verbs;
mod wal;

#[derive(Parser)]
struct Arguments {
    /// What to measure.
    bench: Bench,
    /// A short run, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Also write all tables of this run to FILE, as one JSON array.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit 1 unless every target is met.
    #[arg(long)]
    strict: bool,
    /// The binary to measure; without it, the one built beside this program.
    #[arg(long, value_name = "FILE")]
    relight: Option<PathBuf>,
    /// Where each table is written as NAME.json.
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    results: PathBuf,
    /// Where stores and files are made; the disk under it is the one measured.
    #[arg(long, value_name = "DIR", default_value = "target/bench-work")]
    work: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bench {
    /// Durable steps per second through the library, at 1, 16 and 256 tasks at once.
    Steps,
    /// A step's cost in a long task and in a large store.
    Growth,
    /// Each CLI verb's wall time.
    Cli,
    /// `check` over many tasks and over many checkpoint files.
    Scan,
    /// Redaction of prose.
    Redact,
    /// How soon a killed agent is back, and what supervision costs.
    Restart,
    /// Tasks claimed and done per second, and the start after a crash with many in flight.
    Queue,
    /// Turns marked and cleared per second; a gateway's restart with many in flight.
    Sessions,
    /// Requests per second, watchers, the dashboard's data, and agents under a flood of requests.
    Api,
    /// The store in PostgreSQL beside pgbench, and nodes that die.
    Fleet,
    /// Durable steps per second through the packages of other languages.
    Sdk,
    /// All of them.
    All,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut reports = Vec::new();
    for bench in arguments.bench.each() {
        let report = run(bench, &arguments)?;
        println!("{}", report.text());
        report.save(&arguments.results)?;
        reports.push(report);
    }
    if let Some(file) = &arguments.json {
        fs::write(file, serde_json::to_string_pretty(&reports)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let is_failure = arguments.strict && !reports.iter().all(Report::all_met);
    std::process::exit(i32::from(is_failure))
}

fn run(bench: Bench, arguments: &Arguments) -> anyhow::Result<Report> {
    let stage = Stage::new(&arguments.work, arguments.relight.clone(), arguments.quick)?;
    let machine = Machine::look(stage.folder())?;
    let (name, title, rows) = match bench {
        Bench::Steps => (
            "steps",
            "Durable steps per second, 1 KiB each",
            steps::rows(&stage)?,
        ),
        Bench::Growth => (
            "growth",
            "A step's cost as task and store grow",
            growth::rows(&stage)?,
        ),
        Bench::Cli => ("cli", "Wall time of each CLI verb", cli::rows(&stage)?),
        Bench::Scan => (
            "scan",
            "`check` over many tasks and many files",
            scan::rows(&stage)?,
        ),
        Bench::Redact => ("redact", "Redaction, one core", redact::rows(&stage)?),
        Bench::Restart => ("restart", "Agents brought back", restart::rows(&stage)?),
        Bench::Queue => ("queue", "The queue", queue::rows(&stage)?),
        Bench::Sessions => ("sessions", "Turns of sessions", sessions::rows(&stage)?),
        Bench::Api => ("api", "The daemon's API", api::rows(&stage)?),
        Bench::Fleet => (
            "fleet",
            "A fleet on PostgreSQL, synced",
            fleet::rows(&stage)?,
        ),
        Bench::Sdk => (
            "sdk",
            "Durable steps per second in Python and TypeScript, 1 KiB each",
            sdk::rows(&stage)?,
        ),
        Bench::All => unreachable!("`all` was taken apart by `each`"),
    };
    Ok(Report::new(name, title, arguments.quick, machine, rows))
}

impl Bench {
    fn each(self) -> Vec<Bench> {
        match self {
            Bench::All => vec![
                Bench::Steps,
                Bench::Growth,
                Bench::Cli,
                Bench::Scan,
                Bench::Redact,
                Bench::Restart,
                Bench::Queue,
                Bench::Sessions,
                Bench::Api,
                Bench::Fleet,
                Bench::Sdk,
            ],
            Bench::Steps
            | Bench::Growth
            | Bench::Cli
            | Bench::Scan
            | Bench::Redact
            | Bench::Restart
            | Bench::Queue
            | Bench::Sessions
            | Bench::Api
            | Bench::Fleet
            | Bench::Sdk => vec![self],
        }
    }
}
