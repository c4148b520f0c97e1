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

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Number,
    /// 0 or 1.
    Flag,
    Text,
    /// A JSON list of texts.
    Words,
    Bytes,
}

/// A column's name and what it holds.
pub(crate) type Column = (&'static str, ColumnKind);

/// By the clock of the store that it is in, so never the same in two: left out of every hash.
pub(crate) const LEASE_LEFT: &str = "lease_left";

use self::ColumnKind::{Bytes, Flag, Number, Text, Words};

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
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Task => &[
                ("n", Number),
                ("fence", Number),
                ("held", Flag),
                ("lease_ttl", Number),
                (LEASE_LEFT, Number),
                ("seq", Number),
                ("steps_done", Number),
                ("starts", Number),
                ("updated_at", Number),
                ("recoveries", Number),
                ("progress_at", Number),
                ("cost", Number),
                ("turns", Number),
                ("steps_open", Number),
                ("id", Text),
                ("status", Number),
                ("agent", Text),
                ("steps_from", Number),
                ("retries", Number),
                ("max_retries", Number),
                ("priority", Number),
                ("created_at", Number),
                ("not_before", Number),
                ("expires_at", Number),
                ("given_up", Flag),
                ("pinned", Flag),
                ("reason", Text),
                ("needs", Words),
                ("key", Text),
                ("folder", Text),
                ("spec", Text),
                ("context", Text),
                ("door", Text),
                ("holder", Text),
                ("held_since", Number),
                ("holder_attempt", Text),
            ],
            Self::Agent => &[
                ("n", Number),
                ("name", Text),
                ("state", Number),
                ("fence", Number),
                ("held", Flag),
                ("lease_ttl", Number),
                (LEASE_LEFT, Number),
                ("seq", Number),
                ("updated_at", Number),
                ("body", Text),
            ],
            Self::Attempt => &[
                ("n", Number),
                ("agent", Number),
                ("number", Number),
                ("tag", Text),
                ("begun_at", Number),
                ("cause", Number),
                ("body", Text),
            ],
            Self::Session => &[
                ("n", Number),
                ("key", Text),
                ("session_id", Text),
                ("state", Number),
                ("generation", Number),
                ("finished", Number),
                ("deaths", Number),
                ("seq", Number),
                ("since", Number),
                ("also_at", Number),
                ("suspended_by", Number),
                ("owner", Text),
                ("lease_ttl", Number),
                (LEASE_LEFT, Number),
                ("reason", Text),
                ("reason_given", Flag),
                ("context", Text),
                ("seen_at", Number),
                ("created_at", Number),
                ("updated_at", Number),
            ],
            Self::Node => &[
                ("name", Text),
                ("epoch", Number),
                ("draining", Flag),
                ("joined_at", Number),
                ("body", Text),
                (LEASE_LEFT, Number),
            ],
            Self::Kept => &[("name", Text), ("body", Text)],
            Self::Journal => &[
                ("id", Number),
                ("at", Number),
                ("kind", Number),
                ("task", Number),
                ("agent", Number),
                ("fence", Number),
                ("name", Text),
                ("occurrence", Number),
                ("rule", Number),
                ("tries", Number),
                ("fingerprint", Number),
                ("exit_code", Number),
                ("detail", Text),
                ("body", Bytes),
            ],
        }
    }

    /// The place of a column.
    pub(crate) fn place(self, column: &str) -> usize {
        let found = self.columns().iter().position(|(name, _)| *name == column);
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
