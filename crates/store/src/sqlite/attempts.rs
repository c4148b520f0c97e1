//! Attempts as rows: what they are found by in columns, the rest as JSON.

use relight_core::agent::{Attempt, AttemptTag};
use relight_core::ids::AgentName;
use relight_core::time::Time;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use super::tasks::{from_json, parse, readable, to_json};
use crate::bodies::{AttemptBody, cause_code};
use crate::contract::AttemptQuery;

const SELECT: &str = "
    SELECT g.name, a.number, a.tag, a.begun_at, a.body
    FROM attempt a JOIN agent g ON g.n = a.agent";

pub(super) fn by_tag(db: &Connection, tag: &AttemptTag) -> Result<Option<Attempt>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE a.tag = ?1"))?;
    select.query_row([tag.as_str()], read).optional()
}

pub(super) fn by_number(db: &Connection, agent: i64, number: u32) -> Result<Option<Attempt>> {
    let mut select =
        db.prepare_cached(&format!("{SELECT} WHERE a.agent = ?1 AND a.number = ?2"))?;
    select.query_row(params![agent, number], read).optional()
}

pub(super) fn list(db: &Connection, query: &AttemptQuery) -> Result<Vec<Attempt>> {
    let (sql, values) = list_sql(query);
    let mut select = db.prepare_cached(&sql)?;
    readable(select.query_map(params_from_iter(values), read)?)
}

pub(super) fn list_sql(query: &AttemptQuery) -> (String, Vec<SqlValue>) {
    let mut sql = format!("{SELECT} WHERE 1");
    let mut values: Vec<SqlValue> = Vec::new();
    if let Some(agent) = &query.agent {
        sql += " AND a.agent = (SELECT n FROM agent WHERE name = ?)";
        values.push(agent.as_str().to_owned().into());
    }
    if query.ended {
        sql += " AND a.cause IS NOT NULL";
    }
    // Both orders are the same for one agent, and each has its index.
    let order = if query.agent.is_some() { "a.number" } else { "a.n" };
    if let Some(before) = &query.before {
        sql += &format!(" AND {order} < (SELECT {order} FROM attempt a WHERE a.tag = ?)");
        values.push(before.as_str().to_owned().into());
    }
    sql += &format!(" ORDER BY {order} DESC LIMIT {}", query.limit.min(i64::MAX as usize));
    (sql, values)
}

/// The attempts that cannot be read, with the reason.
pub(super) fn unreadable(db: &Connection) -> Result<Vec<String>> {
    let mut select = db.prepare(&format!("{SELECT} ORDER BY a.n"))?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Err(error) = read(row) {
            let tag = row.get::<_, String>(2)?;
            found.push(format!("attempt {tag} cannot be read: {error}"));
        }
    }
    Ok(found)
}

/// A new one, or what became of one that was begun.
pub(super) fn write(db: &Connection, agent: i64, attempt: &Attempt) -> Result<()> {
    let mut write = db.prepare_cached(
        "INSERT INTO attempt (agent, number, tag, begun_at, cause, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (agent, number) DO UPDATE
         SET tag = excluded.tag, begun_at = excluded.begun_at, cause = excluded.cause,
             body = excluded.body",
    )?;
    write.execute(params![
        agent,
        attempt.number,
        attempt.tag.as_str(),
        attempt.begun_at.as_ms(),
        cause_code(attempt),
        to_json(&AttemptBody::of(attempt)),
    ])?;
    Ok(())
}

/// Removes ended ones begun before this, but the newest of each agent.
pub(super) fn forget(db: &Connection, before: Time) -> Result<u64> {
    let mut delete = db.prepare_cached(
        "DELETE FROM attempt WHERE cause IS NOT NULL AND begun_at < ?1 AND number <
             (SELECT MAX(number) FROM attempt newest WHERE newest.agent = attempt.agent)",
    )?;
    Ok(delete.execute([before.as_ms()])? as u64)
}

fn read(row: &Row<'_>) -> Result<Attempt> {
    let body: AttemptBody = from_json(row.get_ref(4)?.as_str()?, "attempt.body")?;
    Ok(Attempt {
        agent: parse::<AgentName>(row.get_ref(0)?.as_str()?, "agent.name")?,
        number: row.get(1)?,
        tag: AttemptTag::from_text(row.get_ref(2)?.as_str()?),
        begun_at: Time::from_ms(row.get(3)?),
        process: body.process,
        shim: body.shim,
        log: body.log,
        ended: body.ended,
        post_mortem: body.post_mortem,
    })
}
