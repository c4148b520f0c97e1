//! Where a trial plays: agents under `relight up`, one under `relight run`, and what was done to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::cast::Habit;
use crate::agent::{Birth, Places, live_marks};
use crate::checker::supervision::{Lives, Output, check_lives};
use crate::world::clock;
use crate::world::daemon::{Home, Supervisor};
use crate::world::processes;
use crate::world::tally::{Promise, Violation};

/// By then every agent is back, on a busy machine too.
const BACK_MAX: Duration = Duration::from_secs(120);
/// A shim has nothing to do any more when its supervisor is gone, but it is a process of its own.
const SHIM_END_MAX: Duration = Duration::from_secs(60);

/// Who plays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cast<'a> {
    /// Under `relight up`.
    pub(super) up: &'a [Habit],
    /// Under a `relight run` of its own.
    pub(super) alone: Option<Habit>,
}

/// One agent of a trial.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) habit: Habit,
    /// Under `relight run`, not under `relight up`.
    pub(super) is_alone: bool,
    pub(super) killed: BTreeSet<u32>,
    pub(super) shim_killed: BTreeSet<u32>,
    pub(super) told_to_end: BTreeSet<u32>,
    output: Output,
}

/// A whole trial.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) home: Home,
    pub(super) places: Places,
    pub(super) actors: Vec<Actor>,
    pub(super) up: Option<Supervisor>,
    pub(super) alone: Option<Supervisor>,
    /// Leaders, shims and supervisors that lived and were killed.
    pub(super) kills: u64,
    /// The product does not tell what it charged, so that nobody can judge it.
    pub(super) hides_charges: bool,
    /// A clock that is set forward forgives what was charged, so that it is not judged.
    pub(super) forgives_charges: bool,
    fake_agent: PathBuf,
}

impl Arena {
    /// Makes the folders and the configuration. Names begin with `prefix`, which nobody else uses.
    pub(super) fn make(
        relight: &Path,
        fake_agent: &Path,
        folder: &Path,
        prefix: &str,
        cast: Cast<'_>,
    ) -> anyhow::Result<Self> {
        let home = Home::new(relight, &folder.join("home"))?;
        let places = Places::at(folder.join("records"));
        places.create()?;
        let actor = |habit: Habit, is_alone: bool| {
            let role = if is_alone { "alone" } else { habit.as_str() };
            let name = format!("{prefix}-{role}");
            let output = Output::of(&name);
            let (killed, shim_killed, told_to_end) = Default::default();
            Actor {
                name,
                habit,
                is_alone,
                killed,
                shim_killed,
                told_to_end,
                output,
            }
        };
        let mut actors: Vec<Actor> = cast.up.iter().map(|habit| actor(*habit, false)).collect();
        actors.extend(cast.alone.map(|habit| actor(habit, true)));
        let fake_agent = fake_agent.to_owned();
        let arena = Self {
            home,
            places,
            actors,
            up: None,
            alone: None,
            kills: 0,
            hides_charges: false,
            forgives_charges: false,
            fake_agent,
        };
        let entries = arena.actors.iter().filter(|actor| !actor.is_alone);
        let entries: Vec<_> = entries.map(|actor| arena.entry(actor)).collect();
        arena.home.configure(&entries)?;
        Ok(arena)
    }

    fn entry(&self, actor: &Actor) -> crate::world::daemon::Entry {
        actor
            .habit
            .entry(&actor.name, &self.fake_agent, self.places.folder())
    }

    /// Starts `relight up` and waits until it answers.
    pub(super) fn start_up(&mut self) -> anyhow::Result<()> {
        let up = self.home.up(&[])?;
        let ready = up.is_ready(&self.home);
        self.up = Some(up);
        ready
    }

    /// Starts `relight run`.
    pub(super) fn start_alone(&mut self) -> anyhow::Result<()> {
        self.alone = Some(self.run_alone()?);
        Ok(())
    }

    /// One more `relight run` of the same agent.
    pub(super) fn run_alone(&self) -> anyhow::Result<Supervisor> {
        let actor = self
            .actors
            .iter()
            .find(|actor| actor.is_alone)
            .context("one is alone")?;
        self.home.run(&self.entry(actor))
    }

    /// The newest attempt of an agent, when its leader lives.
    pub(super) fn leader(&self, name: &str) -> anyhow::Result<Option<Birth>> {
        let newest = self.places.births(name)?.pop();
        Ok(newest.filter(|birth| has_tag(birth.pid, &birth.tag)))
    }

    /// The number of the newest attempt that was born.
    pub(super) fn newest(&self, name: &str) -> anyhow::Result<u32> {
        Ok(self
            .places
            .births(name)?
            .last()
            .map_or(0, |birth| birth.number))
    }

    pub(super) fn is_ours(&self, name: &str) -> bool {
        self.actors.iter().any(|actor| actor.name == name)
    }

    /// All that lives of the agents, and their shims.
    pub(super) fn pids(&self) -> Vec<u32> {
        let is_ours = |name: &str| self.is_ours(name);
        let all = processes::tagged(is_ours)
            .into_iter()
            .chain(processes::shims(is_ours));
        all.map(|(pid, _)| pid).collect()
    }

    /// Waits until the newest attempt of an agent is one that was not killed.
    pub(super) fn has_successor(&self, name: &str) -> anyhow::Result<Option<Violation>> {
        let actor = self
            .actors
            .iter()
            .find(|actor| actor.name == name)
            .context("one of ours")?;
        let is_back = clock::becomes(BACK_MAX, || {
            processes::reap_orphans();
            Ok(self
                .leader(name)?
                .is_some_and(|birth| !actor.killed.contains(&birth.number)))
        })?;
        let text = || {
            format!(
                "{name} has no successor after {BACK_MAX:?}: {}",
                self.home.last_said()
            )
        };
        Ok((!is_back).then(|| Violation::new(Promise::Lost, text())))
    }

    /// Waits until every agent lives.
    pub(super) fn settle(&self) -> anyhow::Result<Vec<Violation>> {
        self.settle_those(|_| true)
    }

    /// Waits until those live that do not end by themselves.
    pub(super) fn settle_lasting(&self) -> anyhow::Result<Vec<Violation>> {
        self.settle_those(|actor| actor.habit.is_lasting())
    }

    fn settle_those(&self, of: impl Fn(&Actor) -> bool) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        let end = clock::now() + BACK_MAX;
        for actor in self.actors.iter().filter(|actor| of(actor)) {
            let left = end.saturating_duration_since(clock::now());
            let is_back = clock::becomes(left, || {
                processes::reap_orphans();
                Ok(self.leader(&actor.name)?.is_some())
            })?;
            if !is_back {
                let shown = self.home.agents().map(|all| format!("{all:?}"));
                let shown = shown.unwrap_or_else(|error| format!("{error:#}"));
                let said = self.home.last_said();
                let text = format!(
                    "{} is not back after {BACK_MAX:?}: {shown}; {said}",
                    actor.name
                );
                found.push(Violation::new(Promise::Lost, text));
            }
        }
        Ok(found)
    }

    /// What agents complained of, and what is missing of their output.
    pub(super) fn check(&mut self) -> anyhow::Result<Vec<Violation>> {
        let complaints = self.places.complaints();
        let mut found: Vec<Violation> = complaints.iter().map(|line| complaint(line)).collect();
        for actor in &mut self.actors {
            let numbers: Vec<u32> = self
                .places
                .births(&actor.name)?
                .iter()
                .map(|birth| birth.number)
                .collect();
            let written = |number: u32| (number, self.places.written(&actor.name, number));
            let written: Vec<(u32, u64)> = numbers.into_iter().map(written).collect();
            actor.output.read(&self.home.logs(&actor.name))?;
            found.extend(actor.output.check(written));
        }
        Ok(found)
    }

    /// What still lives of these agents, although all of them have ended.
    pub(super) fn survivors(&self, of: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Violation>> {
        let left = |text: String| Violation::new(Promise::LeftBehind, text);
        let mut found = Vec::new();
        for mark in live_marks(&self.places)?
            .iter()
            .filter(|mark| of(&mark.name))
        {
            found.push(left(format!("{mark:?} lives")));
        }
        for (pid, tag) in processes::tagged(&of) {
            found.push(left(format!("pid {pid} with tag {tag} lives")));
        }
        Ok(found)
    }

    /// The shims that outlive their supervisor's orderly end.
    pub(super) fn idle_shims(&self) -> anyhow::Result<Vec<Violation>> {
        let is_ours = |name: &str| self.is_ours(name);
        if clock::becomes(SHIM_END_MAX, || Ok(processes::shims(is_ours).is_empty()))? {
            return Ok(Vec::new());
        }
        let shims = processes::shims(is_ours).into_iter();
        let left = |(pid, name)| format!("the shim of {name}, pid {pid}, lives");
        Ok(shims
            .map(|shim| Violation::new(Promise::LeftBehind, left(shim)))
            .collect())
    }

    /// Attempts, deaths and counts of every agent as the product tells them.
    pub(super) fn check_records(&mut self) -> anyhow::Result<Vec<Violation>> {
        let shown = self.home.agents()?;
        self.hides_charges = shown.iter().any(|agent| agent.restarts.is_none());
        let mut found = Vec::new();
        for actor in &self.actors {
            let Some(agent) = shown.iter().find(|agent| agent.name == actor.name) else {
                let text = format!("ps does not know {}", actor.name);
                found.push(Violation::new(Promise::Record, text));
                continue;
            };
            let births = self.places.births(&actor.name)?;
            let told = |birth: &Birth| {
                let cause = self
                    .places
                    .variable(&actor.name, birth.number, "RELIGHT_DEATH_CAUSE");
                cause.map(|cause| (birth.number, cause))
            };
            found.extend(check_lives(&Lives {
                name: actor.name.clone(),
                causes_told: births.iter().filter_map(told).collect(),
                births,
                deaths: self.home.deaths(&actor.name)?,
                attempt_number: agent.attempt_number,
                is_running: agent.state == "running",
                restarts: agent.restarts.filter(|_| !self.forgives_charges),
                own_causes: actor.habit.causes(),
                killed: actor.killed.clone(),
                shim_killed: actor.shim_killed.clone(),
                told_to_end: actor.told_to_end.clone(),
            }));
        }
        Ok(found)
    }

    /// Ends everything in good order and looks at what is left.
    pub(super) fn close(&mut self) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        self.note_all_told()?;
        found.extend(self.ask(&["down"])?);
        if let Some(up) = self.up.take() {
            up.end()?;
        }
        if let Some(alone) = self.alone.take() {
            alone.terminate()?;
        }
        self.note_all_told()?;
        found.extend(self.survivors(|name| self.is_ours(name))?);
        found.extend(self.idle_shims()?);
        found.extend(self.check()?);
        found.extend(self.check_records()?);
        Ok(found)
    }

    /// Lines that were read of all agents, and their attempts.
    pub(super) fn volume(&self) -> anyhow::Result<(u64, u64)> {
        let lines = self.actors.iter().map(|actor| actor.output.lines()).sum();
        let births = |actor: &Actor| anyhow::Ok(self.places.births(&actor.name)?.len() as u64);
        Ok((
            lines,
            self.actors
                .iter()
                .map(births)
                .sum::<anyhow::Result<u64>>()?,
        ))
    }
}

impl Drop for Arena {
    /// Whatever went wrong, nothing of the trial lives on.
    fn drop(&mut self) {
        for supervisor in self.up.take().into_iter().chain(self.alone.take()) {
            let _ = supervisor.kill();
        }
        processes::end_all(|name| self.is_ours(name));
    }
}

/// Whether that very attempt's process is this pid.
pub(super) fn has_tag(pid: u32, tag: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let wanted = format!("RELIGHT_ATTEMPT={tag}");
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == wanted.as_bytes())
}

fn complaint(line: &str) -> Violation {
    let promise = match line.split(':').next() {
        Some("doubled") => Promise::Doubled,
        Some("left behind") => Promise::LeftBehind,
        _ => Promise::Answer,
    };
    Violation::new(promise, line)
}
