//! What the file holds and how it is set, for `doctor`.

use std::path::Path;

use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use rusqlite::{Connection, Result};

use super::lease_clock::LeaseNow;
use super::open::with_suffix;
use super::rows::count_by;
use super::system;
use super::{agents, attempts, sessions, tasks};
use crate::contract::{AgentQuery, Inventory, Rows, SessionQuery, TaskQuery, UnreadableRow};
use crate::record::Table;
use crate::record::state_from_code;

/// Most findings that a check of the whole reports.
const DAMAGE_MAX: usize = 20;

pub(super) fn take(db: &Connection, path: &Path, now: LeaseNow, whole: bool) -> Result<Inventory> {
    let count = |sql: &str| -> Result<u64> {
        Ok(db
            .query_row(sql, [], |row| row.get::<_, i64>(0))?
            .cast_unsigned())
    };
    let file_bytes =
        |suffix| std::fs::metadata(with_suffix(path, suffix)).map_or(0, |found| found.len());
    Ok(Inventory {
        backend: format!("SQLite {}", rusqlite::version()),
        place: path.display().to_string(),
        schema: db.pragma_query_value(None, "user_version", |row| row.get(0))?,
        tasks: count_by(db, Table::Task, "status", TaskStatus::from_code)?,
        agents: count_by(db, Table::Agent, "state", state_from_code)?,
        sessions: count_by(db, Table::Session, "state", SessionStateKind::from_code)?,
        events: count("SELECT COUNT(*) FROM journal")?,
        in_doubt: count("SELECT COUNT(*) FROM task WHERE steps_open > 0")?,
        bytes: ["", "-wal"].into_iter().map(file_bytes).sum(),
        settings: settings(db, path)?,
        replication: None,
        damage: if whole { check(db, now)? } else { Vec::new() },
    })
}

fn settings(db: &Connection, path: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for name in ["journal_mode", "synchronous"] {
        let value: rusqlite::types::Value = db.pragma_query_value(None, name, |row| row.get(0))?;
        let text = match value {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(2) => "full".to_owned(),
            rusqlite::types::Value::Integer(1) => "normal".to_owned(),
            other => format!("{other:?}"),
        };
        found.push((name.to_owned(), text));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let kind = system::kind_of(folder).unwrap_or_else(|| "unknown".to_owned());
    found.push(("file_system".to_owned(), kind));
    Ok(found)
}

fn check(db: &Connection, now: LeaseNow) -> Result<Vec<String>> {
    let mut select = db.prepare(&format!("PRAGMA integrity_check({DAMAGE_MAX})"))?;
    let rows = select.query_map([], |row| row.get::<_, String>(0))?;
    let found: Vec<String> = rows.collect::<Result<_>>()?;
    let pages = found.into_iter().filter(|line| line != "ok");
    let rows = unreadable(db, &Rows::All, now)?;
    let rows = rows.iter().map(ToString::to_string);
    Ok(pages.chain(rows).take(DAMAGE_MAX).collect())
}

/// The rows among these that cannot be read.
pub(super) fn unreadable(db: &Connection, of: &Rows, now: LeaseNow) -> Result<Vec<UnreadableRow>> {
    match of {
        Rows::All => {
            let mut found = tasks::unreadable(db, &TaskQuery::default(), now)?;
            found.extend(agents::unreadable(db, &AgentQuery::default(), now)?);
            found.extend(attempts::unreadable(db)?);
            found.extend(sessions::unreadable(db, &SessionQuery::default(), now)?);
            Ok(found)
        }
        Rows::Tasks(query) => tasks::unreadable(db, query, now),
        Rows::Agents(query) => agents::unreadable(db, query, now),
        Rows::Sessions(query) => sessions::unreadable(db, query, now),
    }
}
