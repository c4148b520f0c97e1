//! Power cuts: the disk under a driver is shut down at a random moment, without its journal.
//!
//! The ledger lies on another disk. By CLI and library the store is on the disk that is cut; by the
//! checkpoint dialect only the files are, so that nothing but their own syncs can save them.

use std::path::Path;
use std::time::Duration;

use super::kill;
use crate::checker;
use crate::driver::{self, DriverKind};
use crate::world::clock;
use crate::world::disk::{self, Disk};
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

/// After so many cuts a task is left to run to its end.
const CUTS_OF_A_TASK_MAX: u32 = 6;
/// A task that is not completed after so many lives never will be.
const LIVES_MAX: u32 = 20;
/// Nothing in a trial takes this long.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Which drivers, in turn.
    pub kinds: &'a [DriverKind],
    /// How many cuts in all.
    pub cuts: u32,
    /// What every draw comes from.
    pub seed: u64,
}

/// Cuts the power under drivers until there were enough cuts.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    if let Some(why) = disk::refusal(work) {
        tally.skip("power", &why);
        return Ok(());
    }
    let began = clock::now();
    let (mut cuts, mut trial) = (0, 0);
    let mut span = Duration::from_millis(400);
    while cuts < options.cuts {
        let kind = options.kinds[trial as usize % options.kinds.len()];
        let folder = work.join(format!("power-{trial}"));
        let mut seed = Seed::of_trial(options.seed, trial);
        let (cut, found) = one(product, kind, &folder, &mut seed, &mut span)?;
        let replay = format!("./prove power --seed {}: trial {trial}", options.seed);
        tally.trial(&replay, &found);
        if found.is_empty() {
            std::fs::remove_dir_all(&folder)?;
        }
        cuts += cut.max(1);
        trial += 1;
    }
    let (counts, seconds) = (tally.counts(), began.elapsed().as_secs_f64());
    println!(
        "power: {cuts} cuts in {trial} tasks in {seconds:.1} s, {} lost, {} repeated (seed {})",
        counts.lost, counts.repeated, options.seed
    );
    Ok(())
}

fn one(
    product: &Product,
    kind: DriverKind,
    folder: &Path,
    seed: &mut Seed,
    span: &mut Duration,
) -> anyhow::Result<(u32, Vec<Violation>)> {
    let stage = Stage::in_folder(product, folder, "T")?;
    let disk = Disk::make(folder, "disk")?;
    let stage = match kind {
        DriverKind::Cli | DriverKind::Library | DriverKind::Python | DriverKind::Node => Stage {
            home: disk.place().join("home"),
            ..stage
        },
        DriverKind::Checkpoint => Stage {
            checkpoints: disk.place().join("memory/checkpoints"),
            ..stage
        },
    };
    let mut cuts = 0;
    for _ in 0..LIVES_MAX {
        let began = clock::now();
        let switch = disk.switch()?;
        let group = kill::spawn(&stage, kind, folder)?;
        let moment = seed.moment(*span);
        let is_cut = cuts < CUTS_OF_A_TASK_MAX && !group.leader_ends_within(moment)?;
        if is_cut {
            // Nobody acts without power. The file system's shutdown takes a moment, in which a sync
            // may still answer well and be wrong: a real cut leaves no such answer.
            group.stop_all();
            switch.cut()?;
            group.kill_all();
            cuts += 1;
        } else {
            drop(switch);
        }
        let (code, _) = group.wait_for_all(LIFE_MAX)?;
        if is_cut {
            disk.unmount()?;
            disk.mount()?;
        } else {
            *span = began.elapsed().max(*span * 3 / 4);
        }
        let mut found = checker::check_running(&stage, kind)?;
        match u8::try_from(code).unwrap_or(driver::UNEXPECTED) {
            driver::COMPLETED if found.is_empty() && !is_cut => {
                return Ok((cuts, checker::check_completed(&stage, kind)?));
            }
            driver::IN_DOUBT => found.extend(kill::resolve(&stage, kind)?),
            driver::COMPLETED | driver::KILLED => {}
            // Whatever a driver says while its disk goes is right; afterwards it is not.
            _ if is_cut => {}
            _ => found.push(Violation::new(Promise::Answer, kill::said(folder, code))),
        }
        if !found.is_empty() {
            return Ok((cuts, found));
        }
    }
    let text = format!("not completed after {LIVES_MAX} lives");
    Ok((cuts, vec![Violation::new(Promise::Lost, text)]))
}
