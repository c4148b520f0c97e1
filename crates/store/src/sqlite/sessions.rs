//! Sessions as rows.

use relight_core::ids::{SessionId, SessionKey};
use relight_core::lease::{Held, Holder};
use relight_core::session::{
    Generation, Reason, Session, SessionState, SessionStateKind, Suspender,
};
use relight_core::time::{Span, Time};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use super::error::bad_value;
use super::lease_clock::LeaseNow;
use super::tasks::{from_json, left, parse, readable, to_json, unsigned};
use crate::apply::SessionEntry;
use crate::contract::SessionQuery;
use crate::session_columns::StateColumns;

const SELECT: &str = "
    SELECT key, session_id, state, generation, finished, deaths, seq, since, also_at, suspended_by,
           owner, lease_ttl, lease_until, lease_boot, reason, reason_given, context, seen_at,
           created_at, updated_at
    FROM session";

pub(super) fn by_key(db: &Connection, key: &SessionKey, now: LeaseNow) -> Result<Option<Session>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE key = ?1"))?;
    select.query_row([key.as_str()], |row| read(row, now)).optional()
}

pub(super) fn list(db: &Connection, query: &SessionQuery, now: LeaseNow) -> Result<Vec<Session>> {
    let (sql, values) = list_sql(query);
    let mut select = db.prepare_cached(&sql)?;
    readable(select.query_map(params_from_iter(values), |row| read(row, now))?)
}

pub(super) fn list_sql(query: &SessionQuery) -> (String, Vec<SqlValue>) {
    let mut sql = format!("{SELECT} WHERE 1");
    let mut values: Vec<SqlValue> = Vec::new();
    if !query.states.is_empty() {
        let codes: Vec<String> = query.states.iter().map(|s| s.code().to_string()).collect();
        sql += &format!(" AND state IN ({})", codes.join(","));
    }
    if !query.states.is_empty() && !query.states.contains(&SessionStateKind::Idle) {
        // The very words of the index, for SQLite proves nothing by arithmetic.
        sql += " AND state > 1";
    }
    if query.seen {
        sql += " AND seen_at IS NOT NULL";
    }
    if let Some(after) = &query.after {
        sql += " AND key > ?";
        values.push(after.as_str().to_owned().into());
    }
    sql += " ORDER BY key";
    if let Some(limit) = query.limit {
        sql += &format!(" LIMIT {}", limit.min(i64::MAX as usize));
    }
    (sql, values)
}

/// The sessions that cannot be read, with the reason.
pub(super) fn unreadable(db: &Connection, now: LeaseNow) -> Result<Vec<String>> {
    let mut select = db.prepare(&format!("{SELECT} ORDER BY key"))?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Err(error) = read(row, now) {
            let key = row.get::<_, String>(0)?;
            found.push(format!("session {key} cannot be read: {error}"));
        }
    }
    Ok(found)
}

pub(super) fn count_by_state(db: &Connection) -> Result<Vec<(SessionStateKind, u64)>> {
    let mut select = db.prepare("SELECT state, COUNT(*) FROM session GROUP BY state")?;
    let rows = select.query_map([], |row| Ok((state_kind(row.get(0)?)?, unsigned(row, 1)?)))?;
    rows.collect()
}

/// What the writer compares.
pub(super) fn for_write(
    db: &Connection,
    key: &SessionKey,
    now: LeaseNow,
) -> Result<Option<SessionEntry>> {
    let sql = "SELECT seq, lease_until, lease_boot FROM session WHERE key = ?1";
    let read = |row: &Row<'_>| {
        let (until_ms, boot): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let lease_until = until_ms.filter(|_| boot == Some(now.boot));
        Ok(SessionEntry { seq: unsigned(row, 0)?, lease_until, is_there: true, next: None })
    };
    db.prepare_cached(sql)?.query_row([key.as_str()], read).optional()
}

/// Removes those that nobody wrote since they were read, and that have no turn in flight.
pub(super) fn forget(db: &Connection, sessions: &[(SessionKey, u64)]) -> Result<u64> {
    let mut delete =
        db.prepare_cached("DELETE FROM session WHERE key = ?1 AND seq = ?2 AND state <> ?3")?;
    let active = SessionStateKind::Active.code();
    let mut count = 0;
    for (key, seq) in sessions {
        count += delete.execute(params![key.as_str(), seq.cast_signed(), active])? as u64;
    }
    Ok(count)
}

/// A new one, or one that changed.
pub(super) fn write(db: &Connection, entry: &SessionEntry, now: LeaseNow) -> Result<()> {
    let Some(session) = &entry.next else { return Ok(()) };
    let mut write = db.prepare_cached(match entry.is_there {
        false => {
            "INSERT INTO session (key, session_id, state, generation, finished, deaths, seq, since,
                                  also_at, suspended_by, owner, lease_ttl, lease_until, lease_boot,
                                  reason, reason_given, context, seen_at, updated_at, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
                     ?19, ?20)"
        }
        true => {
            "UPDATE session SET session_id = ?2, state = ?3, generation = ?4, finished = ?5,
                    deaths = ?6, seq = ?7, since = ?8, also_at = ?9, suspended_by = ?10, owner = ?11,
                    lease_ttl = ?12, lease_until = ?13, lease_boot = ?14, reason = ?15,
                    reason_given = ?16, context = ?17, seen_at = ?18, updated_at = ?19,
                    created_at = ?20
             WHERE key = ?1"
        }
    })?;
    let state = StateColumns::of(&session.state);
    write.execute(params![
        session.key.as_str(),
        session.session_id.as_str(),
        session.state.kind().code(),
        session.generation.0.cast_signed(),
        session.finished.0.cast_signed(),
        session.deaths_in_a_row,
        session.seq.cast_signed(),
        state.since,
        state.also_at,
        state.suspended_by,
        state.owner,
        state.ttl,
        entry.lease_until,
        entry.lease_until.map(|_| now.boot),
        session.reason.as_ref().map(|reason| &reason.text),
        session.reason.as_ref().map(|reason| reason.given),
        context(session),
        session.seen_at.map(Time::as_ms),
        session.updated_at.as_ms(),
        session.created_at.as_ms(),
    ])?;
    Ok(())
}

fn context(session: &Session) -> Option<String> {
    (!session.context.is_empty()).then(|| to_json(&session.context))
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<Session> {
    let reason = match row.get::<_, Option<String>>(14)? {
        Some(text) => Some(Reason { text, given: row.get::<_, Option<bool>>(15)? == Some(true) }),
        None => None,
    };
    let context = match row.get_ref(16)?.as_str_or_null()? {
        Some(text) => from_json(text, "session.context")?,
        None => Default::default(),
    };
    Ok(Session {
        key: parse::<SessionKey>(row.get_ref(0)?.as_str()?, "session.key")?,
        session_id: parse::<SessionId>(row.get_ref(1)?.as_str()?, "session.session_id")?,
        generation: Generation(unsigned(row, 3)?),
        finished: Generation(unsigned(row, 4)?),
        state: state(row, now)?,
        reason,
        deaths_in_a_row: row.get(5)?,
        context,
        seen_at: row.get::<_, Option<i64>>(17)?.map(Time::from_ms),
        seq: unsigned(row, 6)?,
        created_at: Time::from_ms(row.get(18)?),
        updated_at: Time::from_ms(row.get(19)?),
    })
}

fn state(row: &Row<'_>, now: LeaseNow) -> Result<SessionState> {
    let at = |column| -> Result<Option<Time>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Time::from_ms))
    };
    let since = || at(7)?.ok_or_else(|| bad_value("session.since", "nothing"));
    Ok(match state_kind(row.get(2)?)? {
        SessionStateKind::Idle => SessionState::Idle,
        SessionStateKind::Active => {
            let since = since()?;
            SessionState::Active { since, owner: owner(row, since, now)? }
        }
        SessionStateKind::ResumePending => {
            SessionState::ResumePending { discovered_at: since()?, fresh_until: at(8)? }
        }
        SessionStateKind::Suspended => {
            let code = row.get::<_, Option<u8>>(9)?.unwrap_or(0);
            let by = Suspender::from_code(code);
            let by = by.ok_or_else(|| bad_value("session.suspended_by", code))?;
            SessionState::Suspended { since: since()?, by }
        }
        SessionStateKind::Expired => {
            let discovered_at = at(8)?.ok_or_else(|| bad_value("session.also_at", "nothing"))?;
            SessionState::Expired { since: since()?, discovered_at }
        }
    })
}

fn owner(row: &Row<'_>, since: Time, now: LeaseNow) -> Result<Option<Held>> {
    let Some(text) = row.get_ref(10)?.as_str_or_null()? else { return Ok(None) };
    let holder: Holder = from_json(text, "session.owner")?;
    let ttl = row.get::<_, Option<i64>>(11)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let left = match ttl {
        Some(_) => Some(left(
            row.get::<_, Option<i64>>(12)?.unwrap_or(0),
            row.get::<_, Option<i64>>(13)?.unwrap_or(0),
            now,
        )),
        None => None,
    };
    Ok(Some(Held { holder, ttl, since, left }))
}

fn state_kind(code: u8) -> Result<SessionStateKind> {
    SessionStateKind::from_code(code).ok_or_else(|| bad_value("session.state", code))
}
