//! A node that keeps its place in the fleet.

use relight_core::node::{SETTLE, SETTLE_ANEW};
use relight_runtime::fleet::{Due, Keeping};

use super::wire::{Answer, Question, What};
use super::{Happening, World};
use crate::suite::simulate::machine::{Moment, Standing};
use crate::suite::simulate::server::Kind;

/// How soon a daemon whose join failed tries again.
pub(super) const JOIN_PAUSE_US: u64 = 200_000;

impl World {
    pub(super) fn start(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        if !matches!(machine.standing, Standing::Down) {
            return;
        }
        machine.is_up = true;
        machine.standing = Standing::Joins;
        self.join(node);
    }

    pub(super) fn join(&mut self, node: usize) {
        let id = self.ask(node, What::Join);
        self.machines[node].awaited = Some(id);
    }

    pub(super) fn due(&mut self, node: usize) {
        let machine = &self.machines[node];
        let Standing::Member(epoch, keeping) = machine.standing else {
            return;
        };
        if machine.awaited.is_some() || machine.boot_ms(self.now) < keeping.due_ms() {
            return;
        }
        match keeping.due(machine.boot_ms(self.now)) {
            Due::Lose => self.lose(node),
            Due::Renew => self.ask_in_time(node, What::Renew(epoch), &keeping),
            Due::Look => self.ask_in_time(node, What::Glance, &keeping),
        }
    }

    pub(super) fn lose(&mut self, node: usize) {
        self.machines[node].lose();
        self.join(node);
    }

    /// Asks, and waits for the answer until nothing may be done any more.
    pub(super) fn ask_in_time(&mut self, node: usize, what: What, keeping: &Keeping) {
        let id = self.ask(node, what);
        let machine = &mut self.machines[node];
        machine.awaited = Some(id);
        let at = machine.moment_of(keeping.term().stop_at_ms());
        self.give_up_at(node, id, at);
    }

    pub(super) fn give_up_at(&mut self, node: usize, id: u64, at: Moment) {
        let life = self.machines[node].life;
        self.schedule(at.max(self.now), Happening::GivesUp { node, life, id });
    }

    pub(super) fn give_up(&mut self, node: usize, id: u64) {
        if self.machines[node].awaited != Some(id) {
            return;
        }
        self.machines[node].awaited = None;
        match self.machines[node].standing {
            Standing::Joins => self.join(node),
            Standing::Member(..) => self.due(node),
            Standing::Down => {}
        }
    }

    /// Comes back to the member when something is due.
    pub(super) fn wait(&mut self, node: usize) {
        let machine = &self.machines[node];
        if let Standing::Member(_, keeping) = machine.standing {
            let at = machine.moment_of(keeping.due_ms()).max(self.now);
            let life = machine.life;
            self.schedule(at, Happening::Due { node, life });
        }
    }

    pub(super) fn member_answered(&mut self, node: usize, question: &Question, answer: Answer) {
        let now = self.now;
        let machine = &mut self.machines[node];
        let now_ms = machine.boot_ms(now);
        match (answer, machine.standing) {
            (Answer::Joined(Some(epoch)), Standing::Joins) => {
                let keeping = Keeping::begun(question.sent_boot_ms, self.timing);
                machine.standing = Standing::Member(epoch, keeping);
                machine.trouble_since = None;
                let settle = if machine.was_member {
                    SETTLE_ANEW
                } else {
                    SETTLE
                };
                machine.settled = machine.boot(now) + settle;
                machine.was_member = true;
                self.ask_in_time(node, What::Glance, &keeping);
                self.look_at(node, now);
            }
            (Answer::Renewed(true), Standing::Member(epoch, mut keeping)) => {
                if !keeping.renewed(question.sent_boot_ms, now_ms) {
                    return self.lose(node);
                }
                machine.standing = Standing::Member(epoch, keeping);
                machine.trouble_since = None;
                machine.guard(now);
                self.ask_in_time(node, What::Glance, &keeping);
            }
            (Answer::Renewed(false), Standing::Member(..)) => self.lose(node),
            (Answer::Glanced(glance), Standing::Member(epoch, mut keeping)) => {
                keeping.looked(now_ms, glance.first_end);
                machine.standing = Standing::Member(epoch, keeping);
                if machine.mark != glance.mark {
                    machine.mark = glance.mark;
                    self.server.done_at(Kind::Nodes, now);
                    self.look_at(node, now);
                }
                self.wait(node);
            }
            (_, Standing::Member(..)) => self.wait(node),
            (_, Standing::Joins) => {
                self.machines[node].awaited = Some(question.id);
                self.give_up_at(node, question.id, now + JOIN_PAUSE_US);
            }
            (_, Standing::Down) => {}
        }
    }
}
