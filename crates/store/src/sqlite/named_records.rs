//! Small records of the whole store, by name.

use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::Value;

use super::lease_clock::LeaseNow;
use super::rows;
use crate::apply::RecordEntry;
use crate::bodies::to_json;
use crate::contract::KeptRange;
use crate::record::{Table, list_kept, read_kept};

pub(super) fn read(db: &Connection, name: &str) -> Result<Option<Value>> {
    let mut select = db.prepare_cached("SELECT body FROM kept WHERE name = ?1")?;
    select
        .query_row([name], |row| rows::read(row, |row| row.json("kept.body")))
        .optional()
}

pub(super) fn list(db: &Connection, range: &KeptRange) -> Result<Vec<(String, Value)>> {
    rows::list(db, &list_kept(range), read_kept)
}

pub(super) fn forget(db: &Connection, range: &KeptRange) -> Result<u64> {
    let mut delete = db.prepare_cached("DELETE FROM kept WHERE name >= ?1 AND name < ?2")?;
    Ok(delete.execute([&range.from, &range.to])? as u64)
}

pub(super) fn for_write(db: &Connection, name: &str) -> Result<Option<RecordEntry>> {
    let value = read(db, name)?;
    Ok(value.map(|value| RecordEntry {
        value: Some(value),
        is_there: true,
        is_changed: false,
    }))
}

pub(super) fn write(db: &Connection, name: &str, entry: &RecordEntry, now: LeaseNow) -> Result<()> {
    rows::insert(
        db,
        Table::Kept,
        vec![name.into(), to_json(&entry.value).into()],
        now,
    )
}
