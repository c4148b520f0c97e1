//! Supervision under fire: agents of every bad habit under `relight up` and `relight run`, while agents,
//! shims and supervisors are killed at random and told to stop in between.

mod arena;
mod cast;
mod clock_jump;
mod frozen_supervisor;
pub mod pid_reuse;
mod strike;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::arena::{Arena, Cast};
use self::cast::Habit;
pub(super) use self::clock_jump::library as clock_library;
use self::strike::Strike;
use crate::world::clock;
use crate::world::daemon::Home;
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Tally, Violation};

/// Strikes until a trial is over and looked at.
const STRIKES_OF_A_TRIAL: u64 = 40;
/// Verbs that must be there.
const VERBS: [&str; 7] = ["up", "run", "ps", "deaths", "stop", "start", "down"];

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many kills in all; as many as there is time for when none.
    pub kills: Option<u64>,
    /// What every draw comes from.
    pub seed: u64,
    /// Only this trial of the run, to see it again.
    pub only_trial: Option<u64>,
    /// Trials at the same time.
    pub workers: usize,
    /// No kills after this time, whatever was reached by then.
    pub span: Duration,
    /// Also freeze supervisors, reuse pids and turn clocks.
    pub modes: bool,
}

struct Run<'a> {
    relight: &'a Path,
    fake_agent: PathBuf,
    work: &'a Path,
    options: Options,
    until: Instant,
    tally: &'a Tally,
    kills: AtomicU64,
    trials: AtomicU64,
    lines: AtomicU64,
    attempts: AtomicU64,
    hides_charges: AtomicBool,
    strikes: Mutex<BTreeMap<Strike, u64>>,
}

/// Runs trials until there were enough kills.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    let home = Home::new(&product.relight, &work.join("supervise-verbs"))?;
    if let Some(verb) = VERBS.iter().find(|verb| !home.has_verb(verb)) {
        tally.skip("supervise", &format!("no `{verb}` yet"));
        return Ok(());
    }
    let began = clock::now();
    if options.modes {
        frozen_supervisor::run(product, work, tally)?;
        pid_reuse::run(product, work, tally)?;
        clock_jump::run(product, work, tally)?;
    }
    let run = Run {
        relight: &product.relight,
        fake_agent: fake_agent(product),
        work,
        options,
        until: clock::now() + options.span,
        tally,
        kills: AtomicU64::new(0),
        trials: AtomicU64::new(options.only_trial.unwrap_or(0)),
        lines: AtomicU64::new(0),
        attempts: AtomicU64::new(0),
        hides_charges: AtomicBool::new(false),
        strikes: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.workers)
            .map(|_| scope.spawn(|| run.work()))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker never panics"))
    })?;
    run.report(began.elapsed());
    Ok(())
}

/// The agent that was built beside the drivers.
fn fake_agent(product: &Product) -> PathBuf {
    product.driver.with_file_name("relight-fake-agent")
}

impl Run<'_> {
    fn work(&self) -> anyhow::Result<()> {
        while !self.is_over() {
            let trial = self.trials.fetch_add(1, Ordering::Relaxed);
            let folder = self.work.join(format!("supervise-{trial}"));
            let found = self.trial(trial, &folder).unwrap_or_else(|error| {
                vec![Violation::new(Promise::Answer, format!("{error:#}"))]
            });
            let replay = format!(
                "./prove supervise --seed {} --trial {trial}",
                self.options.seed
            );
            self.tally.trial(&replay, &found);
            if found.is_empty() {
                std::fs::remove_dir_all(&folder)?;
            }
            println!("supervise: trial {trial}: {}", self.summary());
            if self.options.only_trial.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let kills = self.kills.load(Ordering::Relaxed);
        self.options.kills.is_some_and(|max| kills >= max) || clock::now() > self.until
    }

    fn trial(&self, trial: u64, folder: &Path) -> anyhow::Result<Vec<Violation>> {
        let mut seed = Seed::of_trial(self.options.seed, trial);
        // Other proofs may run on this machine.
        let prefix = format!("p{}t{trial}", std::process::id());
        let cast = Cast {
            up: &Habit::ALL,
            alone: Some(Habit::Daemonizer),
        };
        let mut arena = Arena::make(self.relight, &self.fake_agent, folder, &prefix, cast)?;
        arena.start_up()?;
        arena.start_alone()?;
        let mut found = arena.settle()?;
        for _ in 0..STRIKES_OF_A_TRIAL {
            if !found.is_empty() || self.is_over() {
                break;
            }
            let strike = Strike::draw(&mut seed);
            found.extend(arena.strike(strike, &mut seed)?);
            self.count(strike, std::mem::take(&mut arena.kills));
            clock::pause(seed.moment(Duration::from_millis(30)));
            if seed.below(4) == 0 {
                found.extend(arena.settle()?);
                found.extend(arena.check()?);
            }
        }
        found.extend(arena.settle()?);
        found.extend(arena.close()?);
        self.hides_charges
            .fetch_or(arena.hides_charges, Ordering::Relaxed);
        let (lines, attempts) = arena.volume()?;
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.attempts.fetch_add(attempts, Ordering::Relaxed);
        Ok(found)
    }

    fn count(&self, strike: Strike, kills: u64) {
        *self
            .strikes
            .lock()
            .expect("nothing panics here")
            .entry(strike)
            .or_default() += 1;
        self.kills.fetch_add(kills, Ordering::Relaxed);
    }

    fn summary(&self) -> String {
        let (kills, counts) = (self.kills.load(Ordering::Relaxed), self.tally.counts());
        let (doubled, lost, left) = (counts.doubled, counts.lost, counts.left_behind);
        format!("{kills} kills: {doubled} doubled, {lost} lost, {left} left behind")
    }

    fn report(&self, took: Duration) {
        for (strike, count) in &*self.strikes.lock().expect("nothing panics here") {
            println!("  {count:>6} × {}", strike.as_str());
        }
        let (lines, attempts) = (
            self.lines.load(Ordering::Relaxed),
            self.attempts.load(Ordering::Relaxed),
        );
        println!(
            "supervise: {} ({attempts} attempts, {lines} lines, {:.0} s, seed {})",
            self.summary(),
            took.as_secs_f64(),
            self.options.seed
        );
        let kills = self.kills.load(Ordering::Relaxed);
        if self.hides_charges.load(Ordering::Relaxed) {
            self.tally.skip(
                "supervise: counts of restarts",
                "`ps --json` does not tell them",
            );
        }
        let is_short = self.options.kills.is_some_and(|wanted| kills < wanted);
        if is_short && self.options.only_trial.is_none() {
            self.tally
                .skip("supervise", &format!("time was up after {kills} kills"));
        }
    }
}
