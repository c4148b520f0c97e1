//! Task statuses and the table of allowed transitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits in the queue for anyone.
    Created,
    /// Waits for its agent.
    Assigned,
    /// Is being worked on.
    InProgress,
    /// Done; waits for review.
    InReview,
    /// Waits for a person.
    Blocked,
    /// Resumes at a set time.
    Deferred,
    /// Its holder died or was stopped.
    Interrupted,
    /// Paused by a person or a limit.
    Suspended,
    /// Failed; may be assigned again while retries are left.
    Failed,
    /// Finished.
    Completed,
    /// Cancelled by a person.
    Cancelled,
}

use TaskStatus::{
    Assigned, Blocked, Cancelled, Completed, Created, Deferred, Failed, InProgress, InReview,
    Interrupted, Suspended,
};

/// Every allowed transition. Printed by `relight task states`.
pub const TRANSITIONS: [(TaskStatus, &[TaskStatus]); 11] = [
    (Created, &[Assigned, InProgress, Blocked, Failed, Cancelled]),
    (
        Assigned,
        &[
            InProgress,
            Created,
            Blocked,
            Deferred,
            Interrupted,
            Suspended,
            Failed,
            Cancelled,
        ],
    ),
    (
        InProgress,
        &[
            InReview,
            Completed,
            Assigned,
            Blocked,
            Deferred,
            Interrupted,
            Suspended,
            Failed,
            Cancelled,
        ],
    ),
    (
        InReview,
        &[Completed, InProgress, Blocked, Failed, Cancelled],
    ),
    (
        Blocked,
        &[Assigned, InProgress, InReview, Failed, Cancelled],
    ),
    (
        Deferred,
        &[Assigned, InProgress, Suspended, Failed, Cancelled],
    ),
    (
        Interrupted,
        &[Assigned, InProgress, Suspended, Failed, Cancelled],
    ),
    (
        Suspended,
        &[Assigned, InProgress, Suspended, Failed, Cancelled],
    ),
    (Failed, &[Assigned, Cancelled]),
    (Completed, &[]),
    (Cancelled, &[]),
];

impl TaskStatus {
    /// All statuses, in their usual order.
    pub const ALL: [Self; 11] = [
        Created,
        Assigned,
        InProgress,
        InReview,
        Blocked,
        Deferred,
        Interrupted,
        Suspended,
        Failed,
        Completed,
        Cancelled,
    ];

    /// The statuses that may follow this one.
    pub fn next(self) -> &'static [Self] {
        TRANSITIONS
            .iter()
            .find(|(from, _)| *from == self)
            .map_or(&[], |(_, to)| to)
    }

    /// Whether `to` may follow this one.
    pub fn can_become(self, to: Self) -> bool {
        self.next().contains(&to)
    }

    /// Whether nothing can follow.
    pub fn is_terminal(self) -> bool {
        matches!(self, Completed | Cancelled)
    }

    /// Whether it waits for a person.
    pub fn waits_for_person(self) -> bool {
        matches!(self, InReview | Blocked | Suspended)
    }

    /// Whether it can neither be resumed nor finished before a person allows it.
    pub fn is_paused(self) -> bool {
        matches!(self, Blocked | Suspended)
    }

    /// Its name in JSON and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Created => "created",
            Assigned => "assigned",
            InProgress => "in_progress",
            InReview => "in_review",
            Blocked => "blocked",
            Deferred => "deferred",
            Interrupted => "interrupted",
            Suspended => "suspended",
            Failed => "failed",
            Completed => "completed",
            Cancelled => "cancelled",
        }
    }

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|s| *s == self)
            .map_or(0, |at| at as u8 + 1)
    }

    /// The status with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Not a task status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a status; known are {words}", words = TaskStatus::ALL.map(TaskStatus::as_str).join(", "))]
pub struct UnknownStatus(String);

impl FromStr for TaskStatus {
    type Err = UnknownStatus;
    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_status_once_and_in_order() {
        assert_eq!(TRANSITIONS.map(|(from, _)| from), TaskStatus::ALL);
    }

    #[test]
    fn every_non_terminal_status_has_a_way_out_and_can_be_cancelled() {
        for status in TaskStatus::ALL {
            assert_eq!(status.next().is_empty(), status.is_terminal(), "{status}");
            assert_eq!(
                status.can_become(Cancelled),
                !status.is_terminal(),
                "{status}"
            );
        }
    }

    #[test]
    fn completed_can_be_reached_from_every_non_terminal_status() {
        for start in TaskStatus::ALL.into_iter().filter(|s| !s.is_terminal()) {
            let mut reached = vec![start];
            let mut at = 0;
            while at < reached.len() {
                for next in reached[at].next() {
                    if !reached.contains(next) {
                        reached.push(*next);
                    }
                }
                at += 1;
            }
            assert!(reached.contains(&Completed), "{start} cannot be completed");
        }
    }

    #[test]
    fn words_and_numbers_go_both_ways() {
        for status in TaskStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(TaskStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(TaskStatus::from_code(0), None);
        assert!("done".parse::<TaskStatus>().is_err());
    }
}
