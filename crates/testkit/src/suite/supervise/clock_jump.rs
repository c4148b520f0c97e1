//! The wall clock jumps by a year, both ways: nobody dies of it, and nobody waits for ever.
//!
//! The machine's own clock is left alone: the product runs under libfaketime, which moves the wall clock
//! of a process and leaves the monotonic one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::arena::{Arena, Cast};
use super::cast::Habit;
use super::fake_agent;
use crate::world::clock;
use crate::world::daemon::Home;
use crate::world::product::Product;
use crate::world::tally::{Promise, Tally, Violation};

/// Far more than a cooldown of half a second grows to within this trial.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Long enough for a supervisor that looks at the wall clock to do harm.
const HARM: Duration = Duration::from_millis(700);

pub(super) fn run(product: &Product, work: &Path, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("supervise-clock");
    let cast = Cast {
        up: &[Habit::Steady, Habit::Beater, Habit::Waiter],
        alone: None,
    };
    let prefix = format!("p{}c", std::process::id());
    let mut arena = Arena::make(
        &product.relight,
        &fake_agent(product),
        &folder,
        &prefix,
        cast,
    )?;
    let Some(library) = library() else {
        tally.skip(
            "supervise: clock jumps",
            "libfaketime (faketime) is missing",
        );
        return Ok(());
    };
    let clock_file = folder.join("clock");
    arena.home.variables = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock_file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    if !is_moved(&arena.home, &clock_file)? {
        tally.skip(
            "supervise: clock jumps",
            "libfaketime does not move this binary's clock",
        );
        return Ok(());
    }
    let found = jump(arena, &clock_file)
        .unwrap_or_else(|error| vec![Violation::new(Promise::Answer, format!("{error:#}"))]);
    println!("supervise: clock jumps, {} violations", found.len());
    tally.trial("./prove supervise (clock jumps)", &found);
    Ok(())
}

/// What turns the wall clock of a process.
pub(in crate::suite) fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    folders
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}

/// Whether the product's own clock goes where the file says.
fn is_moved(home: &Home, clock_file: &Path) -> anyhow::Result<bool> {
    let year = |task: &str, offset: &str| {
        std::fs::write(clock_file, offset)?;
        let answer = home.call(&["task", "add", task, "--json"])?.json()?;
        anyhow::Ok(
            answer["created_at"]
                .as_str()
                .unwrap_or_default()
                .get(..4)
                .map(str::to_owned),
        )
    };
    Ok(year("now", "+0")? != year("later", "+400d")?)
}

fn jump(mut arena: Arena, clock_file: &Path) -> anyhow::Result<Vec<Violation>> {
    arena.forgives_charges = true;
    std::fs::write(clock_file, "+0")?;
    arena.start_up()?;
    let mut found = arena.settle_lasting()?;
    for offset in ["+365d", "-365d", "+0"] {
        if !found.is_empty() {
            break;
        }
        let before = arena.lasting_leaders()?;
        std::fs::write(clock_file, offset)?;
        clock::pause(HARM);
        found.extend(arena.adopted(&before)?);
        // A supervisor that starts under the new clock reads times of the old one.
        arena.kill_up()?;
        arena.start_up()?;
        found.extend(arena.adopted(&before)?);
        found.extend(waiter_comes_back(&arena, offset)?);
        for (name, _) in before {
            arena.kill_leader(&name)?;
            found.extend(arena.has_successor(&name)?);
        }
    }
    found.extend(arena.close()?);
    Ok(found)
}

fn waiter_comes_back(arena: &Arena, offset: &str) -> anyhow::Result<Option<Violation>> {
    let waiters = arena
        .actors
        .iter()
        .filter(|actor| actor.habit == Habit::Waiter);
    for waiter in waiters {
        let before = arena.newest(&waiter.name)?;
        if !clock::becomes(WAIT_MAX, || Ok(arena.newest(&waiter.name)? > before))? {
            let text = format!(
                "{} waits for more than {WAIT_MAX:?} at {offset}",
                waiter.name
            );
            return Ok(Some(Violation::new(Promise::Lost, text)));
        }
    }
    Ok(None)
}
