//! Questions to the store and their answers, on their way.

use std::rc::Rc;
use std::time::Duration;

use relight_core::node::{Epoch, NodesSummary};

use super::daemon::JOIN_PAUSE_US;
use super::{Happening, World};
use crate::suite::simulate::machine::{Moment, Standing};
use crate::suite::simulate::server::{Free, Kind, View};
use crate::world::seed::Seed;

/// Half of all trips to the store take less than this, one way.
const TRIP_US: f64 = 400.0;
/// How far trips differ: the 99th of a hundred takes five times as long as the half.
const TRIP_SPREAD: f64 = 0.7;
/// What a client of the store waits before it tries a server again that is away.
const AGAIN_MS: [u64; 6] = [1, 10, 50, 100, 250, 500];
/// How long it goes on trying.
const TRIES_US: u64 = 10_000_000;

/// What a node asks of the store.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Join,
    Renew(Epoch),
    Glance,
    Look,
    Take(Free),
}

/// A question on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) id: u64,
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) what: What,
    pub(super) sent: Moment,
    pub(super) sent_boot_ms: u64,
    pub(super) tries: usize,
}

/// What came of it.
pub(super) enum Answer {
    Joined(Option<Epoch>),
    Renewed(bool),
    Glanced(NodesSummary),
    Looked(NodesSummary, Rc<View>, Vec<Free>),
    Taken(bool),
    /// The store could not be reached for too long.
    Failed,
}

impl What {
    fn kind(self) -> Kind {
        match self {
            Self::Join => Kind::Join,
            Self::Renew(_) => Kind::Renew,
            Self::Glance => Kind::Glance,
            Self::Look => Kind::Look,
            Self::Take(_) => Kind::Take,
        }
    }
}

impl World {
    pub(super) fn trip(&mut self) -> u64 {
        let uniform = |seed: &mut Seed| (seed.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        let (one, two) = (uniform(&mut self.seed), uniform(&mut self.seed));
        let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * two).cos();
        (TRIP_US * (TRIP_SPREAD * normal).exp()) as u64
    }

    pub(super) fn ask(&mut self, node: usize, what: What) -> u64 {
        self.numbers += 1;
        let machine = &self.machines[node];
        let question = Question {
            id: self.numbers,
            node,
            life: machine.life,
            what,
            sent: self.now,
            sent_boot_ms: machine.boot_ms(self.now),
            tries: 0,
        };
        let at = self.now + self.trip();
        self.schedule(at, Happening::Arrives(question));
        question.id
    }

    pub(super) fn arrive(&mut self, question: Question) {
        if self.machines[question.node].cuts > 0 {
            self.held_up
                .push((question.node, Happening::Arrives(question)));
        } else if self.server.is_up {
            let at = self.server.done_at(question.what.kind(), self.now);
            self.schedule(at, Happening::Performs(question));
        } else {
            self.try_again(question);
        }
    }

    /// The client's own patience with a server that is away.
    pub(super) fn try_again(&mut self, mut question: Question) {
        let (trip_there, trip_back) = (self.trip(), self.trip());
        let is_alive = self.machines[question.node].life == question.life;
        if self.now > question.sent + TRIES_US || !is_alive {
            let answer = Happening::Answers(question, Box::new(Answer::Failed));
            return self.schedule(self.now + trip_back, answer);
        }
        let pause_ms = AGAIN_MS
            .get(question.tries)
            .or(AGAIN_MS.last())
            .copied()
            .unwrap_or(1);
        question.tries += 1;
        let at = self.now + trip_back + pause_ms * 1_000 + trip_there;
        self.schedule(at, Happening::Arrives(question));
    }

    pub(super) fn perform(&mut self, question: Question) {
        if !self.server.is_up {
            return self.try_again(question);
        }
        self.server.set_clock(self.now);
        let name = self.machines[question.node].name.clone();
        let answer = match question.what {
            What::Join => {
                let joined = self.server.join(&name, self.options.lease);
                self.tell();
                Answer::Joined(joined)
            }
            What::Renew(epoch) => Answer::Renewed(self.server.renew(&name, epoch)),
            What::Glance => Answer::Glanced(self.server.glance()),
            What::Look => {
                let glance = self.server.glance();
                let view = self.server.view(glance.mark);
                let free = self.server.free(&view, question.node);
                Answer::Looked(glance, view, free)
            }
            What::Take(free) => Answer::Taken(self.take(question.node, free)),
        };
        let at = self.now + self.trip();
        self.schedule(at, Happening::Answers(question, Box::new(answer)));
    }

    /// As `take_up` does: nobody is taken from whose lease lasts, nor what moved on since it was read.
    pub(super) fn take(&mut self, node: usize, free: Free) -> bool {
        let glance = self.server.glance();
        let view = self.server.view(glance.mark);
        let other = free.held_by.filter(|holder| *holder != node);
        if other.is_some_and(|holder| !view.gone.contains(&holder)) {
            return false;
        }
        let name = self.machines[node].name.clone();
        if !self.server.take(free.agent, free.seq, node, &name) {
            return false;
        }
        if let Some(holder) = other {
            self.judge(free.agent, holder);
        }
        let many = self.server.of_node[node].len();
        self.report.most_on_one = self.report.most_on_one.max(many);
        self.tell();
        true
    }

    /// An agent was taken from a node just now.
    pub(super) fn judge(&mut self, agent: usize, from: usize) {
        let machine = &mut self.machines[from];
        if let Some(until) = machine.could_act_until(agent, self.options.killing) {
            match self.now.checked_sub(until) {
                None => self.report.doubled += 1,
                Some(after) => {
                    let after = Duration::from_micros(after);
                    let closest = self
                        .report
                        .closest
                        .map_or(after, |closest| closest.min(after));
                    self.report.closest = Some(closest);
                }
            }
        }
        machine.copies.remove(&agent);
        let since = machine.trouble_since.unwrap_or(self.now);
        let took = Duration::from_micros(self.now - since);
        if self.away_until > since || !self.server.is_up {
            self.report.store_away += 1;
        } else if machine.is_up {
            self.report.needless.add(took);
        } else {
            self.report.crashes.add(took);
        }
    }

    pub(super) fn answer(&mut self, question: Question, answer: Box<Answer>) {
        let (node, now) = (question.node, self.now);
        if self.machines[node].cuts > 0 {
            return self
                .held_up
                .push((node, Happening::Answers(question, answer)));
        }
        let machine = &mut self.machines[node];
        if machine.life != question.life || matches!(machine.standing, Standing::Down) {
            return;
        }
        if machine.frozen_until > now {
            let until = machine.frozen_until;
            return self.schedule(until, Happening::Answers(question, answer));
        }
        match (question.what, *answer) {
            (What::Take(free), answer) => {
                self.taken(node, free, matches!(answer, Answer::Taken(true)));
            }
            (What::Look, Answer::Looked(glance, view, free)) => {
                self.looked(node, glance, &view, &free);
            }
            (What::Look, _) => {
                machine.is_looking = false;
                self.look_at(node, now + JOIN_PAUSE_US);
            }
            _ if machine.awaited != Some(question.id) => {}
            (_, answer) => {
                machine.awaited = None;
                self.member_answered(node, &question, answer);
            }
        }
    }
}
