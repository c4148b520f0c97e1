//! Sessions as rows.

use std::sync::LazyLock;

use relight_core::ids::SessionKey;
use relight_core::session::Session;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::rows::{self, LeaseColumn, columns, insert_sql, update_sql};
use crate::contract::{SessionQuery, UnreadableRow};
use crate::record::{Column, Table};
use crate::record::{list_sessions, read_session};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM session",
        columns(Table::Session, LeaseColumn::Left)
    )
});

pub(super) async fn by_key(
    db: &Connection,
    key: &SessionKey,
    ahead_ms: i64,
) -> Result<Option<Session>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE key = $2", *SELECT));
    rows::one(
        db,
        &SQL,
        &values![ahead_ms, key.as_str().to_owned()],
        read_session,
    )
    .await
}

pub(super) async fn list(
    db: &Connection,
    query: &SessionQuery,
    ahead_ms: i64,
) -> Result<Vec<Session>, PostgresFailure> {
    rows::list(
        db,
        list_sessions(&SELECT, vec![ahead_ms.into()], query),
        read_session,
    )
    .await
}

/// The sessions of a list that cannot be read.
pub(super) async fn unreadable(
    db: &Connection,
    query: &SessionQuery,
) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    let list = list_sessions(&SELECT, vec![0.into()], query);
    rows::unreadable(db, list, ("session", 1), read_session).await
}

/// Locks what a writer compares until the transaction ends.
pub(super) const LOCK: &str = "
    SELECT s.* FROM unnest($1::text[]) AS w (wanted)
    CROSS JOIN LATERAL (SELECT key, seq, lease_until FROM session WHERE session.key = w.wanted
                        FOR UPDATE) AS s";

/// All columns except the number, which the database assigns.
pub(super) fn written() -> &'static [Column] {
    &Table::Session.columns()[1..]
}

pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| insert_sql("session", written()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("session", written(), "key", &["created_at"]));
