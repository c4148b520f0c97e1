//! `prove-driver WHAT …`: the programs that `relight-prove` kills.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use relight_testkit::driver::{self, effect};
use relight_testkit::world::ledger::Ledger;
use relight_testkit::world::product::Product;
use relight_testkit::world::stage::Stage;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("prove-driver {}: {error:#}", words.join(" "));
            ExitCode::from(driver::UNEXPECTED)
        }
    }
}

fn run(words: &[&str]) -> anyhow::Result<u8> {
    match words {
        ["effect", ledger, task, step] => Ok(effect::command(
            &Ledger::at(ledger),
            task,
            step,
            &idempotency_key(),
        )),
        ["fleet-agent", folder, name] => driver::fleet_agent::run(Path::new(folder), name),
        ["fleet-worker", kind, url, folder] => {
            driver::queue::work_for_fleet(url, Path::new(folder), *kind == "by-clock")
        }
        ["machine", said] => driver::machine::run(Path::new(said)),
        ["gateway", home, log, seed] => {
            let store = format!("sqlite:{home}/relight.db");
            driver::gateway::run(&store, Path::new(log), seed.parse()?)
        }
        ["happened", ledger, task, step] => Ok(effect::happened(&Ledger::at(ledger), task, step)),
        [kind, home, checkpoints, ledger, task, rest @ ..] => {
            let stage = stage(home, checkpoints, ledger, task)?;
            match (*kind, rest) {
                ("cli", []) => driver::cli::run(&stage),
                ("library", []) => driver::library::run(&stage),
                ("checkpoint", []) => driver::checkpoint::run(&stage),
                ("slow", []) => driver::slow::run(&stage),
                ("queue-worker", []) => driver::queue::work(&stage, false),
                ("queue-worker-by-clock", []) => driver::queue::work(&stage, true),
                ("queue-sweeper", []) => driver::queue::sweep(&stage),
                ("many", [count]) => driver::library::run_many(&stage, count.parse()?),
                _ => anyhow::bail!("unknown words"),
            }
        }
        _ => anyhow::bail!("unknown words"),
    }
}

fn stage(home: &str, checkpoints: &str, ledger: &str, task: &str) -> anyhow::Result<Stage> {
    let me = std::env::current_exe().context("own path")?;
    let product = Product::beside(me.parent().unwrap_or(Path::new(".")))?;
    let (home, checkpoints) = (PathBuf::from(home), PathBuf::from(checkpoints));
    Ok(Stage {
        product,
        home,
        checkpoints,
        ledger: Ledger::at(ledger),
        task: task.to_owned(),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the key comes to a step's command in no other way"
)]
fn idempotency_key() -> String {
    std::env::var("RELIGHT_IDEMPOTENCY_KEY").unwrap_or_default()
}
