//! `relight-prove`: kills Relight in many ways and checks what is left. `./prove` builds and runs it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use relight_testkit::driver::DriverKind;
use relight_testkit::suite::{faults, kill, power, syscalls};
use relight_testkit::world::product::Product;
use relight_testkit::world::seed::Seed;
use relight_testkit::world::tally::Tally;
use relight_testkit::world::{clock, group};

#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with `relight` and `prove-driver` [default: where this binary is]
    #[arg(long, global = true)]
    binaries: Option<PathBuf>,
    /// What every draw comes from [default: a new one, printed]
    #[arg(long, global = true)]
    seed: Option<u64>,
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// SIGKILL at random moments
    Kill {
        /// How many kills
        #[arg(long, default_value_t = 2_000)]
        trials: u64,
        /// Only this trial of the seed
        #[arg(long)]
        trial: Option<u64>,
    },
    /// EIO and ENOSPC at every write, sync and open; a full and a read-only disk
    Faults {
        /// Only some verbs
        #[arg(long)]
        quick: bool,
    },
    /// Power cuts under a mounted ext4 image (root only)
    Power {
        /// How many cuts
        #[arg(long, default_value_t = 60)]
        trials: u32,
    },
    /// SIGKILL at every system call of each verb
    Syscalls {
        /// Only some verbs and the telling calls
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("relight-prove: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<bool> {
    group::adopt_orphans()?;
    let here = std::env::current_exe().context("own path")?;
    let here = here.parent().unwrap_or(Path::new("."));
    let product = Product::beside(arguments.binaries.as_deref().unwrap_or(here))?;
    let seed = arguments.seed.unwrap_or_else(Seed::fresh);
    let work = tempfile::Builder::new().prefix("relight-prove-").tempdir()?;
    let tally = Tally::default();
    match arguments.suite {
        Suite::Kill { trials, trial } => {
            let options = kill::Options {
                kills: trials,
                seed,
                only_trial: trial,
                workers: 4,
                until: clock::now() + Duration::from_secs(3600),
            };
            kill::run(&product, work.path(), options, &tally)?;
        }
        Suite::Faults { quick } => faults::run(&product, work.path(), quick, &tally)?,
        Suite::Power { trials } => {
            let options = power::Options { kinds: &DriverKind::ALL, cuts: trials, seed };
            power::run(&product, work.path(), options, &tally)?;
        }
        Suite::Syscalls { quick } => syscalls::run(&product, work.path(), quick, &tally)?,
    }
    let counts = tally.counts();
    for line in counts.skipped {
        println!("{line}");
    }
    for line in &counts.shown {
        println!("VIOLATION {line}");
    }
    if counts.failed > 0 {
        println!("kept: {}", work.keep().display());
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(counts.failed == 0)
}
