//! The guard of a live attempt in a fleet: passes each new deadline to its shim at once, and stops
//! the attempt before the last deadline if the shim was killed.
//!
//! Runs in a task of its own, because commits and reads may take longer than a lease. It outlives
//! lost supervision: then it passes on nothing more but still watches the shim.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use relight_core::node::Epoch;
use relight_core::time::Span;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Actor;
use super::tree::{self, Tree};
use crate::fleet::{Fleet, Standing};
use crate::os::process_tree::kill_below;
use crate::os::{clock, pidfd, threads};
use crate::presets::Rung;
use crate::supervise::shim::client::Orders;
use crate::supervise::shim::wire::Order;
use crate::supervise::watch_process::ProcessWatch;

/// The main process of an attempt, once known.
pub(super) type Leader = Arc<OnceLock<ProcessIdentity>>;

struct AttemptGuard {
    fleet: Fleet,
    /// The node lease under which the attempt is supervised.
    epoch: Epoch,
    shim: ProcessIdentity,
    orders: Weak<Orders>,
    tag: AttemptTag,
    leader: Leader,
    ladder: Vec<Rung>,
}

impl Actor {
    /// Starts the guard, which runs until the attempt's end is known. Does nothing outside of a
    /// fleet.
    pub(super) fn stand_guard(&mut self) {
        let (fleet, epoch) = (self.context.fleet.clone(), self.node_right.epoch());
        let (Some(fleet), Some(epoch), Some(life)) = (fleet, epoch, &self.life) else {
            return;
        };
        let Tree::Shim {
            connection, shim, ..
        } = &self.tree
        else {
            return;
        };
        let guard = AttemptGuard {
            fleet,
            epoch,
            shim: shim.clone(),
            orders: connection.orders(),
            tag: life.tag.clone(),
            leader: Arc::clone(&life.leader),
            ladder: self.ladder(),
        };
        let stands = tokio::spawn(guard.stand()).abort_handle();
        if let Some(life) = &mut self.life {
            life.guard = Some(stands);
        }
    }

    /// The ladder for processes without a shim; ends by the node's deadline.
    pub(super) fn ladder_in_time(&self) -> Vec<Rung> {
        let ladder = self.ladder();
        let Some(fleet) = &self.context.fleet else {
            return ladder;
        };
        let term = self
            .node_right
            .epoch()
            .and_then(|epoch| fleet.term_of(epoch));
        let kill_at_ms = term.map_or(0, |term| term.deadline(ladder.clone()).kill_at_ms);
        tree::cut(
            ladder,
            Span::from_ms(kill_at_ms.saturating_sub(clock::boot_ms())),
        )
    }
}

impl AttemptGuard {
    async fn stand(self) {
        let watch = ProcessWatch::new(&self.shim);
        let mut standing = self.fleet.standing();
        let mut kill_at_ms = None;
        let mut killed_for = None;
        loop {
            kill_at_ms = self.pass_on().await.or(kill_at_ms);
            tokio::select! {
                () = gone(&watch) => break,
                () = renewed(&mut standing) => {}
                () = overdue(kill_at_ms.filter(|_| kill_at_ms != killed_for)) => {
                    // Its shim does the same, unless it was stopped.
                    let shim = self.shim.clone();
                    threads::run_at_once(move || kill_below(&shim)).await;
                    killed_for = kill_at_ms;
                }
            }
        }
        let left_ms = kill_at_ms.unwrap_or(0).saturating_sub(clock::boot_ms());
        self.end(Span::from_ms(left_ms));
    }

    /// Sends the newest deadline to the shim, which stops the attempt if no newer one comes.
    /// Returns the deadline; none when the lease is over.
    async fn pass_on(&self) -> Option<u64> {
        let deadline = self
            .fleet
            .term_of(self.epoch)?
            .deadline(self.ladder.clone());
        let kill_at_ms = deadline.kill_at_ms;
        let _ = pidfd::continue_stopped(&self.shim);
        if let Some(orders) = self.orders.upgrade() {
            // If the shim cannot be reached it is gone or has another supervisor.
            let _ = orders.send(&Order::Guard(deadline)).await;
        }
        Some(kill_at_ms)
    }

    /// The shim is dead: stops the attempt without asking the store, which may be unreachable. Does
    /// nothing if the processes ended first.
    fn end(self, left: Span) {
        let grace = tree::sum(&tree::cut(self.ladder, left));
        let leader = self.leader.get().cloned();
        let end = move || tree::end(leader.as_ref(), self.tag, grace);
        tokio::spawn(threads::run_at_once(end));
    }
}

/// Resolves when the shim is gone; never when it cannot be watched.
async fn gone(watch: &std::io::Result<Option<ProcessWatch>>) {
    match watch {
        Ok(Some(watch)) => drop(watch.gone().await),
        Ok(None) => {}
        Err(_) => std::future::pending().await,
    }
}

/// Resolves at this time.
async fn overdue(at_ms: Option<u64>) {
    match at_ms {
        Some(at_ms) => {
            let left_ms = at_ms.saturating_sub(clock::boot_ms());
            tokio::time::sleep(Duration::from_millis(left_ms)).await;
        }
        None => std::future::pending().await,
    }
}

/// Resolves when the lease was renewed or lost; never when nobody renews it.
async fn renewed(standing: &mut watch::Receiver<Standing>) {
    if standing.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Dismisses the guard of an attempt whose end is known.
pub(super) fn dismiss(guard: Option<AbortHandle>) {
    if let Some(guard) = guard {
        guard.abort();
    }
}
