//! What the schema holds and how the server is set, for `doctor`.

use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, values};
use super::error::PostgresFailure;
use super::rows::count_by;
use super::{agents, attempts, open, sessions, tasks};
use crate::contract::{
    AgentQuery, Inventory, Replication, Rows, SessionQuery, Standby, UnreadableRow,
};
use crate::record::Table;
use crate::record::state_from_code;

/// Maximum number of findings of a full check.
const DAMAGE_MAX: usize = 20;

pub(super) async fn take(
    db: &Connection,
    schema: &str,
    whole: bool,
) -> Result<Inventory, PostgresFailure> {
    let sql = "SELECT current_setting('server_version'),
                      (SELECT COUNT(*) FROM journal),
                      (SELECT COUNT(*) FROM task WHERE steps_open > 0),
                      (SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
                       JOIN pg_namespace s ON s.oid = c.relnamespace
                       WHERE s.nspname = $1 AND c.relkind = 'r')";
    let rows = db
        .query_within(LONG_WAIT, sql, &values![schema.to_owned()])
        .await?;
    let row = rows.first().expect("counts have a row");
    Ok(Inventory {
        backend: format!("PostgreSQL {}", row.get::<_, String>(0)),
        place: db.place.to_string(),
        schema: open::schema(db).await?.0,
        tasks: count_by(db, Table::Task, "status", TaskStatus::from_code).await?,
        agents: count_by(db, Table::Agent, "state", state_from_code).await?,
        sessions: count_by(db, Table::Session, "state", SessionStateKind::from_code).await?,
        events: row.get::<_, i64>(1).cast_unsigned(),
        in_doubt: row.get::<_, i64>(2).cast_unsigned(),
        bytes: row.get::<_, i64>(3).cast_unsigned(),
        settings: settings(db).await?,
        replication: Some(replication(db).await?),
        damage: if whole { check(db).await? } else { Vec::new() },
    })
}

async fn settings(db: &Connection) -> Result<Vec<(String, String)>, PostgresFailure> {
    let names = [
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "synchronous_standby_names",
    ];
    let mut found = Vec::new();
    for name in names {
        let row = db
            .query_opt("SELECT current_setting($1)", &values![name.to_owned()])
            .await?;
        let value: String = row.map_or_else(String::new, |row| row.get(0));
        if !value.is_empty() {
            found.push((name.to_owned(), value));
        }
    }
    Ok(found)
}

/// As far as our role may read it: without `pg_monitor`, a standby is listed without details.
async fn replication(db: &Connection) -> Result<Replication, PostgresFailure> {
    let sql = "SELECT current_setting('synchronous_commit'),
                      current_setting('synchronous_standby_names')";
    let row = db.query_opt(sql, &[]).await?.expect("settings have a row");
    let (commits, names): (String, String) = (row.get(0), row.get(1));
    let waits = commits != "local" && commits != "off" && !names.is_empty();
    let sql = "SELECT application_name, sync_state IN ('sync', 'quorum'),
                      pg_wal_lsn_diff(pg_current_wal_flush_lsn(), flush_lsn)::bigint,
                      (extract(epoch FROM flush_lag) * 1000)::bigint
               FROM pg_stat_replication WHERE state IS NULL OR state = 'streaming' ORDER BY 1";
    let counted = |row: &Row, at| {
        let count: Option<i64> = row.get(at);
        count.map(|count| count.max(0).unsigned_abs())
    };
    let standby = |row: &Row| Standby {
        name: row.get(0),
        is_synchronous: waits && row.get::<_, Option<bool>>(1).unwrap_or_default(),
        behind_bytes: counted(row, 2),
        behind_ms: counted(row, 3),
    };
    let standbys = db.query(sql, &[]).await?.iter().map(standby).collect();
    Ok(Replication {
        waits_for: waits.then_some(names),
        standbys,
    })
}

async fn check(db: &Connection) -> Result<Vec<String>, PostgresFailure> {
    let found = unreadable(db, &Rows::All).await?;
    let texts = found.iter().map(ToString::to_string);
    Ok(texts.take(DAMAGE_MAX).collect())
}

/// The rows among these that cannot be read.
pub(super) async fn unreadable(
    db: &Connection,
    of: &Rows,
) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    match of {
        Rows::All => {
            let mut found = tasks::all_unreadable(db).await?;
            found.extend(agents::unreadable(db, &AgentQuery::default()).await?);
            found.extend(attempts::unreadable(db).await?);
            found.extend(sessions::unreadable(db, &SessionQuery::default()).await?);
            Ok(found)
        }
        Rows::Tasks(query) => tasks::unreadable(db, query).await,
        Rows::Agents(query) => agents::unreadable(db, query).await,
        Rows::Sessions(query) => sessions::unreadable(db, query).await,
    }
}
