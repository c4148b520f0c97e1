//! Repairs a schema after an older backup was restored.

use std::sync::Arc;

use relight_core::event::EventKind;

use super::import::next_number;
use super::line::TransferConnection;
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::postgres::connection::{LONG_WAIT, values};
use crate::postgres::open::Expected;
use crate::postgres::url::PostgresUrl;
use crate::record::Table;

/// Raises every fence, generation and epoch to at least this one, so that writers that knew a later state of
/// the store are refused. Leases are kept.
pub fn raise_numbers(
    url: &PostgresUrl,
    least: u64,
    told: &serde_json::Value,
) -> Result<(), StoreError> {
    let line = TransferConnection::open(url, Expected::There)?;
    let (db, least, told) = (Arc::clone(&line.db), least.cast_signed(), to_json(told));
    let raise = async move {
        let mut script = String::from("BEGIN;");
        for (table, column) in [
            ("task", "fence"),
            ("agent", "fence"),
            ("session", "generation"),
            ("node", "epoch"),
        ] {
            script += &format!("UPDATE {table} SET {column} = GREATEST({column} + 1, {least});");
        }
        db.batch(&script).await?;
        let kind = i16::from(EventKind::Recovered.code());
        let tell = "INSERT INTO journal (id, at, kind, detail)
                    SELECT GREATEST(COALESCE(MAX(id), 0) + 1, $1), $1, $2, $3 FROM journal";
        db.query(tell, &values![least, kind, told]).await?;
        db.query(&next_number(Table::Journal), &[]).await?;
        db.batch("COMMIT").await
    };
    match line.background.run_blocking(LONG_WAIT, raise) {
        Some(answer) => answer.map_err(|failure| failure.into_store_error(&line.place)),
        None => {
            let (place, why) = (line.place.to_string(), "no answer".to_owned());
            Err(StoreError::Unreachable { place, why })
        }
    }
}
