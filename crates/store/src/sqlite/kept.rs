//! Small records of the whole store, by name.

use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::Value;

use super::tasks::{from_json, to_json};

pub(super) fn read(db: &Connection, name: &str) -> Result<Option<Value>> {
    let mut select = db.prepare_cached("SELECT body FROM kept WHERE name = ?1")?;
    let read = |row: &rusqlite::Row<'_>| from_json(row.get_ref(0)?.as_str()?, "kept.body");
    select.query_row([name], read).optional()
}

/// Replaces the record, if it is still `before`.
pub(super) fn swap(
    db: &Connection,
    name: &str,
    before: Option<&Value>,
    now: &Value,
) -> Result<bool> {
    if read(db, name)?.as_ref() != before {
        return Ok(false);
    }
    db.prepare_cached("INSERT OR REPLACE INTO kept (name, body) VALUES (?1, ?2)")?
        .execute([name, &to_json(now)])?;
    Ok(true)
}
