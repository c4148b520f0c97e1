//! Small records of the whole store, by name.

use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::Value;

use super::tasks::{from_json, to_json};
use crate::apply::RecordEntry;

pub(super) fn read(db: &Connection, name: &str) -> Result<Option<Value>> {
    let mut select = db.prepare_cached("SELECT body FROM kept WHERE name = ?1")?;
    let read = |row: &rusqlite::Row<'_>| from_json(row.get_ref(0)?.as_str()?, "kept.body");
    select.query_row([name], read).optional()
}

pub(super) fn for_write(db: &Connection, name: &str) -> Result<Option<RecordEntry>> {
    let value = read(db, name)?;
    Ok(value.map(|value| RecordEntry { value: Some(value), is_there: true, is_changed: false }))
}

pub(super) fn write(db: &Connection, name: &str, entry: &RecordEntry) -> Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO kept (name, body) VALUES (?1, ?2)")?
        .execute([name, &to_json(&entry.value)])?;
    Ok(())
}
