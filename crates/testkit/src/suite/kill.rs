//! SIGKILL at random moments: one life of a driver after the other until its task is completed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};

use crate::checker;
use crate::driver::{self, DriverKind};
use crate::world::clock;
use crate::world::group::Group;
use crate::world::ledger::Entry;
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

/// After so many kills a task is left to run to its end.
const KILLS_OF_A_TASK_MAX: u32 = 25;
/// A task that is not completed after so many lives never will be.
const LIVES_MAX: u32 = 60;
/// How often it is looked whether a driver works.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Nothing in a trial takes this long.
const LIFE_MAX: Duration = Duration::from_secs(180);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many kills in all.
    pub kills: u64,
    /// What every draw comes from.
    pub seed: u64,
    /// Only this trial of the run, to see it again.
    pub only_trial: Option<u64>,
    /// Trials at the same time.
    pub workers: usize,
    /// The end, whatever was reached by then.
    pub until: Instant,
    /// Which programs are killed.
    pub kinds: &'static [DriverKind],
}

#[derive(Debug)]
struct Run<'a> {
    product: &'a Product,
    work: &'a Path,
    options: Options,
    tally: &'a Tally,
    kills: AtomicU64,
    trials: AtomicU64,
    /// How long a life takes that nobody ends, in microseconds, by kind of driver.
    spans: [AtomicU64; DriverKind::COUNT],
    phases: Mutex<BTreeMap<&'static str, u64>>,
}

/// Runs tasks and kills their drivers until there were enough kills.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    let run = Run {
        product,
        work,
        options,
        tally,
        kills: AtomicU64::new(0),
        trials: AtomicU64::new(options.only_trial.unwrap_or(0)),
        spans: Default::default(),
        phases: Mutex::default(),
    };
    let began = clock::now();
    for &kind in options.kinds {
        let span = run.whole(kind)?;
        println!("kill: a whole run takes {span:?} by {}", kind.as_str());
        run.set_span(kind, span);
    }
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

impl Run<'_> {
    /// One driver that nobody kills.
    fn whole(&self, kind: DriverKind) -> anyhow::Result<Duration> {
        let folder = self.work.join(format!("kill-whole-{}", kind.as_str()));
        let stage = Stage::in_folder(self.product, &folder, "whole")?;
        let began = clock::now();
        let (code, _) = spawn(&stage, kind, &folder)?.wait_for_all(LIFE_MAX)?;
        anyhow::ensure!(code == 0, "a driver that nobody kills ended with {code}");
        let mut found = checker::check_completed(&stage, kind)?;
        found.truncate(3);
        anyhow::ensure!(
            found.is_empty(),
            "a driver that nobody kills left {found:?}"
        );
        Ok(began.elapsed())
    }

    fn span(&self, kind: DriverKind) -> Duration {
        Duration::from_micros(self.spans[kind as usize].load(Ordering::Relaxed))
    }

    /// Follows the machine's load, slowly downwards: later lives of a task are short.
    fn set_span(&self, kind: DriverKind, seen: Duration) {
        let span = (seen * 11 / 10).max(self.span(kind) * 9 / 10);
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.spans[kind as usize].store(us, Ordering::Relaxed);
    }

    fn work(&self) -> anyhow::Result<()> {
        let enough = || {
            self.kills.load(Ordering::Relaxed) >= self.options.kills
                || clock::now() > self.options.until
        };
        while !enough() {
            let trial = self.trials.fetch_add(1, Ordering::Relaxed);
            let kinds = self.options.kinds;
            let kind = kinds[(trial % kinds.len() as u64) as usize];
            let folder = self.work.join(format!("kill-{trial}"));
            let found = self.trial(kind, trial, &folder)?;
            let driver = match kind.is_package() {
                true => format!(" --driver {}", kind.as_str()),
                false => String::new(),
            };
            let seed = self.options.seed;
            let replay = format!("./prove kill{driver} --seed {seed} --trial {trial}");
            self.tally.trial(&replay, &found);
            if found.is_empty() {
                std::fs::remove_dir_all(&folder)?;
            }
            self.progress(trial);
            if self.options.only_trial.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn trial(&self, kind: DriverKind, trial: u64, folder: &Path) -> anyhow::Result<Vec<Violation>> {
        let mut seed = Seed::of_trial(self.options.seed, trial);
        let stage = Stage::in_folder(self.product, folder, &format!("task-{trial}"))?;
        let mut kills = 0;
        for _ in 0..LIVES_MAX {
            let began = clock::now();
            let group = spawn(&stage, kind, folder)?;
            let lines = stage.ledger.entries(&stage.task)?.len();
            let mut span = self.span(kind);
            // Most of its life is its start: two of three kills wait until it works.
            if kind.is_package() && seed.below(3) > 0 {
                while stage.ledger.entries(&stage.task)?.len() == lines
                    && !group.leader_ends_within(LOOK_EVERY)?
                {}
                span /= 4;
            }
            let killed = kills < KILLS_OF_A_TASK_MAX
                && !group.leader_ends_within(moment(&mut seed, span))?;
            if killed {
                strike(&group, kind, &stage, &mut seed);
            }
            let (code, in_time) = group.wait_for_all(LIFE_MAX)?;
            if killed {
                kills += 1;
                self.kills.fetch_add(1, Ordering::Relaxed);
                self.note_phase(&stage, lines)?;
            } else if code == 0 {
                self.set_span(kind, began.elapsed());
            }
            let mut found = checker::check_running(&stage, kind)?;
            if !in_time {
                let text = format!("something still ran after {LIFE_MAX:?}");
                found.push(Violation::new(Promise::Answer, text));
            }
            match u8::try_from(code).unwrap_or(driver::UNEXPECTED) {
                driver::COMPLETED if found.is_empty() => {
                    return checker::check_completed(&stage, kind);
                }
                driver::COMPLETED | driver::KILLED => {}
                driver::IN_DOUBT => found.extend(resolve(&stage, kind)?),
                _ => found.push(Violation::new(Promise::Answer, said(folder, code))),
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(vec![Violation::new(
            Promise::Lost,
            format!("not completed after {LIVES_MAX} lives"),
        )])
    }

    fn note_phase(&self, stage: &Stage, lines_before: usize) -> anyhow::Result<()> {
        let entries = stage.ledger.entries(&stage.task)?;
        let phase = match entries.get(lines_before..).and_then(<[Entry]>::last) {
            None => "1 before it had the task",
            Some(Entry::Started { .. }) => "2 before its first step ended",
            Some(Entry::Effect { .. }) => "3 after an effect, before its ack",
            Some(Entry::Ack { .. }) => "4 after an ack, before the next effect",
            Some(Entry::Done) => "5 after the end",
        };
        *self
            .phases
            .lock()
            .expect("nothing panics here")
            .entry(phase)
            .or_default() += 1;
        Ok(())
    }

    fn progress(&self, trial: u64) {
        if trial % 100 == 99 {
            let (kills, counts) = (self.kills.load(Ordering::Relaxed), self.tally.counts());
            let (lost, repeated) = (counts.lost, counts.repeated);
            println!("kill: {kills} kills in {trial} tasks, {lost} lost, {repeated} repeated");
        }
    }

    fn report(&self, took: Duration) {
        let (kills, counts) = (self.kills.load(Ordering::Relaxed), self.tally.counts());
        let rate = kills as f64 / took.as_secs_f64();
        println!(
            "kill: {kills} kills in {:.1} s ({rate:.0}/s), {} lost, {} repeated (seed {})",
            took.as_secs_f64(),
            counts.lost,
            counts.repeated,
            self.options.seed
        );
        for (phase, count) in &*self.phases.lock().expect("nothing panics here") {
            println!("  {count:>6} {}", &phase[2..]);
        }
        if kills < self.options.kills && self.options.only_trial.is_none() {
            self.tally
                .skip("kill", &format!("time was up after {kills} kills"));
        }
    }
}

/// A driver, ready to run.
pub(super) fn driver(stage: &Stage, kind: DriverKind) -> Command {
    let home = stage.home.display().to_string();
    let ledger = stage.ledger.path().display().to_string();
    let checkpoints = stage.checkpoints.display().to_string();
    let words = [kind.as_str(), &home, &checkpoints, &ledger, &stage.task];
    match kind {
        DriverKind::Python => stage.product.python_driver(&words[1..]),
        DriverKind::Node => stage.product.node_driver(&words[1..]),
        _ => stage.product.driver(&words),
    }
}

/// Starts a driver; what it says goes to a file of the trial.
pub(super) fn spawn(stage: &Stage, kind: DriverKind, folder: &Path) -> anyhow::Result<Group> {
    let mut command = driver(stage, kind);
    let said = std::fs::File::options()
        .append(true)
        .create(true)
        .open(folder.join("said"))?;
    command.stdout(Stdio::null()).stderr(said);
    Group::spawn(&mut command)
}

/// Three of four anywhere in a whole run, the others while it starts.
fn moment(seed: &mut Seed, span: Duration) -> Duration {
    if seed.below(4) == 0 {
        seed.moment(span / 8)
    } else {
        seed.moment(span)
    }
}

/// Kills all, the driver alone, or the product's process alone.
fn strike(group: &Group, kind: DriverKind, stage: &Stage, seed: &mut Seed) {
    match (seed.below(4), kind) {
        (0, _) => group.kill_leader(),
        (1, DriverKind::Cli | DriverKind::Checkpoint) => {
            let victims = group.members_running(&stage.product.relight);
            if victims.is_empty() {
                group.kill_all();
            }
            for victim in victims {
                let _ = kill_process(victim, Signal::KILL);
            }
        }
        _ => group.kill_all(),
    }
}

/// Looks at the world as a person would, and says what became of each step in doubt.
pub(super) fn resolve(stage: &Stage, kind: DriverKind) -> anyhow::Result<Vec<Violation>> {
    let task = stage
        .task_shown()?
        .context("a task with a step in doubt is there")?;
    let mut found = Vec::new();
    if kind == DriverKind::Cli && task["status"] != "blocked" {
        let text = format!("a step is in doubt and the task is {}", task["status"]);
        found.push(Violation::new(Promise::Rule, text));
    }
    for step in task["in_doubt"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| s.as_str())
    {
        let happened = stage.ledger.happened(&stage.task, step)?;
        let word = if happened { "--happened" } else { "--did-not" };
        let words = ["step", "resolve", step, "--task", &stage.task, word];
        let answer = stage.product.call(&stage.home, &words)?;
        if answer.code != 0 {
            let text = format!(
                "step resolve {step}: exit {}: {}",
                answer.code, answer.stderr
            );
            found.push(Violation::new(Promise::Answer, text));
        }
    }
    Ok(found)
}

/// The driver's last words.
pub(super) fn said(folder: &Path, code: i32) -> String {
    let said = std::fs::read_to_string(folder.join("said")).unwrap_or_default();
    format!("the driver ended with {code}: {}", said.trim())
}
