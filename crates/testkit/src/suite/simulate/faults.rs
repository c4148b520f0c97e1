//! What goes wrong, drawn beforehand.

use std::ops::Range;
use std::time::Duration;

use super::Options;
use super::machine::Moment;
use crate::world::seed::Seed;

/// Something that begins, and has an end.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// A machine is gone with everything on it, and comes back.
    Crash(usize),
    /// A daemon is killed, and comes back; what it supervised lives on.
    DaemonGone(usize),
    /// A daemon stands still.
    Freeze(usize),
    /// These cannot reach the store.
    Cut(Range<usize>),
    /// The store is away, and comes back with a clock that differs by so many milliseconds.
    StoreAway(i64),
}

/// Nothing goes wrong in the beginning.
const QUIET_FIRST: Duration = Duration::from_secs(60);
/// Nor in the end, so that everything comes to rest.
pub(super) const QUIET_LAST: Duration = Duration::from_secs(120);
/// Nodes in a rack.
const RACK: usize = 50;

/// A kind of fault: how often in an hour and how long.
struct Rate {
    an_hour: f64,
    shortest: Duration,
    longest: Duration,
}

impl Rate {
    const fn new(an_hour: f64, shortest_ms: u64, longest_ms: u64) -> Self {
        let (shortest, longest) = (
            Duration::from_millis(shortest_ms),
            Duration::from_millis(longest_ms),
        );
        Self {
            an_hour,
            shortest,
            longest,
        }
    }

    /// The moments in this span, each with how long it lasts.
    fn draw(&self, span: Duration, seed: &mut Seed) -> Vec<(Moment, Duration)> {
        let usable = span.saturating_sub(QUIET_FIRST + QUIET_LAST);
        // At least one of each, however short the run.
        let count = (self.an_hour * usable.as_secs_f64() / 3_600.0).ceil() as u64;
        let mut drawn = Vec::new();
        for _ in 0..count {
            let at = QUIET_FIRST + seed.moment(usable);
            drawn.push((
                at.as_micros() as u64,
                self.shortest + seed.moment(self.longest - self.shortest),
            ));
        }
        drawn
    }
}

/// All faults of a run, each with its beginning and how long it lasts. A bad hour: a tenth of the
/// machines dies in it, and no fewer than thirty.
pub(super) fn draw(options: &Options, seed: &mut Seed) -> Vec<(Moment, Duration, Fault)> {
    let tenth = (options.nodes as f64 / 10.0).max(30.0);
    let mut all = Vec::new();
    let mut add = |rate: Rate, seed: &mut Seed, fault: &mut dyn FnMut(&mut Seed) -> Fault| {
        for (at, lasts) in rate.draw(options.span, seed) {
            let fault = fault(seed);
            all.push((at, lasts, fault));
        }
    };
    let nodes = options.nodes;
    let any = move |seed: &mut Seed| seed.below(nodes as u64) as usize;
    add(Rate::new(tenth, 20_000, 300_000), seed, &mut |seed| {
        Fault::Crash(any(seed))
    });
    add(Rate::new(tenth, 300, 20_000), seed, &mut |seed| {
        Fault::DaemonGone(any(seed))
    });
    add(Rate::new(tenth, 300, 30_000), seed, &mut |seed| {
        Fault::Freeze(any(seed))
    });
    add(Rate::new(tenth * 2.0, 200, 60_000), seed, &mut |seed| {
        let one = any(seed);
        Fault::Cut(one..one + 1)
    });
    let rack = RACK.min(nodes / 4).max(1);
    add(Rate::new(6.0, 1_000, 60_000), seed, &mut |seed| {
        let first = any(seed).min(nodes - rack);
        Fault::Cut(first..first + rack)
    });
    add(Rate::new(2.0, 3_000, 40_000), seed, &mut |_| {
        Fault::Cut(0..nodes / 2)
    });
    let jump_ms = options.clock_jump_max.as_millis() as u64;
    add(
        Rate::new(options.failovers_an_hour, 500, 20_000),
        seed,
        &mut |seed| {
            // Each server is off by half of it at most, so two of them by all of it.
            Fault::StoreAway(seed.below(jump_ms + 1).cast_signed() - (jump_ms / 2).cast_signed())
        },
    );
    all
}
