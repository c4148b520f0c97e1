//! Small records of the whole store, by name.

use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::Value;

use super::lease_clock::LeaseNow;
use super::rows;
use crate::apply::RecordEntry;
use crate::bodies::to_json;
use crate::record::Table;

pub(super) fn read(db: &Connection, name: &str) -> Result<Option<Value>> {
    let mut select = db.prepare_cached("SELECT body FROM kept WHERE name = ?1")?;
    select
        .query_row([name], |row| rows::read(row, |row| row.json("kept.body")))
        .optional()
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
