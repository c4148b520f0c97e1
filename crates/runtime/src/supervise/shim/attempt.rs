//! The attempt that a shim runs: its order and what is known of its end.

use relight_core::agent::AttemptTag;
use relight_core::agent::death::HowEnded;
use relight_core::lease::ProcessIdentity;
use relight_core::time::{Span, Time};

use super::cgroup::{Cgroup, CgroupStats, ShimCgroup};
use super::ladder::Ladder;
use super::system::DeadChild;
use super::wire::{ExitRecord, StartOrder};
use crate::os::clock::{now, since_boot};
use crate::os::{process, process_tree};
use crate::supervise::program::NotStarted;

/// An attempt that is about to start.
pub(super) struct StartingAttempt {
    tag: AttemptTag,
    number: u32,
    since: Span,
    leftover_grace: Span,
    cgroup: Option<Cgroup>,
    note: Option<String>,
}

/// An attempt whose processes run or may run.
pub(super) struct RunningAttempt {
    begun: StartingAttempt,
    process: ProcessIdentity,
    /// The running stop sequence.
    pub(super) stop: Option<Ladder>,
    end: Option<LeaderEnd>,
    /// Processes that outlived the main process; none until counted.
    leftovers: Option<u32>,
    /// It is being stopped because its deadline has passed.
    lease_ended: bool,
}

struct LeaderEnd {
    dead: DeadChild,
    at: Time,
    lived: Span,
}

impl StartingAttempt {
    /// Moves the shim into the cgroup in which the attempt will start.
    pub(super) fn before(order: &StartOrder, place: &mut ShimCgroup) -> Self {
        let cgroup = order
            .cgroups
            .as_ref()
            .map(|(own, next)| Cgroup::enter(own, next, place));
        let (cgroup, note) = match cgroup {
            Some(Ok(cgroup)) => (Some(cgroup), None),
            Some(Err(error)) => (None, Some(format!("it has no cgroup: {error}"))),
            None => (None, None),
        };
        Self {
            tag: order.tag.clone(),
            number: order.number,
            since: since_boot(),
            leftover_grace: order.leftover_grace,
            cgroup,
            note,
        }
    }

    /// Its main process was started. It may be dead already, but it is not reaped yet, so its pid
    /// is still its own.
    pub(super) fn started(self, pid: u32, shim: &ProcessIdentity) -> RunningAttempt {
        let start = process::stat(pid).map_or(0, |stat| stat.start);
        RunningAttempt {
            begun: self,
            process: ProcessIdentity {
                pid,
                start,
                ..shim.clone()
            },
            stop: None,
            end: None,
            leftovers: None,
            lease_ended: false,
        }
    }

    /// It never ran.
    pub(super) fn not_started(mut self, why: NotStarted, place: &mut ShimCgroup) -> ExitRecord {
        self.leave_cgroup(place);
        self.cgroup.map(Cgroup::finish);
        ExitRecord {
            tag: self.tag,
            number: self.number,
            process: None,
            how: HowEnded::Code(why.code),
            note: Some(why.note),
            at: now(),
            lived: Span::ZERO,
            memory_max_kib: None,
            cpu_ms: None,
            oom: false,
            leftovers: 0,
            survivors: 0,
            lease_ended: false,
            exhausted: why.is_exhausted,
        }
    }

    fn leave_cgroup(&mut self, place: &mut ShimCgroup) {
        if let Some(Err(error)) = self.cgroup.as_mut().map(|cgroup| cgroup.leave(place)) {
            self.note = Some(format!("its cgroup is not its own: {error}"));
        }
    }
}

impl RunningAttempt {
    /// Its tag and main process.
    pub(super) fn running(&self) -> (AttemptTag, ProcessIdentity) {
        (self.begun.tag.clone(), self.process.clone())
    }

    /// Moves the shim out, so that the cgroup contains only this attempt.
    pub(super) fn leave_cgroup(&mut self, place: &mut ShimCgroup) {
        self.begun.leave_cgroup(place);
    }

    /// Kills its cgroup, if it has one.
    pub(super) fn kill_cgroup(&self) {
        if let Some(cgroup) = &self.begun.cgroup {
            cgroup.kill();
        }
    }

    /// Its deadline has passed, which overrides other reasons to stop it. An attempt that ended
    /// before keeps its own end.
    pub(super) fn lease_has_ended(&mut self) {
        self.lease_ended |= self.end.is_none();
    }

    /// Whether its main process was reaped.
    pub(super) fn leader_is_dead(&self) -> bool {
        self.end.is_some()
    }

    /// Records the end of a child: the main process, or one that the shim adopted.
    pub(super) fn note_death(&mut self, dead: DeadChild) {
        if dead.pid == self.process.pid && self.end.is_none() {
            let lived = since_boot()
                .as_ms()
                .saturating_sub(self.begun.since.as_ms());
            self.end = Some(LeaderEnd {
                dead,
                at: now(),
                lived: Span::from_ms(lived),
            });
        }
    }

    /// Starts the grace period of remaining children if the main process is dead.
    pub(super) fn begin_leftovers(&mut self) {
        if self.end.is_none() || self.leftovers.is_some() {
            return;
        }
        self.leftovers = Some(process_tree::count());
        let stop = self.stop.take();
        self.stop = Some(Ladder::of_leftovers(
            stop,
            self.begun.leftover_grace,
            since_boot(),
        ));
    }

    /// The exit record, once all its processes are gone or cannot be stopped.
    pub(super) fn finish(self, survivors: u32) -> ExitRecord {
        let counted = self
            .begun
            .cgroup
            .map_or_else(CgroupStats::default, Cgroup::finish);
        let dead = self.end.as_ref().map(|end| end.dead);
        ExitRecord {
            tag: self.begun.tag,
            number: self.begun.number,
            process: Some(self.process),
            how: dead.map_or(HowEnded::Unknown, |dead| dead.how),
            note: self.begun.note,
            at: self.end.as_ref().map_or_else(now, |end| end.at),
            lived: self.end.as_ref().map_or(Span::ZERO, |end| end.lived),
            memory_max_kib: counted
                .memory_max_kib
                .or(dead.map(|dead| dead.memory_max_kib)),
            cpu_ms: dead.map(|dead| dead.cpu_ms),
            oom: counted.oom,
            leftovers: self.leftovers.unwrap_or(0).saturating_sub(survivors),
            survivors,
            lease_ended: self.lease_ended,
            exhausted: false,
        }
    }
}
