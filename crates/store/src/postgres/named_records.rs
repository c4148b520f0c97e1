//! Small records of the whole store, by name.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::rows::{self, insert_sql, update_sql};
use super::text;
use crate::contract::KeptRange;
use crate::record::{Table, list_kept, read_kept};

pub(super) async fn read(db: &Connection, name: &str) -> Result<Option<Json>, PostgresFailure> {
    let sql = "SELECT body FROM kept WHERE name = $1";
    let values = values![text::kept(name).into_owned()];
    rows::one(db, sql, &values, |row| row.json("kept.body")).await
}

pub(super) async fn list(
    db: &Connection,
    range: &KeptRange,
) -> Result<Vec<(String, Json)>, PostgresFailure> {
    rows::list(db, list_kept(range), read_kept).await
}

/// These records, held until the transaction ends.
pub(super) const LOCK: &str = "
    SELECT k.* FROM unnest($1::text[]) AS w (wanted)
    CROSS JOIN LATERAL (SELECT name, body FROM kept WHERE kept.name = w.wanted FOR UPDATE) AS k";

pub(super) static INSERT: LazyLock<String> =
    LazyLock::new(|| insert_sql("kept", Table::Kept.columns()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("kept", Table::Kept.columns(), "name", &[]));
