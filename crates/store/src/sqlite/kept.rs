//! Small records of the whole store, by name.

use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::Value;

use super::journal;
use super::tasks::{from_json, to_json};
use crate::contract::Told;

pub(super) fn read(db: &Connection, name: &str) -> Result<Option<Value>> {
    let mut select = db.prepare_cached("SELECT body FROM kept WHERE name = ?1")?;
    let read = |row: &rusqlite::Row<'_>| from_json(row.get_ref(0)?.as_str()?, "kept.body");
    select.query_row([name], read).optional()
}

/// Replaces the record, if it is still `before`, and tells of it.
pub(super) fn swap(
    db: &Connection,
    name: &str,
    before: Option<&Value>,
    now: &Value,
    told: &[Told],
) -> Result<bool> {
    if read(db, name)?.as_ref() != before {
        return Ok(false);
    }
    db.prepare_cached("INSERT OR REPLACE INTO kept (name, body) VALUES (?1, ?2)")?
        .execute([name, &to_json(now)])?;
    for event in told {
        journal::append_of_nothing(db, event.at, event.kind, &event.detail)?;
    }
    Ok(true)
}
