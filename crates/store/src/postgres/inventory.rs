//! What the schema holds and how the server is set, for `doctor`.

use super::connection::{Connection, LONG_WAIT, values};
use super::error::Failure;
use super::{agents, attempts, open, sessions, tasks};
use crate::contract::Inventory;

/// Most findings that a check of the whole reports.
const DAMAGE_MAX: usize = 20;

pub(super) async fn take(db: &Connection, schema: &str, whole: bool) -> Result<Inventory, Failure> {
    let sql = "SELECT current_setting('server_version'),
                      (SELECT COUNT(*) FROM journal),
                      (SELECT COUNT(*) FROM task WHERE steps_open > 0),
                      (SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
                       JOIN pg_namespace s ON s.oid = c.relnamespace
                       WHERE s.nspname = $1 AND c.relkind = 'r')";
    let rows = db.query_within(LONG_WAIT, sql, &values![schema.to_owned()]).await?;
    let row = rows.first().expect("counts have a row");
    Ok(Inventory {
        backend: format!("PostgreSQL {}", row.get::<_, String>(0)),
        place: db.place.to_string(),
        schema: open::schema(db).await?.0,
        tasks: tasks::count_by_status(db).await?,
        agents: agents::count_by_state(db).await?,
        sessions: sessions::count_by_state(db).await?,
        events: row.get::<_, i64>(1).cast_unsigned(),
        in_doubt: row.get::<_, i64>(2).cast_unsigned(),
        bytes: row.get::<_, i64>(3).cast_unsigned(),
        settings: settings(db).await?,
        damage: if whole { check(db).await? } else { Vec::new() },
    })
}

async fn settings(db: &Connection) -> Result<Vec<(String, String)>, Failure> {
    let names = ["fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names"];
    let mut found = Vec::new();
    for name in names {
        let row = db.query_opt("SELECT current_setting($1)", &values![name.to_owned()]).await?;
        let value: String = row.map_or_else(String::new, |row| row.get(0));
        if !value.is_empty() {
            found.push((name.to_owned(), value));
        }
    }
    Ok(found)
}

async fn check(db: &Connection) -> Result<Vec<String>, Failure> {
    let mut found = tasks::unreadable(db, DAMAGE_MAX as i64).await?;
    found.extend(agents::unreadable(db).await?);
    found.extend(attempts::unreadable(db).await?);
    found.extend(sessions::unreadable(db).await?);
    found.truncate(DAMAGE_MAX);
    Ok(found)
}
