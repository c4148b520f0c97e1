//! What a run came to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Options;
use super::server::Kind;

/// How long takeovers took.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The smallest that so large a part stays below.
    pub(super) fn at(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * part).ceil() as usize;
        sorted
            .get(at.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|part| self.at(part).as_secs_f64());
        format!(
            "{} (p50 {half:.2} s, p99 {most:.2} s, max {all:.2} s)",
            self.0.len()
        )
    }
}

/// The figures.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Agents of machines that died, while the store was there: from the death to the successor.
    pub(super) crashes: Times,
    /// Agents of nodes that lived, and were cut off, frozen or without a daemon: needless, but right.
    pub(super) needless: Times,
    /// Takeovers of either kind while the store was away for a part of the time.
    pub(super) store_away: u64,
    /// Taken over while the old copy could still act.
    pub(super) doubled: u64,
    /// The shortest time between the latest end of an old copy on a living machine and its takeover.
    pub(super) closest: Option<Duration>,
    /// Agents that their guardians ended and their own node started again.
    pub(super) restarted: u64,
    /// Agents that their own node found alive after it was away.
    pub(super) adopted: u64,
    /// Most agents that one node ever had.
    pub(super) most_on_one: usize,
    /// Agents without a live copy at the end.
    pub(super) unheld: usize,
    /// Faults that were played.
    pub(super) faults: usize,
    /// What the store did.
    pub(super) counts: BTreeMap<Kind, u64>,
    /// The longest wait for its turn there.
    pub(super) queue_longest: Duration,
}

impl Report {
    pub(super) fn text(&self, options: &Options) -> String {
        let seconds = options.span.as_secs_f64();
        let rate = |kind: &Kind| *self.counts.get(kind).unwrap_or(&0) as f64 / seconds;
        let rates: Vec<String> = Kind::ALL
            .iter()
            .map(|kind| format!("{} {:.0}", format!("{kind:?}").to_lowercase(), rate(kind)))
            .collect();
        let total: f64 = Kind::ALL.iter().map(rate).sum();
        let closest = self
            .closest
            .map_or("none".to_owned(), |span| format!("{} ms", span.as_millis()));
        format!(
            "simulate: {} nodes, {} agents, {:.1} h, lease {}, {} faults (seed {})\n\
             \x20 takeovers after a machine died: {}\n\
             \x20 needless ones, the node lived but could not be heard: {}\n\
             \x20 takeovers with the store away meanwhile: {}\n\
             \x20 doubled: {}; closest call: {closest} after the old copy's latest end\n\
             \x20 at home again: {} adopted, {} restarted; most agents on one node: {} (even: {})\n\
             \x20 store: {total:.0} operations a second ({}); longest wait in its queue {} ms",
            options.nodes,
            options.agents,
            seconds / 3_600.0,
            options.lease,
            self.faults,
            options.seed,
            self.crashes.text(),
            self.needless.text(),
            self.store_away,
            self.doubled,
            self.adopted,
            self.restarted,
            self.most_on_one,
            options.agents.div_ceil(options.nodes.max(1)),
            rates.join(", "),
            self.queue_longest.as_millis(),
        )
    }
}
