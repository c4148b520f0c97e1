//! What the columns of the shared form are in PostgreSQL.

use crate::transfer::Table;

/// What a column of the shared form holds here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    Words,
    Bytes,
}

pub(super) fn kind(table: Table, column: &str) -> Kind {
    let texts = [
        "id",
        "name",
        "tag",
        "key",
        "session_id",
        "reason",
        "holder",
        "holder_attempt",
        "folder",
        "spec",
        "context",
        "door",
        "body",
        "owner",
        "detail",
    ];
    match (table, column) {
        (Table::Task, "needs") => Kind::Words,
        (Table::Journal, "body") => Kind::Bytes,
        (Table::Journal, "id") => Kind::Number,
        (Table::Task, "agent") => Kind::Text,
        (_, column) if texts.contains(&column) => Kind::Text,
        _ => Kind::Number,
    }
}

pub(super) fn kinds(table: Table) -> Vec<Kind> {
    table.columns().iter().map(|column| kind(table, column)).collect()
}
