//! What goes wrong, and heals.

use std::time::Duration;

use super::{Happening, World};
use crate::suite::simulate::faults::Fault;
use crate::suite::simulate::machine::{Machine, Standing};

/// What was sent into a cut is sent again within so long after it healed.
const RESENT_MS_MAX: u64 = 1_000;

impl World {
    pub(super) fn begin(&mut self, fault: Fault, lasts: Duration) {
        let now = self.now;
        let troubled = |machine: &mut Machine| {
            machine.trouble_since.get_or_insert(now);
        };
        match &fault {
            Fault::Crash(node) | Fault::DaemonGone(node) | Fault::Freeze(node)
                if matches!(self.machines[*node].standing, Standing::Down) =>
            {
                return;
            }
            Fault::Crash(node) => {
                self.machines[*node].crash();
                self.machines[*node].trouble_since = Some(now);
            }
            Fault::DaemonGone(node) => {
                self.machines[*node].stop_daemon();
                troubled(&mut self.machines[*node]);
            }
            Fault::Freeze(node) => {
                let machine = &mut self.machines[*node];
                machine.frozen_until = now + lasts.as_micros() as u64;
                troubled(machine);
            }
            Fault::Cut(nodes) => {
                for machine in &mut self.machines[nodes.clone()] {
                    machine.cuts += 1;
                    troubled(machine);
                }
            }
            Fault::StoreAway(_) if !self.server.is_up => return,
            Fault::StoreAway(_) => {
                self.server.is_up = false;
                self.away_until = now + lasts.as_micros() as u64;
            }
        }
        self.schedule(now + lasts.as_micros() as u64, Happening::Ends(fault));
    }

    pub(super) fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) | Fault::DaemonGone(node) => self.start(node),
            Fault::Freeze(_) => {}
            Fault::Cut(nodes) => {
                for machine in &mut self.machines[nodes] {
                    machine.cuts -= 1;
                }
                self.send_what_was_held_up();
            }
            Fault::StoreAway(jump_ms) => {
                self.server.is_up = true;
                // The successor's clock is near true time, as the one before it was.
                self.server.ahead_ms = jump_ms;
            }
        }
    }

    pub(super) fn send_what_was_held_up(&mut self) {
        for (node, what) in std::mem::take(&mut self.held_up) {
            if self.machines[node].cuts > 0 {
                self.held_up.push((node, what));
            } else {
                let at = self.now + self.seed.below(RESENT_MS_MAX * 1_000);
                self.schedule(at, what);
            }
        }
    }
}
