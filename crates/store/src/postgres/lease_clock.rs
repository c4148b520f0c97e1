//! The clock that leases of a fleet are measured by: the database's, the same for every node.

use std::sync::atomic::{AtomicI64, Ordering};

use relight_core::time::Time;

use super::connection::Connection;
use super::error::PostgresFailure;

/// The database's clock in milliseconds, plus what a test moved this handle's by (`$1`).
pub(super) const NOW_MS: &str = if BY_WALL_CLOCKS {
    "$1::bigint"
} else {
    "((extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1::bigint)"
};

/// A deliberately broken build measures leases by the wall clock of each node; see `./prove red`.
const BY_WALL_CLOCKS: bool = cfg!(feature = "broken-wall-clock");

/// How far tests moved the clock for one handle; nothing elsewhere.
#[derive(Debug, Default)]
pub(super) struct PostgresLeaseClock {
    ahead_ms: AtomicI64,
}

impl PostgresLeaseClock {
    pub(super) fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed) + if BY_WALL_CLOCKS { wall_clock_ms() } else { 0 }
    }

    pub(super) fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "what no good build does")]
fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The database's clock, whatever a test did to this handle's.
pub(super) async fn wall(db: &Connection) -> Result<Option<Time>, PostgresFailure> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = db.query_opt(sql, &[]).await?;
    Ok(row.map(|row| Time::from_ms(row.get(0))))
}
