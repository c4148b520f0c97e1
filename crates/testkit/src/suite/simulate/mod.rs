//! A fleet of a thousand nodes in virtual time: an hour of crashes, freezes, cuts and failovers in
//! seconds, on the product's own decisions.
//!
//! Real: when a node renews, looks and counts as lost (`relight_runtime::fleet::Keeping`, `Term`), whose turn a
//! free agent is (`core::node::Turn`), and the store in memory with its leases, sequence numbers and
//! fences. Simulated: clocks, the way to the store, the store's pace, machines. Nothing sleeps, and one
//! seed is one run.

mod faults;
mod machine;
mod report;
mod server;
mod world;

use std::time::Duration;

use relight_core::time::Span;

use crate::world::tally::{Promise, Tally, Violation};
use report::Report;
use world::World;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many nodes.
    pub nodes: usize,
    /// How many agents among them.
    pub agents: usize,
    /// For how long.
    pub span: Duration,
    /// How long a lease lasts.
    pub lease: Span,
    /// How often it is renewed.
    pub renew: Span,
    /// How often in an hour the store is lost to its successor.
    pub failovers_an_hour: f64,
    /// By how much the clock of a store's successor differs at most.
    pub clock_jump_max: Duration,
    /// How long a tree lives on after its shim has killed it, at the worst.
    pub killing: Duration,
    /// What every draw comes from.
    pub seed: u64,
}

/// How long trees of the red control live on: past every lease.
const KILLING_BROKEN: Duration = Duration::from_secs(3);

/// No two copies in an hour of everything that is allowed; and two copies are seen when trees live on for
/// longer than the reserve at the end of a lease.
pub fn run(options: Options, tally: &Tally) -> anyhow::Result<()> {
    let replay = format!(
        "./prove simulate --nodes {} --agents {} --seed {}",
        options.nodes, options.agents, options.seed
    );
    let report = World::new(options)?.play();
    println!("{}", report.text(&options));
    tally.trial(&replay, &judge(&report, &options));
    let broken = Options {
        nodes: options.nodes.min(50),
        agents: options.agents.min(100),
        span: Duration::from_secs(900),
        killing: KILLING_BROKEN,
        ..options
    };
    let report = World::new(broken)?.play();
    println!(
        "simulate: red control, trees that live on for {:.0} s after SIGKILL: {} doubled",
        broken.killing.as_secs_f64(),
        report.doubled
    );
    let unseen = Violation::new(Promise::Answer, "two copies at once were not seen");
    let found: Vec<Violation> = (report.doubled == 0)
        .then_some(unseen)
        .into_iter()
        .collect();
    tally.trial(&format!("{replay} (red control)"), &found);
    Ok(())
}

fn judge(report: &Report, options: &Options) -> Vec<Violation> {
    let mut found = Vec::new();
    if report.doubled > 0 {
        let text = format!(
            "{} agents were taken while the old copy could act",
            report.doubled
        );
        found.push(Violation::new(Promise::Doubled, text));
    }
    // Beyond what a busy store makes everybody wait.
    let limit = options.lease.as_duration() + Duration::from_secs(1) + report.queue_longest;
    let late = report.crashes.at(0.99);
    if late > limit {
        let text = format!("takeover after a crash: p99 {late:?}, promised {limit:?}");
        found.push(Violation::new(Promise::Lost, text));
    }
    if report.unheld > 0 {
        let text = format!("{} agents were left with nobody at the end", report.unheld);
        found.push(Violation::new(Promise::Lost, text));
    }
    found
}
