//! A node that looks for agents without a node, and takes its share.

use std::time::Duration;

use relight_core::node::{NodesSummary, TakeoverTurn};

use super::wire::What;
use super::{Happening, World};
use crate::suite::simulate::machine::{Moment, Standing};
use crate::suite::simulate::server::{Free, View};

/// From a commit to whoever listens.
const NOTIFY_US: u64 = 6_000;
/// The rest between two looks, as `supervise::tidings` has it: a millisecond for each node, a second at
/// most.
const REST_MS_MAX: u64 = 1_000;

impl World {
    pub(super) fn look_at(&mut self, node: usize, at: Moment) {
        let machine = &mut self.machines[node];
        if matches!(machine.standing, Standing::Down)
            || machine.looks_at.is_some_and(|due| due <= at)
        {
            return;
        }
        machine.looks_at = Some(at);
        let life = machine.life;
        self.schedule(at, Happening::Looks { node, life });
    }

    pub(super) fn look(&mut self, node: usize) {
        let now = self.now;
        let machine = &mut self.machines[node];
        if machine.looks_at.is_none_or(|due| due > now) {
            return;
        }
        machine.looks_at = None;
        if machine.is_looking {
            // When that one is over.
            machine.looks_at = Some(now);
            return;
        }
        if machine.may_act(now) {
            (machine.is_looking, machine.looked_at) = (true, now);
            self.ask(node, What::Look);
        }
    }

    pub(super) fn looked(&mut self, node: usize, glance: NodesSummary, view: &View, free: &[Free]) {
        let now = self.now;
        let machine = &mut self.machines[node];
        machine.is_looking = false;
        machine.mark = glance.mark;
        if let Some(due) = machine.looks_at.take() {
            self.look_at(node, due.max(now));
        }
        let machine = &mut self.machines[node];
        if !machine.may_act(now) {
            return;
        }
        let boot = machine.boot(now);
        let mut again: Option<Duration> = None;
        let mut takes = Vec::new();
        let mut known = std::mem::take(&mut machine.free);
        let is_as_before = std::mem::replace(&mut machine.free_mark, glance.mark) == glance.mark;
        for one in free {
            let is_ours = one.held_by == Some(node);
            let is_supervised = machine
                .copies
                .get(&one.agent)
                .is_some_and(|copy| copy.is_guided);
            if (is_ours && is_supervised) || machine.asked.contains(&one.agent) {
                continue;
            }
            let before = known.remove(&one.agent);
            let since = before.map_or(boot, |(since, _)| since);
            if !is_ours && boot < machine.settled {
                // Whose turn it is does not matter yet.
                machine
                    .free
                    .insert(one.agent, (since, TakeoverTurn::Nobodys));
                again = Some(again.map_or(machine.settled, |at| at.min(machine.settled)));
                continue;
            }
            let turn = match before {
                // The same question about the same nodes.
                Some((_, turn @ (TakeoverTurn::Ours | TakeoverTurn::Anothers(_))))
                    if is_as_before && !is_ours =>
                {
                    turn
                }
                _ if is_ours => TakeoverTurn::OursAlready,
                _ => {
                    let name = self.server.agent(one.agent);
                    TakeoverTurn::after(view.before(one.agent, name, node))
                }
            };
            machine.free.insert(one.agent, (since, turn));
            let Some(due_at) = turn.due_at(boot, machine.settled, since) else {
                continue;
            };
            if due_at <= boot {
                machine.asked.insert(one.agent);
                takes.push(*one);
            } else {
                again = Some(again.map_or(due_at, |at| at.min(due_at)));
            }
        }
        for free in takes {
            self.ask(node, What::Take(free));
        }
        if let Some(again) = again {
            let at = self.machines[node].moment_of(again.as_millis() as u64 + 1);
            self.look_at(node, at);
        }
    }

    /// Something was committed: everybody who listens looks, after their rest.
    pub(super) fn tell(&mut self) {
        let rest = (self.machines.len() as u64).min(REST_MS_MAX) * 1_000;
        for node in 0..self.machines.len() {
            let machine = &self.machines[node];
            if machine.cuts == 0 && matches!(machine.standing, Standing::Member(..)) {
                let at = (self.now + NOTIFY_US).max(machine.looked_at + rest);
                self.look_at(node, at);
            }
        }
    }

    pub(super) fn taken(&mut self, node: usize, free: Free, is_taken: bool) {
        let now = self.now;
        let machine = &mut self.machines[node];
        machine.asked.remove(&free.agent);
        if !is_taken || !machine.may_act(now) {
            return;
        }
        let was_alive = machine.supervise(free.agent, now);
        if free.held_by == Some(node) {
            self.report.adopted += u64::from(was_alive);
            self.report.restarted += u64::from(!was_alive);
        }
    }
}
