//! What befalls a fleet, and when: drawn before anything begins, so that a seed shows it again.
//!
//! Every node has a lane, and so has the database. In a lane one trouble follows the other; lanes know
//! nothing of each other, so troubles meet in every way.

use std::fmt;
use std::time::Duration;

use crate::world::network::Cut;
use crate::world::seed::Seed;

/// Something that befalls a node or the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    NodeKilled,
    DaemonKilled,
    DaemonFrozen,
    NodeFrozen,
    Cut(Cut),
    Flapping,
    ClockTurned,
    DatabaseKilled,
    ConnectionsKilled,
}

/// Whom it befalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Node(usize),
    Database,
}

/// Which part of a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Begin,
    /// Once more: of a cable that flaps, of connections that are killed.
    Again,
    End,
}

/// One moment of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) at: Duration,
    pub(super) lane: Lane,
    pub(super) trouble: Trouble,
    pub(super) part: Part,
}

/// What befalls a node and stays until it is healed.
pub(super) const LASTING: [Trouble; 7] = [
    Trouble::NodeKilled,
    Trouble::DaemonKilled,
    Trouble::DaemonFrozen,
    Trouble::NodeFrozen,
    Trouble::Cut(Cut::BothWays),
    Trouble::Cut(Cut::ToServer),
    Trouble::Cut(Cut::FromServer),
];
/// What befalls a node and passes.
const PASSING: [Trouble; 2] = [Trouble::Flapping, Trouble::ClockTurned];
const OF_DATABASES: [Trouble; 2] = [Trouble::DatabaseKilled, Trouble::ConnectionsKilled];
/// Between two moments of what happens again and again.
const BEAT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeKilled => "a node killed whole",
            Self::DaemonKilled => "a daemon killed",
            Self::DaemonFrozen => "a daemon frozen past the lease",
            Self::NodeFrozen => "a node frozen whole past the lease",
            Self::Cut(Cut::BothWays) => "a node cut off",
            Self::Cut(Cut::ToServer) => "a node that only hears",
            Self::Cut(Cut::FromServer) => "a node that only speaks",
            Self::Flapping => "a cable that flaps",
            Self::ClockTurned => "a wall clock turned",
            Self::DatabaseKilled => "PostgreSQL killed and started again",
            Self::ConnectionsKilled => "connections killed",
        })
    }
}

impl Trouble {
    /// How long it lasts.
    fn lasts(self, seed: &mut Seed, lease: Duration) -> Duration {
        let part = |percent: u32| lease * percent / 100;
        let (least, most) = match self {
            Self::DaemonFrozen | Self::NodeFrozen => (110, 160),
            Self::Cut(_) => (30, 180),
            Self::Flapping => (60, 150),
            Self::ClockTurned => (0, 1),
            Self::ConnectionsKilled => (20, 60),
            // Back in time, or too late.
            Self::NodeKilled | Self::DaemonKilled | Self::DatabaseKilled => {
                if seed.below(2) == 0 {
                    (5, 50)
                } else {
                    (110, 160)
                }
            }
        };
        seed.between(part(least), part(most))
    }

    fn is_again_and_again(self) -> bool {
        matches!(self, Self::Flapping | Self::ConnectionsKilled)
    }
}

/// All that befalls a fleet of so many nodes within about this span.
pub(super) fn draw(seed: &mut Seed, nodes: usize, lease: Duration, span: Duration) -> Vec<Act> {
    let mut acts = Vec::new();
    // One deck for all nodes: each trouble comes before any comes again.
    let mut deck = Vec::new();
    let mut ends = vec![Duration::ZERO; nodes];
    loop {
        let (node, free_at) = ends
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, end)| *end)
            .expect("a fleet has nodes");
        let at = free_at + seed.between(lease / 5, lease);
        if at >= span {
            break;
        }
        if deck.is_empty() {
            deck = [&LASTING[..], &PASSING].concat();
            seed.shuffle(&mut deck);
        }
        let trouble = deck.pop().expect("it was just filled");
        ends[node] = befall(&mut acts, seed, Lane::Node(node), trouble, at, lease);
    }
    let mut at = seed.between(lease / 3, lease * 2);
    while at < span {
        let trouble = OF_DATABASES[seed.below(OF_DATABASES.len() as u64) as usize];
        let end = befall(&mut acts, seed, Lane::Database, trouble, at, lease);
        at = end + seed.between(lease / 2, lease * 2);
    }
    acts.sort_by_key(|act| act.at);
    acts
}

/// The moments of one trouble; when it is over.
fn befall(
    acts: &mut Vec<Act>,
    seed: &mut Seed,
    lane: Lane,
    trouble: Trouble,
    at: Duration,
    lease: Duration,
) -> Duration {
    let end = at + trouble.lasts(seed, lease);
    acts.push(Act {
        at,
        lane,
        trouble,
        part: Part::Begin,
    });
    let mut again = at + seed.between(BEAT.0, BEAT.1);
    while trouble.is_again_and_again() && again < end {
        acts.push(Act {
            at: again,
            lane,
            trouble,
            part: Part::Again,
        });
        again += seed.between(BEAT.0, BEAT.1);
    }
    acts.push(Act {
        at: end,
        lane,
        trouble,
        part: Part::End,
    });
    end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LEASE: Duration = Duration::from_secs(3);
    const SPAN: Duration = Duration::from_secs(60);

    fn drawn(seed: u64) -> Vec<Act> {
        draw(&mut Seed::new(seed), 4, LEASE, SPAN)
    }

    #[test]
    fn a_seed_draws_the_same_again_and_another_one_does_not() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn in_a_lane_a_trouble_ends_before_the_next_begins() {
        for lane in [Lane::Node(0), Lane::Node(3), Lane::Database] {
            let mut open = None;
            for act in drawn(7).iter().filter(|act| act.lane == lane) {
                match act.part {
                    Part::Begin => assert_eq!(open.replace(act.trouble), None),
                    Part::Again => assert_eq!(open, Some(act.trouble)),
                    Part::End => assert_eq!(open.take(), Some(act.trouble)),
                }
            }
            assert_eq!(open, None);
        }
    }

    #[test]
    fn every_trouble_comes_within_a_minute_and_freezes_outlast_the_lease() {
        let acts = drawn(7);
        let kinds: BTreeSet<Trouble> = acts.iter().map(|act| act.trouble).collect();
        assert_eq!(
            kinds.len(),
            LASTING.len() + PASSING.len() + OF_DATABASES.len()
        );
        let frozen = |part: Part| {
            let is_it = |act: &&Act| act.trouble == Trouble::NodeFrozen && act.part == part;
            acts.iter().find(is_it).expect("a node is frozen").at
        };
        assert!(frozen(Part::End) - frozen(Part::Begin) > LEASE);
    }
}
