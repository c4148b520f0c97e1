//! A file that went back in time: an older backup was restored.

use std::path::Path;

use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::open::{self, Use};

/// Raises every number that a writer may still show to at least this one, so that nobody who worked
/// with a later state of the store is taken for a writer of this one. The holders stay.
pub fn raise_numbers(path: &Path, least: u64, told: &serde_json::Value) -> Result<(), StoreError> {
    if !path.exists() {
        let (place, why) = (
            path.display().to_string(),
            "there is no such file".to_owned(),
        );
        return Err(StoreError::Unreachable { place, why });
    }
    let db = open::open(path, Use::Short)?;
    let least = least.cast_signed();
    let raise = || {
        db.execute_batch("BEGIN IMMEDIATE")?;
        for (table, column) in [
            ("task", "fence"),
            ("agent", "fence"),
            ("session", "generation"),
            ("node", "epoch"),
        ] {
            let sql = format!("UPDATE {table} SET {column} = MAX({column} + 1, ?1)");
            db.execute(&sql, [least])?;
        }
        let sql = "INSERT INTO journal (id, at, kind, detail)
                   SELECT MAX(COALESCE(MAX(id), 0) + 1, ?1), ?1, ?2, ?3 FROM journal";
        let kind = relight_core::event::EventKind::Recovered.code();
        db.execute(sql, rusqlite::params![least, kind, to_json(told)])?;
        db.execute_batch("COMMIT")
    };
    raise().map_err(|error| {
        let _ = db.execute_batch("ROLLBACK");
        store_error(path, error)
    })
}
