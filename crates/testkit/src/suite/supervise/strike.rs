//! What is done to the agents and supervisors of an arena, by chance.

use std::time::Duration;

use super::arena::Arena;
use crate::world::clock;
use crate::world::daemon::Supervisor;
use crate::world::processes;
use crate::world::seed::Seed;
use crate::world::shown::ShownAgent;
use crate::world::tally::{Promise, Violation};

/// Nothing is awaited for longer than this after a supervisor was killed in the middle of a verb.
const CUT_VERB: Duration = Duration::from_millis(30);

/// By then `ps` tells what is so: a restart does not wait for its record.
const TOLD_MAX: Duration = Duration::from_secs(60);

/// One thing done to an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strike {
    Leader,
    SomeLeaders,
    Member,
    Tree,
    Shim,
    ShimAndLeader,
    Supervisor,
    SupervisorAndLeaders,
    SupervisorAndShim,
    Everything,
    Terminate,
    DownKeepAgents,
    StopStart,
    Restart,
    StopCut,
    Alone,
    AloneAndLeader,
}

/// How often each is drawn.
const SHARES: [(Strike, u64); 17] = [
    (Strike::Leader, 30),
    (Strike::SomeLeaders, 8),
    (Strike::Member, 5),
    (Strike::Tree, 5),
    (Strike::Shim, 6),
    (Strike::ShimAndLeader, 4),
    (Strike::Supervisor, 12),
    (Strike::SupervisorAndLeaders, 6),
    (Strike::SupervisorAndShim, 4),
    (Strike::Everything, 2),
    (Strike::Terminate, 2),
    (Strike::DownKeepAgents, 2),
    (Strike::StopStart, 3),
    (Strike::Restart, 3),
    (Strike::StopCut, 2),
    (Strike::Alone, 4),
    (Strike::AloneAndLeader, 2),
];

impl Strike {
    pub(super) fn draw(seed: &mut Seed) -> Self {
        let mut at = seed.below(SHARES.iter().map(|(_, share)| share).sum());
        for (strike, share) in SHARES {
            if at < share {
                return strike;
            }
            at -= share;
        }
        unreachable!("a draw below the sum falls on a share")
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "an agent",
            Self::SomeLeaders => "several agents at once",
            Self::Member => "one of an agent's tree",
            Self::Tree => "an agent with its tree",
            Self::Shim => "a shim",
            Self::ShimAndLeader => "a shim with its agent",
            Self::Supervisor => "the supervisor",
            Self::SupervisorAndLeaders => "the supervisor and several agents",
            Self::SupervisorAndShim => "the supervisor and a shim",
            Self::Everything => "everything at once",
            Self::Terminate => "SIGTERM to the supervisor",
            Self::DownKeepAgents => "down --keep-agents",
            Self::StopStart => "stop and start",
            Self::Restart => "restart",
            Self::StopCut => "the supervisor in the middle of stop",
            Self::Alone => "relight run",
            Self::AloneAndLeader => "relight run and its agent",
        }
    }

    /// Whether agents live on unharmed, to be adopted.
    fn spares_agents(self) -> bool {
        matches!(self, Self::Supervisor | Self::DownKeepAgents | Self::Alone)
    }
}

impl Arena {
    /// Does it, and brings the supervisor back where it is gone.
    pub(super) fn strike(
        &mut self,
        strike: Strike,
        seed: &mut Seed,
    ) -> anyhow::Result<Vec<Violation>> {
        let watched = strike.spares_agents() && seed.below(2) == 0;
        let mut found = if watched { self.settle()? } else { Vec::new() };
        let before = if watched {
            self.lasting_leaders()?
        } else {
            Vec::new()
        };
        let name = self.draw_name(seed);
        match strike {
            Strike::Leader => self.kill_leader(&name)?,
            Strike::SomeLeaders => self.kill_some_leaders(seed)?,
            Strike::Member => self.kill_member(&name, seed),
            Strike::Tree => self.kill_tree(&name)?,
            Strike::Shim => self.kill_shim(&name)?,
            Strike::ShimAndLeader => {
                self.kill_shim(&name)?;
                self.kill_leader(&name)?;
            }
            Strike::Supervisor => self.kill_up()?,
            Strike::SupervisorAndLeaders => {
                // Either may be first.
                if seed.below(2) == 0 {
                    self.kill_some_leaders(seed)?;
                    self.kill_up()?;
                } else {
                    self.kill_up()?;
                    self.kill_some_leaders(seed)?;
                }
            }
            Strike::SupervisorAndShim => {
                self.kill_up()?;
                self.kill_shim(&name)?;
            }
            Strike::Everything => self.kill_everything()?,
            Strike::Terminate => found.extend(self.terminate()?),
            Strike::DownKeepAgents => found.extend(self.down_keep_agents()?),
            Strike::StopStart => found.extend(self.stop_start(&name)?),
            Strike::Restart => found.extend(self.restart(&name)?),
            Strike::StopCut => found.extend(self.stop_cut(&name, seed)?),
            Strike::Alone => self.kill_alone()?,
            Strike::AloneAndLeader => {
                let name = self.alone_name();
                self.kill_leader(&name)?;
                self.kill_alone()?;
            }
        }
        processes::reap_orphans();
        self.bring_back()?;
        if watched {
            found.extend(self.adopted(&before)?);
        }
        Ok(found)
    }

    fn bring_back(&mut self) -> anyhow::Result<()> {
        if self.up.is_none() {
            self.start_up()?;
        }
        if self.alone.is_none() && self.actors.iter().any(|actor| actor.is_alone) {
            self.start_alone()?;
        }
        Ok(())
    }

    /// An agent of `relight up`.
    fn draw_name(&self, seed: &mut Seed) -> String {
        let of_up: Vec<&str> = self
            .actors
            .iter()
            .filter(|actor| !actor.is_alone)
            .map(|actor| &*actor.name)
            .collect();
        of_up[seed.below(of_up.len() as u64) as usize].to_owned()
    }

    pub(super) fn alone_name(&self) -> String {
        let alone = self.actors.iter().find(|actor| actor.is_alone);
        alone.map_or_else(String::new, |actor| actor.name.clone())
    }

    pub(super) fn kill_leader(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(birth) = self.leader(name)? {
            // Noted before, so that no other thread of events can overtake it.
            self.note(name, |actor| actor.killed.extend([birth.number]));
            processes::kill(birth.pid);
            self.kills += 1;
        }
        Ok(())
    }

    fn kill_some_leaders(&mut self, seed: &mut Seed) -> anyhow::Result<()> {
        for _ in 0..2 + seed.below(4) {
            let name = self.draw_name(seed);
            self.kill_leader(&name)?;
        }
        Ok(())
    }

    /// A member that is the leader counts as one.
    fn kill_member(&mut self, name: &str, seed: &mut Seed) {
        let tree = processes::tagged(|agent| agent == name);
        if let Some((pid, tag)) = tree.get(seed.below(tree.len() as u64) as usize).cloned() {
            self.note_killed_by_tag(name, &tag);
            processes::kill(pid);
            self.kills += 1;
        }
    }

    pub(super) fn kill_tree(&mut self, name: &str) -> anyhow::Result<()> {
        self.kill_leader(name)?;
        for (pid, tag) in processes::tagged(|agent| agent == name) {
            self.note_killed_by_tag(name, &tag);
            processes::kill(pid);
        }
        Ok(())
    }

    fn note_killed_by_tag(&mut self, name: &str, tag: &str) {
        let number: Option<u32> = tag
            .rsplit('.')
            .nth(1)
            .and_then(|number| number.parse().ok());
        self.note(name, |actor| actor.killed.extend(number));
    }

    pub(super) fn kill_shim(&mut self, name: &str) -> anyhow::Result<()> {
        let numbers = self.newest_numbers(name)?;
        for (pid, _) in processes::shims(|agent| agent == name) {
            self.note(name, |actor| actor.shim_killed.extend(numbers));
            processes::kill(pid);
            self.kills += 1;
        }
        Ok(())
    }

    pub(super) fn kill_up(&mut self) -> anyhow::Result<()> {
        let Some(up) = self.up.take() else {
            return Ok(());
        };
        self.kills += 1;
        up.kill()
    }

    fn kill_alone(&mut self) -> anyhow::Result<()> {
        let Some(alone) = self.alone.take() else {
            return Ok(());
        };
        self.kills += 1;
        alone.kill()
    }

    /// What is alive is noted first, so that nothing comes between the kills.
    pub(super) fn kill_everything(&mut self) -> anyhow::Result<()> {
        let names: Vec<String> = self.actors.iter().map(|actor| actor.name.clone()).collect();
        for name in &names {
            for (_, tag) in processes::tagged(|agent| agent == name) {
                self.note_killed_by_tag(name, &tag);
            }
            // What is alive now has just lost its shim too.
            self.note(name, |actor| {
                actor.shim_killed.extend(actor.killed.last().copied());
            });
        }
        let supervisors = self.up.iter().chain(&self.alone).map(Supervisor::pid);
        let all: Vec<u32> = supervisors.chain(self.pids()).collect();
        all.iter().for_each(|pid| processes::kill(*pid));
        self.kills += all.len() as u64;
        // Nothing starts a further attempt now: on a loaded machine the numbers from before the kills may be
        // several short lives old.
        let shown = self.home.agents()?;
        for actor in &mut self.actors {
            let number = |agent: &&ShownAgent| agent.name == actor.name;
            actor
                .shim_killed
                .extend(shown.iter().find(number).map(|agent| agent.attempt_number));
        }
        for supervisor in self.up.take().into_iter().chain(self.alone.take()) {
            supervisor.kill()?;
        }
        // Born while the others died.
        names.iter().try_for_each(|name| self.kill_tree(name))
    }

    /// Agents are told, have their grace, and are gone when the supervisor is.
    fn terminate(&mut self) -> anyhow::Result<Vec<Violation>> {
        self.note_all_told()?;
        if let Some(up) = self.up.take() {
            up.terminate()?;
        }
        self.note_all_told()?;
        let alone = self.alone_name();
        self.survivors(|name| name != alone && self.is_ours(name))
    }

    fn down_keep_agents(&mut self) -> anyhow::Result<Vec<Violation>> {
        let found = self.ask(&["down", "--keep-agents"])?;
        match self.up.take() {
            Some(up) if found.is_none() => up.end().map(drop)?,
            Some(up) => up.kill()?,
            None => {}
        }
        Ok(found.into_iter().collect())
    }

    fn stop_start(&mut self, name: &str) -> anyhow::Result<Vec<Violation>> {
        self.note_told(name)?;
        let mut found: Vec<Violation> = self.ask(&["stop", name])?.into_iter().collect();
        self.note_told(name)?;
        found.extend(self.survivors(|agent| agent == name)?);
        found.extend(self.ask(&["start", name])?);
        Ok(found)
    }

    fn restart(&mut self, name: &str) -> anyhow::Result<Vec<Violation>> {
        self.note_told(name)?;
        let found = self.ask(&["restart", name])?.into_iter().collect();
        self.note_told(name)?;
        Ok(found)
    }

    /// A stop that was acknowledged holds, whatever became of the supervisor then.
    fn stop_cut(&mut self, name: &str, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        self.note_told(name)?;
        let home = self.home.clone();
        let words = ["stop".to_owned(), name.to_owned()];
        let verb = std::thread::spawn(move || home.call(&words.each_ref().map(String::as_str)));
        clock::pause(seed.moment(CUT_VERB));
        self.kill_up()?;
        let answer = verb.join().expect("a call never panics")?;
        self.start_up()?;
        let mut found = Vec::new();
        if answer.code == 0 {
            found.extend(self.survivors(|agent| agent == name)?);
            let state = self
                .home
                .agents()?
                .into_iter()
                .find(|agent| agent.name == name);
            if state.as_ref().is_none_or(|agent| agent.state != "stopped") {
                let text =
                    format!("{name} was stopped, and is {state:?} after a supervisor's death");
                found.push(Violation::new(Promise::Lost, text));
            }
        }
        self.note_told(name)?;
        found.extend(self.ask(&["start", name])?);
        Ok(found)
    }

    pub(super) fn ask(&self, words: &[&str]) -> anyhow::Result<Option<Violation>> {
        let answer = self.home.call(words)?;
        let text = || format!("{words:?}: exit {}: {}", answer.code, answer.stderr.trim());
        Ok((answer.code != 0).then(|| Violation::new(Promise::Answer, text())))
    }

    /// Agents that live until somebody ends them, with the attempt that lives now.
    pub(super) fn lasting_leaders(&self) -> anyhow::Result<Vec<(String, u32)>> {
        let mut leaders = Vec::new();
        for actor in self.actors.iter().filter(|actor| actor.habit.is_lasting()) {
            leaders.extend(
                self.leader(&actor.name)?
                    .map(|birth| (actor.name.clone(), birth.pid)),
            );
        }
        Ok(leaders)
    }

    /// Whether the same processes live on, and the product says so.
    pub(super) fn adopted(&self, before: &[(String, u32)]) -> anyhow::Result<Vec<Violation>> {
        let mut found = self.settle_lasting()?;
        let says_so = || {
            let shown = self.home.agents()?;
            let told = |name: &str| shown.iter().find(|agent| agent.name == name)?.pid;
            Ok(before.iter().all(|(name, pid)| told(name) == Some(*pid)))
        };
        if !clock::becomes(TOLD_MAX, says_so)? {
            let text = format!("ps says {:?}, alive are {before:?}", self.home.agents()?);
            found.push(Violation::new(Promise::Record, text));
        }
        for (name, pid) in before {
            let now = self.leader(name)?.map(|birth| birth.pid);
            if now != Some(*pid) {
                let text =
                    format!("{name} had pid {pid} when its supervisor died, and has {now:?}");
                found.push(Violation::new(Promise::Lost, text));
            }
        }
        Ok(found)
    }

    /// Notes that this one is told to end. Called before and after: attempts between may be over
    /// before they were born.
    pub(super) fn note_told(&mut self, name: &str) -> anyhow::Result<()> {
        let numbers = self.newest_numbers(name)?;
        self.note(name, |actor| actor.told_to_end.extend(numbers));
        Ok(())
    }

    /// The newest attempt by its own word, and by the product's.
    fn newest_numbers(&self, name: &str) -> anyhow::Result<[u32; 2]> {
        let born = self.newest(name)?;
        let shown = self
            .home
            .agents()?
            .into_iter()
            .find(|agent| agent.name == name);
        Ok([born, shown.map_or(born, |agent| agent.attempt_number)])
    }

    pub(super) fn note_all_told(&mut self) -> anyhow::Result<()> {
        let names: Vec<String> = self.actors.iter().map(|actor| actor.name.clone()).collect();
        names.iter().try_for_each(|name| self.note_told(name))
    }

    fn note(&mut self, name: &str, note: impl FnOnce(&mut super::arena::Actor)) {
        if let Some(actor) = self.actors.iter_mut().find(|actor| actor.name == name) {
            note(actor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strike_is_drawn_sooner_or_later() {
        let mut seed = Seed::new(1);
        let drawn: std::collections::BTreeSet<Strike> =
            (0..2_000).map(|_| Strike::draw(&mut seed)).collect();
        assert_eq!(drawn.len(), SHARES.len());
    }
}
