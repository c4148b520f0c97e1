//! Sessions as rows.

use std::sync::LazyLock;

use relight_core::ids::{SessionId, SessionKey};
use relight_core::lease::{Held, Holder};
use relight_core::session::{
    Generation, Reason, Session, SessionState, SessionStateKind, Suspender,
};
use relight_core::time::{Span, Time};
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, Value, get, values};
use super::error::{BadValue, Failure, bad_value};
use super::lease_clock::NOW_MS;
use super::tasks::{from_json, number, parse, readable, unsigned};
use super::text;
use crate::apply::left;
use crate::bodies::to_json;
use crate::contract::SessionQuery;
use crate::session_columns::StateColumns;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT key, session_id, state, generation, finished, deaths, seq, since, also_at,
                suspended_by, owner, lease_ttl, lease_until, {NOW_MS}, reason, reason_given, context,
                seen_at, created_at, updated_at
         FROM session"
    )
});

pub(super) async fn by_key(
    db: &Connection,
    key: &SessionKey,
    ahead_ms: i64,
) -> Result<Option<Session>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE key = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, key.as_str().to_owned()]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn list(
    db: &Connection,
    query: &SessionQuery,
    ahead_ms: i64,
) -> Result<Vec<Session>, Failure> {
    let mut sql = format!("{} WHERE true", *SELECT);
    let mut all = values![ahead_ms];
    let mut also = |condition: &str, value: Option<Value>| {
        all.extend(value);
        sql += &condition.replace('?', &format!("${}", all.len()));
    };
    if !query.states.is_empty() {
        let codes: Vec<i16> = query.states.iter().map(|state| state.code().into()).collect();
        also(" AND state = ANY(?)", Some(Box::new(codes)));
        if !query.states.contains(&SessionStateKind::Idle) {
            // The very words of the index.
            also(" AND state > 1", None);
        }
    }
    if query.seen {
        also(" AND seen_at IS NOT NULL", None);
    }
    if let Some(after) = &query.after {
        also(" AND key > ?", Some(Box::new(after.as_str().to_owned())));
    }
    also(" ORDER BY key", None);
    if let Some(limit) = query.limit {
        also(" LIMIT ?", Some(Box::new(i64::try_from(limit).unwrap_or(i64::MAX))));
    }
    readable(db.query(&sql, &all).await?.iter().map(read))
}

/// The sessions that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<String>, Failure> {
    let sql = format!("{} ORDER BY key", *SELECT);
    let rows = db.query_within(LONG_WAIT, &sql, &values![0_i64]).await?;
    let bad = |row: &Row| {
        let error = read(row).err()?;
        Some(format!("session {} cannot be read: {error}", row.get::<_, String>(0)))
    };
    Ok(rows.iter().filter_map(bad).collect())
}

pub(super) async fn count_by_state(
    db: &Connection,
) -> Result<Vec<(SessionStateKind, u64)>, Failure> {
    let sql = "SELECT state, COUNT(*) FROM session GROUP BY state ORDER BY state";
    let rows = db.query_within(LONG_WAIT, sql, &[]).await?;
    readable(rows.iter().map(|row| Ok((state_kind(get(row, 0)?)?, unsigned(row, 1)?))))
}

/// What a writer compares, held until the transaction ends.
pub(super) const LOCK: &str = "
    SELECT s.* FROM unnest($1::text[]) AS w (wanted)
    CROSS JOIN LATERAL (SELECT key, seq, lease_until FROM session WHERE session.key = w.wanted
                        FOR UPDATE) AS s";

/// Sessions as columns.
#[derive(Default)]
pub(super) struct SessionColumns {
    key: Vec<String>,
    session_id: Vec<String>,
    state: Vec<i16>,
    generation: Vec<i64>,
    finished: Vec<i64>,
    deaths: Vec<i64>,
    seq: Vec<i64>,
    since: Vec<Option<i64>>,
    also_at: Vec<Option<i64>>,
    suspended_by: Vec<Option<i16>>,
    owner: Vec<Option<String>>,
    lease_ttl: Vec<Option<i64>>,
    lease_until: Vec<Option<i64>>,
    reason: Vec<Option<String>>,
    reason_given: Vec<Option<bool>>,
    context: Vec<Option<String>>,
    seen_at: Vec<Option<i64>>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
}

impl SessionColumns {
    pub(super) fn push(&mut self, session: &Session, lease_until: Option<i64>) {
        let state = StateColumns::of(&session.state);
        let reason = session.reason.as_ref();
        self.key.push(session.key.as_str().to_owned());
        self.session_id.push(session.session_id.as_str().to_owned());
        self.state.push(session.state.kind().code().into());
        self.generation.push(session.generation.0.cast_signed());
        self.finished.push(session.finished.0.cast_signed());
        self.deaths.push(session.deaths_in_a_row.into());
        self.seq.push(session.seq.cast_signed());
        self.since.push(state.since);
        self.also_at.push(state.also_at);
        self.suspended_by.push(state.suspended_by.map(i16::from));
        self.owner.push(state.owner);
        self.lease_ttl.push(state.ttl);
        self.lease_until.push(lease_until);
        self.reason.push(reason.map(|reason| text::kept(&reason.text).into_owned()));
        self.reason_given.push(reason.map(|reason| reason.given));
        let context = &session.context;
        self.context.push((!context.is_empty()).then(|| to_json(context)));
        self.seen_at.push(session.seen_at.map(Time::as_ms));
        self.created_at.push(session.created_at.as_ms());
        self.updated_at.push(session.updated_at.as_ms());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![
            self.key,
            self.session_id,
            self.state,
            self.generation,
            self.finished,
            self.deaths,
            self.seq,
            self.since,
            self.also_at,
            self.suspended_by,
            self.owner,
            self.lease_ttl,
            self.lease_until,
            self.reason,
            self.reason_given,
            self.context,
            self.seen_at,
            self.created_at,
            self.updated_at,
        ]
    }
}

const NAMES: &str = "
    key, session_id, state, generation, finished, deaths, seq, since, also_at, suspended_by, owner,
    lease_ttl, lease_until, reason, reason_given, context, seen_at, created_at, updated_at";

const UNNEST: &str = "
    unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[],
           $7::bigint[], $8::bigint[], $9::bigint[], $10::smallint[], $11::text[], $12::bigint[],
           $13::bigint[], $14::text[], $15::boolean[], $16::text[], $17::bigint[], $18::bigint[],
           $19::bigint[])";

pub(super) static INSERT: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO session ({NAMES}) SELECT * FROM {UNNEST}"));

pub(super) static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let set: Vec<String> = NAMES
        .split(',')
        .map(str::trim)
        .filter(|name| !["key", "created_at"].contains(name))
        .map(|name| format!("{name} = u.{name}"))
        .collect();
    let set = set.join(", ");
    format!("UPDATE session s SET {set} FROM {UNNEST} AS u ({NAMES}) WHERE s.key = u.key")
});

fn read(row: &Row) -> Result<Session, BadValue> {
    let reason = match get::<Option<String>>(row, 14)? {
        Some(kept) => Some(Reason {
            text: text::read(kept),
            given: get::<Option<bool>>(row, 15)? == Some(true),
        }),
        None => None,
    };
    let context = match get::<Option<&str>>(row, 16)? {
        Some(text) => from_json(text, "session.context")?,
        None => Default::default(),
    };
    Ok(Session {
        key: parse::<SessionKey>(get(row, 0)?, "session.key")?,
        session_id: parse::<SessionId>(get(row, 1)?, "session.session_id")?,
        generation: Generation(unsigned(row, 3)?),
        finished: Generation(unsigned(row, 4)?),
        state: state(row)?,
        reason,
        deaths_in_a_row: number(row, 5)?,
        context,
        seen_at: get::<Option<i64>>(row, 17)?.map(Time::from_ms),
        seq: unsigned(row, 6)?,
        created_at: Time::from_ms(get(row, 18)?),
        updated_at: Time::from_ms(get(row, 19)?),
    })
}

fn state(row: &Row) -> Result<SessionState, BadValue> {
    let at = |column| -> Result<Option<Time>, BadValue> {
        Ok(get::<Option<i64>>(row, column)?.map(Time::from_ms))
    };
    let since = || at(7)?.ok_or_else(|| bad_value("session.since", "nothing"));
    Ok(match state_kind(get(row, 2)?)? {
        SessionStateKind::Idle => SessionState::Idle,
        SessionStateKind::Active => {
            let since = since()?;
            SessionState::Active { since, owner: owner(row, since)? }
        }
        SessionStateKind::ResumePending => {
            SessionState::ResumePending { discovered_at: since()?, fresh_until: at(8)? }
        }
        SessionStateKind::Suspended => {
            let code = get::<Option<i16>>(row, 9)?.unwrap_or(0);
            let by = u8::try_from(code).ok().and_then(Suspender::from_code);
            let by = by.ok_or_else(|| bad_value("session.suspended_by", code))?;
            SessionState::Suspended { since: since()?, by }
        }
        SessionStateKind::Expired => {
            let discovered_at = at(8)?.ok_or_else(|| bad_value("session.also_at", "nothing"))?;
            SessionState::Expired { since: since()?, discovered_at }
        }
    })
}

fn owner(row: &Row, since: Time) -> Result<Option<Held>, BadValue> {
    let Some(text) = get::<Option<&str>>(row, 10)? else { return Ok(None) };
    let holder: Holder = from_json(text, "session.owner")?;
    let ttl = get::<Option<i64>>(row, 11)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let (until, now_ms) = (get(row, 12)?, get(row, 13)?);
    Ok(Some(Held { holder, ttl, since, left: ttl.map(|_| left(until, now_ms)) }))
}

fn state_kind(code: i16) -> Result<SessionStateKind, BadValue> {
    let found = u8::try_from(code).ok().and_then(SessionStateKind::from_code);
    found.ok_or_else(|| bad_value("session.state", code))
}
