//! The tables of a store in the form that all backends share: which columns, in which order.

use std::fmt;

/// Most rows of one page.
pub(crate) const PAGE_ROWS_MAX: usize = 2_000;
/// A page ends with the row that reaches so many bytes.
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing; as a key: before the first.
    None,
    /// Numbers, moments, codes, and yes or no as 1 or 0.
    Number(i64),
    /// Names, free text and JSON.
    Text(String),
    /// What a step wrote.
    Bytes(Vec<u8>),
}

/// The values of one row, in the order of its table's columns. The first is its key.
pub type Row = Vec<Cell>;

/// What is kept, in the order in which it is copied: what others belong to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Tasks, each with its body and its lease.
    Task,
    /// Agents.
    Agent,
    /// Attempts of agents.
    Attempt,
    /// Sessions.
    Session,
    /// Machines of a fleet.
    Node,
    /// Small records of the whole store.
    Kept,
    /// Everything that happened, and the records and outputs of steps.
    Journal,
}

/// By the clock of the store that it is in, so never the same in two: left out of every hash.
pub(crate) const LEASE_LEFT: &str = "lease_left";

impl Table {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Task,
        Self::Agent,
        Self::Attempt,
        Self::Session,
        Self::Node,
        Self::Kept,
        Self::Journal,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Attempt => "attempt",
            Self::Session => "session",
            Self::Node => "node",
            Self::Kept => "kept",
            Self::Journal => "journal",
        }
    }

    /// Its columns; the first is the key.
    pub(crate) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Task => &[
                "n",
                "id",
                "status",
                "agent",
                "reason",
                "fence",
                "held",
                "lease_ttl",
                LEASE_LEFT,
                "holder",
                "holder_attempt",
                "held_since",
                "seq",
                "steps_done",
                "steps_open",
                "steps_from",
                "starts",
                "retries",
                "max_retries",
                "priority",
                "created_at",
                "updated_at",
                "not_before",
                "expires_at",
                "recoveries",
                "progress_at",
                "cost",
                "turns",
                "given_up",
                "pinned",
                "needs",
                "key",
                "folder",
                "spec",
                "context",
                "door",
            ],
            Self::Agent => &[
                "n",
                "name",
                "state",
                "fence",
                "held",
                "lease_ttl",
                LEASE_LEFT,
                "seq",
                "updated_at",
                "body",
            ],
            Self::Attempt => &["n", "agent", "number", "tag", "begun_at", "cause", "body"],
            Self::Session => &[
                "n",
                "key",
                "session_id",
                "state",
                "generation",
                "finished",
                "deaths",
                "seq",
                "since",
                "also_at",
                "suspended_by",
                "owner",
                "lease_ttl",
                LEASE_LEFT,
                "reason",
                "reason_given",
                "context",
                "seen_at",
                "created_at",
                "updated_at",
            ],
            Self::Node => &["name", "epoch", "draining", "joined_at", "body", LEASE_LEFT],
            Self::Kept => &["name", "body"],
            Self::Journal => &[
                "id",
                "at",
                "kind",
                "task",
                "agent",
                "fence",
                "name",
                "occurrence",
                "rule",
                "tries",
                "fingerprint",
                "exit_code",
                "detail",
                "body",
            ],
        }
    }

    /// The place of a column.
    pub(crate) fn place(self, column: &str) -> usize {
        let found = self.columns().iter().position(|name| *name == column);
        found.unwrap_or_else(|| panic!("{self} has a column {column}"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Cell {
    /// About how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::None | Self::Number(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// The number, where it is one.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::None | Self::Text(_) | Self::Bytes(_) => None,
        }
    }

    /// The text, where it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::None | Self::Number(_) | Self::Bytes(_) => None,
        }
    }
}
