//! A holder frozen past its lease: somebody else takes over, and its late write is refused.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process_group};

use crate::checker;
use crate::world::clock;
use crate::world::group::Group;
use crate::world::ledger::Entry;
use crate::world::product::Product;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

/// The exit code of one who lost the lease.
const FENCED: i32 = 77;
/// More than a lease of half a second ever takes to run out.
const TAKEOVER_MAX: Duration = Duration::from_secs(120);

/// Freezes a holder by the library and one by the CLI, `rounds` times.
pub fn run(product: &Product, work: &Path, rounds: u32, tally: &Tally) -> anyhow::Result<()> {
    let mut failed = 0;
    for round in 0..rounds {
        for by_library in [true, false] {
            let folder = work.join(format!("frozen-{round}-{by_library}"));
            let stage = Stage::in_folder(product, &folder, "T")?;
            let found = freeze(&stage, &folder, by_library)?;
            let by = if by_library { "library" } else { "CLI" };
            failed += u32::from(!found.is_empty());
            tally.trial(
                &format!("a frozen holder by the {by}, round {round}"),
                &found,
            );
        }
    }
    println!("frozen: {} holders, {failed} failed", 2 * rounds);
    Ok(())
}

fn freeze(stage: &Stage, folder: &Path, by_library: bool) -> anyhow::Result<Vec<Violation>> {
    let holder = hold(stage, folder, by_library)?;
    wait_for_effect(stage)?;
    holder.stop_outside_of_a_write()?;
    let fence = take_over(stage)?;
    let driver = stage.product.driver.display().to_string();
    let ledger = stage.ledger.path().display().to_string();
    let words = ["step", "run", "s04", "--task", "T", "--fence", &fence, "--"];
    let words = [&words[..], &[&driver, "effect", &ledger, "T", "s04"]].concat();
    let successor = stage.product.call(&stage.home, &words)?;
    let mut found = Vec::new();
    if successor.code != 0 {
        let text = format!(
            "the successor: exit {}: {}",
            successor.code,
            successor.stderr.trim()
        );
        found.push(Violation::new(Promise::Answer, text));
    }
    kill_process_group(holder.leader(), Signal::CONT)?;
    let (code, _) = holder.wait_for_all(TAKEOVER_MAX)?;
    if code != FENCED {
        let said = std::fs::read_to_string(folder.join("said")).unwrap_or_default();
        let text = format!(
            "the late write ended with {code} instead of 77: {}",
            said.trim()
        );
        found.push(Violation::new(Promise::Fence, text));
    }
    let replay = [
        "step", "run", "s04", "--task", "T", "--fence", &fence, "--", "false",
    ];
    let recorded = stage.product.call(&stage.home, &replay)?;
    if recorded.stdout != successor.stdout {
        let text = format!(
            "recorded is {:?} of the late writer",
            recorded.stdout.trim()
        );
        found.push(Violation::new(Promise::Fence, text));
    }
    found.extend(checker::check_pages(stage)?);
    Ok(found)
}

/// Somebody with a short lease, in the middle of a step.
fn hold(stage: &Stage, folder: &Path, by_library: bool) -> anyhow::Result<Group> {
    let home = stage.home.display().to_string();
    let ledger = stage.ledger.path().display().to_string();
    let said = std::fs::File::create(folder.join("said"))?;
    let mut command = if by_library {
        stage.product.driver(&["slow", &home, "-", &ledger, "T"])
    } else {
        let words = ["task", "start", "T", "--lease", "500ms", "--json"];
        let fence = stage.product.call(&stage.home, &words)?.json()?["fence"].to_string();
        let driver = stage.product.driver.display().to_string();
        let act = format!("{driver} effect {ledger} T s04; sleep 0.4");
        let words = [
            "step", "run", "s04", "--task", "T", "--fence", &fence, "--", "sh", "-c", &act,
        ];
        stage.product.relight(&stage.home, &words)
    };
    Group::spawn(command.stdout(Stdio::null()).stderr(said))
}

fn wait_for_effect(stage: &Stage) -> anyhow::Result<()> {
    let end = clock::now() + TAKEOVER_MAX;
    let acted = |entries: &[Entry]| entries.iter().any(|e| matches!(e, Entry::Effect { .. }));
    while !acted(&stage.ledger.entries("T")?) {
        anyhow::ensure!(clock::now() < end, "the holder never came to its step");
        clock::pause(Duration::from_millis(2));
    }
    Ok(())
}

/// Asks for the task until the lease has run out.
fn take_over(stage: &Stage) -> anyhow::Result<String> {
    let end = clock::now() + TAKEOVER_MAX;
    loop {
        let words = ["task", "start", "T", "--lease", "60s", "--json"];
        let answer = stage.product.call(&stage.home, &words)?;
        match answer.code {
            0 => {
                return Ok(answer.json()?["fence"]
                    .as_u64()
                    .context("a fence")?
                    .to_string());
            }
            75 if clock::now() < end => clock::pause(Duration::from_millis(50)),
            code => anyhow::bail!("task start: exit {code}: {}", answer.stderr.trim()),
        }
    }
}
