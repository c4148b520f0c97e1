//! One simulated machine: its clock, its daemon, and what its shims were told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use relight_core::ids::NodeName;
use relight_core::node::{ChangeToken, Epoch, TakeoverTurn};
use relight_core::time::Span;
use relight_runtime::fleet::Keeping;
use relight_runtime::presets::Rung;

/// Moments of true time, in microseconds from the beginning.
pub(super) type Moment = u64;

/// Agents are patient: they use all the grace that the end of a lease leaves them.
const GRACE: Span = Span::from_secs(10);

/// What the daemon of a machine is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Standing {
    /// Not there: the machine or the daemon is down.
    Down,
    /// Asks for a lease.
    Joins,
    /// Has one.
    Member(Epoch, Keeping),
}

/// An agent that runs on a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    /// The moment of the machine's clock at which its shim kills it.
    pub(super) kill_at_ms: u64,
    /// Whether the daemon supervises it under its present lease.
    pub(super) is_guided: bool,
}

/// A machine.
pub(super) struct Machine {
    pub(super) name: NodeName,
    /// Its clock gains so many millionths.
    pub(super) drift_ppm: i64,
    pub(super) standing: Standing,
    /// Grows when the daemon or the machine begins anew: what was under way is of an earlier life.
    pub(super) life: u64,
    /// Whether the machine runs.
    pub(super) is_up: bool,
    /// How many things cut it off from the store.
    pub(super) cuts: u32,
    /// Its daemon does nothing until then.
    pub(super) frozen_until: Moment,
    /// Since when something is wrong with it.
    pub(super) trouble_since: Option<Moment>,
    /// The question that its member waits for.
    pub(super) awaited: Option<u64>,
    /// The mark of the nodes that it knows.
    pub(super) mark: ChangeToken,
    /// Whether its daemon had a lease in this life.
    pub(super) was_member: bool,
    /// From when on it takes what is free, by its own clock.
    pub(super) settled: Duration,
    /// Since when it has seen agents free, and whose turn they are among the nodes that it knows.
    pub(super) free: BTreeMap<usize, (Duration, TakeoverTurn)>,
    /// The mark of those nodes.
    pub(super) free_mark: ChangeToken,
    /// The next look for agents is due then.
    pub(super) looks_at: Option<Moment>,
    /// One is under way.
    pub(super) is_looking: bool,
    /// When the last one began.
    pub(super) looked_at: Moment,
    /// Agents that live here.
    pub(super) copies: BTreeMap<usize, Copy>,
    /// Agents that it has asked for.
    pub(super) asked: BTreeSet<usize>,
}

impl Machine {
    pub(super) fn new(number: usize, drift_ppm: i64) -> Self {
        Self {
            name: NodeName::new(format!("n{number:05}")).expect("a valid name"),
            drift_ppm,
            standing: Standing::Down,
            life: 0,
            is_up: true,
            cuts: 0,
            frozen_until: 0,
            trouble_since: None,
            awaited: None,
            mark: [i64::MIN; 5],
            was_member: false,
            settled: Duration::ZERO,
            free: BTreeMap::new(),
            free_mark: [i64::MIN; 5],
            looks_at: None,
            is_looking: false,
            looked_at: 0,
            copies: BTreeMap::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Its boot-time clock.
    pub(super) fn boot_us(&self, now: Moment) -> u64 {
        let gained = i128::from(now) * i128::from(self.drift_ppm) / 1_000_000;
        u64::try_from(i128::from(now) + gained).unwrap_or(0)
    }

    pub(super) fn boot_ms(&self, now: Moment) -> u64 {
        self.boot_us(now) / 1_000
    }

    pub(super) fn boot(&self, now: Moment) -> Duration {
        Duration::from_micros(self.boot_us(now))
    }

    /// When its clock will show that.
    pub(super) fn moment_of(&self, boot_ms: u64) -> Moment {
        let boot_us = i128::from(boot_ms) * 1_000;
        let true_us = boot_us * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        // The clock shows whole milliseconds; never a moment too early.
        u64::try_from(true_us).unwrap_or(0) + 2
    }

    /// Whether the daemon may take things up.
    pub(super) fn may_act(&self, now: Moment) -> bool {
        match self.standing {
            Standing::Member(_, keeping) => self.boot_ms(now) < keeping.term().stop_at_ms(),
            Standing::Down | Standing::Joins => false,
        }
    }

    /// Tells the shims of what it supervises until when they may let it live.
    pub(super) fn guard(&mut self, now: Moment) {
        let Some(until_ms) = self.kill_at_ms() else {
            return;
        };
        let now_ms = self.boot_ms(now);
        for copy in self.copies.values_mut().filter(|copy| copy.is_guided) {
            if now_ms < copy.kill_at_ms {
                copy.kill_at_ms = until_ms;
            }
        }
    }

    /// Supervises an agent from now on. False when one that had lived here was dead, or there was none.
    pub(super) fn supervise(&mut self, agent: usize, now: Moment) -> bool {
        let Some(kill_at_ms) = self.kill_at_ms() else {
            return false;
        };
        let now_ms = self.boot_ms(now);
        let before = self.copies.insert(
            agent,
            Copy {
                kill_at_ms,
                is_guided: true,
            },
        );
        before.is_some_and(|copy| now_ms < copy.kill_at_ms)
    }

    fn kill_at_ms(&self) -> Option<u64> {
        let ladder = vec![Rung {
            signal: 15,
            wait: GRACE,
        }];
        match self.standing {
            Standing::Member(_, keeping) => Some(keeping.term().deadline(ladder).kill_at_ms),
            Standing::Down | Standing::Joins => None,
        }
    }

    /// Its lease is lost: it drops all supervision, and asks for another.
    pub(super) fn lose(&mut self) {
        self.standing = Standing::Joins;
        self.awaited = None;
        self.asked.clear();
        self.copies
            .values_mut()
            .for_each(|copy| copy.is_guided = false);
    }

    /// Until when a copy could act, in true time, when killing its tree takes so long; none when there is
    /// none.
    pub(super) fn could_act_until(&self, agent: usize, killing: Duration) -> Option<Moment> {
        let copy = self.copies.get(&agent).filter(|_| self.is_up)?;
        Some(self.moment_of(copy.kill_at_ms) + killing.as_micros() as u64)
    }

    /// The machine is gone with all that ran on it.
    pub(super) fn crash(&mut self) {
        self.is_up = false;
        self.copies.clear();
        self.stop_daemon();
    }

    /// Only its daemon is: what runs goes on.
    pub(super) fn stop_daemon(&mut self) {
        self.lose();
        self.standing = Standing::Down;
        self.life += 1;
        self.was_member = false;
        (self.looks_at, self.is_looking) = (None, false);
        self.mark = [i64::MIN; 5];
        self.free.clear();
        self.frozen_until = 0;
    }
}
