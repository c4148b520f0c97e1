//! Attempts as rows: what they are found by in columns, the rest as JSON.

use relight_core::agent::{Attempt, AttemptTag};
use relight_core::time::Time;
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, Value, get, values};
use super::error::{BadValue, Failure};
use super::tasks::{from_json, number, parse, readable};
use super::text;
use crate::bodies::{AttemptBody, cause_code, to_json};
use crate::contract::AttemptQuery;

const SELECT: &str = "
    SELECT g.name, a.number, a.tag, a.begun_at, a.body
    FROM attempt a JOIN agent g ON g.n = a.agent";

pub(super) async fn by_tag(db: &Connection, tag: &AttemptTag) -> Result<Option<Attempt>, Failure> {
    let sql = format!("{SELECT} WHERE a.tag = $1");
    let row = db.query_opt(&sql, &values![kept_tag(tag)]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn list(db: &Connection, query: &AttemptQuery) -> Result<Vec<Attempt>, Failure> {
    let mut sql = format!("{SELECT} WHERE true");
    let mut all = values![i64::try_from(query.limit).unwrap_or(i64::MAX)];
    if let Some(agent) = &query.agent {
        sql += " AND a.agent = (SELECT n FROM agent WHERE name = $2)";
        all.push(Box::new(agent.as_str().to_owned()));
    }
    if query.ended {
        sql += " AND a.cause IS NOT NULL";
    }
    // Both orders are the same for one agent, and each has its index.
    let order = if query.agent.is_some() { "a.number" } else { "a.n" };
    if let Some(before) = &query.before {
        all.push(Box::new(kept_tag(before)));
        let tag = all.len();
        sql += &format!(" AND {order} < (SELECT {order} FROM attempt a WHERE a.tag = ${tag})");
    }
    sql += &format!(" ORDER BY {order} DESC LIMIT $1");
    readable(db.query(&sql, &all).await?.iter().map(read))
}

/// The attempts that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<String>, Failure> {
    let rows = db.query_within(LONG_WAIT, &format!("{SELECT} ORDER BY a.n"), &[]).await?;
    let bad = |row: &Row| {
        let error = read(row).err()?;
        Some(format!("attempt {} cannot be read: {error}", row.get::<_, String>(2)))
    };
    Ok(rows.iter().filter_map(bad).collect())
}

/// The attempts of these numbers, and those with these tags, whosever they are.
pub(super) const CONCERNED: &str = "
    SELECT g.name, a.number, a.tag, a.begun_at, a.body
    FROM unnest($1::text[], $2::bigint[]) AS w (name, number)
    JOIN agent g ON g.name = w.name JOIN attempt a ON a.agent = g.n AND a.number = w.number
    UNION
    SELECT g.name, a.number, a.tag, a.begun_at, a.body
    FROM attempt a JOIN agent g ON g.n = a.agent WHERE a.tag = ANY($3)";

pub(super) fn kept_tag(tag: &AttemptTag) -> String {
    text::kept(tag.as_str()).into_owned()
}

pub(super) fn read(row: &Row) -> Result<Attempt, BadValue> {
    let body: AttemptBody = from_json(get(row, 4)?, "attempt.body")?;
    Ok(Attempt {
        agent: parse(get(row, 0)?, "agent.name")?,
        number: number(row, 1)?,
        tag: AttemptTag::from_text(text::read(get(row, 2)?)),
        begun_at: Time::from_ms(get(row, 3)?),
        process: body.process,
        shim: body.shim,
        log: body.log,
        ended: body.ended,
        post_mortem: body.post_mortem,
    })
}

/// Attempts as columns.
#[derive(Debug, Default)]
pub(super) struct AttemptColumns {
    agent: Vec<i64>,
    number: Vec<i64>,
    tag: Vec<String>,
    begun_at: Vec<i64>,
    cause: Vec<Option<i16>>,
    body: Vec<String>,
}

impl AttemptColumns {
    pub(super) fn push(&mut self, agent: i64, attempt: &Attempt) {
        self.agent.push(agent);
        self.number.push(attempt.number.into());
        self.tag.push(kept_tag(&attempt.tag));
        self.begun_at.push(attempt.begun_at.as_ms());
        self.cause.push(cause_code(attempt).map(|code| code as i16));
        self.body.push(to_json(&AttemptBody::of(attempt)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.agent.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![self.agent, self.number, self.tag, self.begun_at, self.cause, self.body]
    }
}

/// New ones in the order they were begun; one of the same number keeps its place.
pub(super) const WRITE: &str = "
    INSERT INTO attempt (agent, number, tag, begun_at, cause, body)
    SELECT agent, number, tag, begun_at, cause, body
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::smallint[], $6::text[])
        WITH ORDINALITY AS u (agent, number, tag, begun_at, cause, body, place)
    ORDER BY place
    ON CONFLICT (agent, number) DO UPDATE
    SET tag = excluded.tag, begun_at = excluded.begun_at, cause = excluded.cause,
        body = excluded.body";
