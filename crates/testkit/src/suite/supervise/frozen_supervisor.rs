//! A supervisor frozen by SIGSTOP: nobody else may act for it unasked, and once somebody took over, it
//! changes nothing any more when it wakes up.

use std::path::Path;
use std::time::Duration;

use super::arena::{Arena, Cast};
use super::cast::Habit;
use super::fake_agent;
use crate::world::clock;
use crate::world::product::Product;
use crate::world::tally::{Promise, Tally, Violation};

/// Held by someone else.
const HELD: i32 = 75;
/// A supervisor that lost its agents notices and ends by then.
const NOTICE_MAX: Duration = Duration::from_secs(120);
/// Time in which one that woke up could do harm.
const HARM: Duration = Duration::from_millis(300);

pub(super) fn run(product: &Product, work: &Path, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("supervise-frozen");
    let cast = Cast {
        up: &[Habit::Steady, Habit::Daemonizer, Habit::Beater],
        alone: Some(Habit::Forker),
    };
    let prefix = format!("p{}f", std::process::id());
    let arena = Arena::make(
        &product.relight,
        &fake_agent(product),
        &folder,
        &prefix,
        cast,
    )?;
    let found = freeze(arena, tally)
        .unwrap_or_else(|error| vec![Violation::new(Promise::Answer, format!("{error:#}"))]);
    println!("supervise: frozen supervisors, {} violations", found.len());
    tally.trial("./prove supervise (frozen supervisors)", &found);
    Ok(())
}

fn freeze(mut arena: Arena, tally: &Tally) -> anyhow::Result<Vec<Violation>> {
    arena.start_up()?;
    arena.start_alone()?;
    let mut found = arena.settle()?;
    found.extend(second_run_is_refused(&arena)?);
    let help = arena.home.call(&["up", "--help"])?.stdout;
    if help.contains("--take-over") {
        found.extend(take_over(&mut arena)?);
    } else {
        tally.skip("supervise: a frozen supervisor", "no `up --take-over` yet");
    }
    found.extend(arena.settle()?);
    found.extend(arena.close()?);
    Ok(found)
}

/// `relight run` of an agent that a frozen `relight run` has.
fn second_run_is_refused(arena: &Arena) -> anyhow::Result<Vec<Violation>> {
    let Some(frozen) = &arena.alone else {
        return Ok(Vec::new());
    };
    let before = arena.lasting_leaders()?;
    frozen.freeze()?;
    let code = arena.run_alone()?.end();
    frozen.thaw();
    let mut found = is_held("relight run", code?);
    found.extend(arena.adopted(&before)?);
    Ok(found)
}

fn take_over(arena: &mut Arena) -> anyhow::Result<Vec<Violation>> {
    let before = arena.lasting_leaders()?;
    let Some(frozen) = arena.up.take() else {
        return Ok(Vec::new());
    };
    frozen.freeze()?;
    let mut found = is_held("relight up", arena.home.up(&[])?.end()?);
    arena.up = Some(arena.home.up(&["--take-over"])?);
    let (steady, others): (Vec<_>, Vec<_>) = before
        .into_iter()
        .partition(|(name, _)| name.ends_with("-steady"));
    for (name, _) in &steady {
        arena.kill_leader(name)?;
        // Only the new one can bring it back.
        found.extend(arena.has_successor(name)?);
    }
    found.extend(arena.adopted(&others)?);
    let settled = arena.lasting_leaders()?;
    frozen.thaw();
    if frozen.ends_within(NOTICE_MAX)? {
        let code = frozen.end()?;
        println!("supervise: the one that lost its agents ended with {code}");
    } else {
        let text = format!("a supervisor whose agents were taken over lives after {NOTICE_MAX:?}");
        found.push(Violation::new(Promise::Fence, text));
        frozen.kill()?;
    }
    clock::pause(HARM);
    found.extend(arena.adopted(&settled)?);
    Ok(found)
}

fn is_held(what: &str, code: i32) -> Vec<Violation> {
    let text = format!("a second `{what}` ended with {code} instead of {HELD}");
    if code == HELD {
        vec![]
    } else {
        vec![Violation::new(Promise::Fence, text)]
    }
}
