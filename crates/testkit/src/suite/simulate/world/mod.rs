//! The run: what happens next, one thing after the other.

mod daemon;
mod looking;
mod trouble;
mod wire;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use relight_runtime::fleet::Timing;

use self::wire::{Answer, Question};
use super::Options;
use super::faults::{self, Fault};
use super::machine::{Machine, Moment, Standing};
use super::report::Report;
use super::server::Server;
use crate::world::seed::Seed;

/// A clock gains or loses so many millionths at most.
const DRIFT_PPM_MAX: u64 = 200;
/// All machines start within this time, so that each has its share: nothing moves while its node lives.
const STARTS_WITHIN: Duration = Duration::from_millis(300);

enum Happening {
    Due { node: usize, life: u64 },
    Arrives(Question),
    Performs(Question),
    Answers(Question, Box<Answer>),
    GivesUp { node: usize, life: u64, id: u64 },
    Looks { node: usize, life: u64 },
    Begins(Fault, Duration),
    Ends(Fault),
    Starts(usize),
}

struct Event {
    at: Moment,
    order: u64,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    /// The heap gives the greatest first: that is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Everything there is.
pub(super) struct World {
    options: Options,
    timing: Timing,
    seed: Seed,
    now: Moment,
    events: BinaryHeap<Event>,
    numbers: u64,
    machines: Vec<Machine>,
    server: Server,
    /// Questions and answers that a cut holds up.
    held_up: Vec<(usize, Happening)>,
    /// When the store was last away.
    away_until: Moment,
    report: Report,
}

impl World {
    pub(super) fn new(options: Options) -> anyhow::Result<Self> {
        let mut seed = Seed::new(options.seed);
        let drift = |seed: &mut Seed| {
            seed.below(2 * DRIFT_PPM_MAX + 1).cast_signed() - DRIFT_PPM_MAX.cast_signed()
        };
        let machines: Vec<Machine> = (0..options.nodes)
            .map(|number| Machine::new(number, drift(&mut seed)))
            .collect();
        let mut world = Self {
            options,
            timing: Timing {
                lease: options.lease,
                renew: options.renew,
            },
            seed,
            now: 0,
            events: BinaryHeap::new(),
            numbers: 0,
            machines,
            server: Server::new(options.nodes, options.agents)?,
            held_up: Vec::new(),
            away_until: 0,
            report: Report::default(),
        };
        for node in 0..options.nodes {
            let at = world.seed.moment(STARTS_WITHIN).as_micros() as u64;
            world.schedule(at, Happening::Starts(node));
        }
        for (at, lasts, fault) in faults::draw(&options, &mut world.seed) {
            world.report.faults += 1;
            world.schedule(at, Happening::Begins(fault, lasts));
        }
        Ok(world)
    }

    /// To the end of the span.
    pub(super) fn play(mut self) -> Report {
        let end = self.options.span.as_micros() as u64;
        while let Some(event) = self.events.pop().filter(|event| event.at < end) {
            self.now = event.at;
            self.happen(event.what);
        }
        assert!(
            self.server.is_as_kept(),
            "the simulation's books are the store's"
        );
        let lives = |agent: &usize| {
            let of = self.server.held[*agent].0.map(|node| &self.machines[node]);
            of.and_then(|machine| machine.could_act_until(*agent, Duration::ZERO))
                .is_some_and(|until| until > end)
        };
        self.report.unheld = (0..self.options.agents)
            .filter(|agent| !lives(agent))
            .count();
        self.report.counts = self.server.counts.clone();
        self.report.queue_longest = self.server.queue_longest;
        self.report
    }

    fn schedule(&mut self, at: Moment, what: Happening) {
        self.numbers += 1;
        self.events.push(Event {
            at,
            order: self.numbers,
            what,
        });
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Due { node, life }
                if self.is_awake(node, life, || Happening::Due { node, life }) =>
            {
                self.due(node);
            }
            Happening::GivesUp { node, life, id }
                if self.is_awake(node, life, || Happening::GivesUp { node, life, id }) =>
            {
                self.give_up(node, id);
            }
            Happening::Looks { node, life }
                if self.is_awake(node, life, || Happening::Looks { node, life }) =>
            {
                self.look(node);
            }
            Happening::Due { .. } | Happening::GivesUp { .. } | Happening::Looks { .. } => {}
            Happening::Arrives(question) => self.arrive(question),
            Happening::Performs(question) => self.perform(question),
            Happening::Answers(question, answer) => self.answer(question, answer),
            Happening::Begins(fault, lasts) => self.begin(fault, lasts),
            Happening::Ends(fault) => self.end(fault),
            Happening::Starts(node) => self.start(node),
        }
    }

    /// Whether the daemon of this life is there and not frozen; one that is does it when it wakes up.
    fn is_awake(&mut self, node: usize, life: u64, again: impl FnOnce() -> Happening) -> bool {
        let machine = &self.machines[node];
        if machine.life != life || matches!(machine.standing, Standing::Down) {
            return false;
        }
        let until = machine.frozen_until;
        if until > self.now {
            self.schedule(until, again());
            return false;
        }
        true
    }
}
