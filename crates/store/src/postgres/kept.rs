//! Small records of the whole store, by name.

use serde_json::Value as Json;

use super::connection::{Connection, get, values};
use super::error::Failure;
use super::tasks::from_json;
use super::text;

pub(super) async fn read(db: &Connection, name: &str) -> Result<Option<Json>, Failure> {
    let sql = "SELECT body FROM kept WHERE name = $1";
    let row = db.query_opt(sql, &values![text::kept(name).into_owned()]).await?;
    let body = row.as_ref().map(|row| from_json(get(row, 0)?, "kept.body")).transpose();
    body.map_err(|bad| db.damaged(&bad))
}

/// These records, held until the transaction ends.
pub(super) const LOCK: &str = "
    SELECT k.* FROM unnest($1::text[]) AS w (wanted)
    CROSS JOIN LATERAL (SELECT name, body FROM kept WHERE kept.name = w.wanted FOR UPDATE) AS k";

pub(super) const INSERT: &str = "
    INSERT INTO kept (name, body) SELECT * FROM unnest($1::text[], $2::text[])";

pub(super) const UPDATE: &str = "
    UPDATE kept k SET body = u.body FROM unnest($1::text[], $2::text[]) AS u (name, body)
    WHERE k.name = u.name";
