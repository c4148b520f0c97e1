//! Kills at random moments: is every effect in the journal, and does none happen twice?

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;

use super::client::Client;
use super::trial::Trial;
use crate::world::group::ends_within;
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Violation};
use crate::world::{clock, processes};

/// Acts of a conversation, and kills while it works.
const ACTS: usize = 5;
pub(super) const KILLS: u64 = 5;
/// From an attempt's start to its end without a kill, about.
const LIFE: Duration = Duration::from_millis(1_500);
const START_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(300);

/// Kills one conversation several times; how many kills there were, and what was found.
pub(super) fn conversation(
    product: &Product,
    clis: &Path,
    root: &Path,
    client: Client,
    mut seed: Seed,
) -> anyhow::Result<(u64, Vec<Violation>)> {
    let mut trial = Trial::make(product, clis, root, client, None, ACTS, &mut seed)?;
    trial.has_task = seed.below(2) == 0;
    let outcome = strike(&trial, &mut seed);
    trial.clean_up();
    outcome
}

fn strike(trial: &Trial<'_>, seed: &mut Seed) -> anyhow::Result<(u64, Vec<Violation>)> {
    let mut run = trial.start(&["--max-attempts", "1000", "--cooldown", "10ms"])?;
    let (mut kills, mut found) = (0, Vec::new());
    let mut struck = Vec::new();
    for _ in 0..KILLS {
        let living = || processes::tagged(|agent| agent == trial.name);
        let mut ended = false;
        let starts = clock::becomes(START_MAX, || {
            ended = run.try_wait()?.is_some();
            // One that was struck may be seen until it is reaped.
            Ok(ended || living().iter().any(|(_, tag)| !struck.contains(tag)))
        })?;
        if ended || !starts {
            break;
        }
        clock::pause(seed.moment(LIFE));
        let now = living();
        let Some((_, tag)) = now.first().cloned() else {
            continue;
        };
        // The whole tree, or only the program: the supervisor ends the rest.
        match seed.below(3) {
            0 => processes::kill(now.iter().map(|(pid, _)| *pid).min().unwrap_or_default()),
            _ => trial.kill_agent(),
        }
        struck.push(tag);
        kills += 1;
        silent_effects(trial, &mut found)?;
    }
    let has_ended = run.try_wait()?.is_some() || ends_within(Pid::from_child(&run), END_MAX)?;
    if !has_ended {
        run.kill()?;
        found.push(Violation::new(
            Promise::Lost,
            format!("not done: {}", trial.log_end()),
        ));
    }
    let code = run.wait()?.code();
    if code != Some(0) {
        let text = format!("exit {code:?}: {}", trial.log_end());
        found.push(Violation::new(Promise::Answer, text));
    }
    for act in 1..=ACTS {
        match trial.effects(act) {
            1 => {}
            0 => found.push(Violation::new(
                Promise::Lost,
                format!("act {act} did not happen"),
            )),
            times => {
                let text = format!("act {act} happened {times} times");
                found.push(Violation::new(Promise::Repeated, text));
            }
        }
    }
    silent_effects(trial, &mut found)?;
    Ok((kills, found))
}

/// Effects that no step stands for.
fn silent_effects(trial: &Trial<'_>, found: &mut Vec<Violation>) -> anyhow::Result<()> {
    let effects = fs::read_to_string(trial.root.join("work/effects")).unwrap_or_default();
    // The newest event of each step is its state.
    let steps: BTreeMap<String, String> = trial
        .step_events()?
        .into_iter()
        .map(|(kind, step)| (step, kind))
        .collect();
    for act in effects
        .lines()
        .filter_map(|line| line.strip_prefix("effect "))
    {
        let call = format!("./act do {act} ");
        let of_act = || steps.iter().filter(|(step, _)| step.contains(&call));
        if !of_act().any(|(_, kind)| matches!(kind.as_str(), "step.begun" | "step.done")) {
            let states: Vec<_> = of_act().collect();
            let text = format!("act {act} is neither done nor in doubt: {states:?}");
            found.push(Violation::new(Promise::Lost, text));
        }
    }
    Ok(())
}
