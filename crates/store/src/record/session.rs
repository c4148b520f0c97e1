//! A session as a row.

use relight_core::lease::Holder;
use relight_core::session::{
    Generation, Reason, Session, SessionState, SessionStateKind, Suspender,
};

use super::{BadValue, RowReader, bad_value, held};
use super::{Cell, Row};
use crate::bodies::to_json;

pub(crate) fn read_session(row: &mut RowReader<'_>) -> Result<Session, BadValue> {
    row.number("session.n")?;
    let key = row.parse("session.key")?;
    let session_id = row.parse("session.session_id")?;
    let kind = row.code("session.state", SessionStateKind::from_code)?;
    let generation = Generation(row.unsigned("session.generation")?);
    let finished = Generation(row.unsigned("session.finished")?);
    let deaths_in_a_row = row.small("session.deaths")?;
    let seq = row.unsigned("session.seq")?;
    let since = row.some_time("session.since")?;
    let also_at = row.some_time("session.also_at")?;
    let by = row.some_number("session.suspended_by")?.unwrap_or(0);
    let owner: Option<Holder> = row.some_json("session.owner")?;
    let (ttl, left) = (
        row.some_span("session.lease_ttl")?,
        row.some_span("session.lease_left")?,
    );
    let text = row.some_text("session.reason")?;
    let given = row.some_number("session.reason_given")? == Some(1);
    let context = row.some_json("session.context")?.unwrap_or_default();
    let seen_at = row.some_time("session.seen_at")?;
    let (created_at, updated_at) = (
        row.time("session.created_at")?,
        row.time("session.updated_at")?,
    );
    // Of an idle session it is whoever saw it last.
    let seen_by = owner.clone().filter(|_| kind == SessionStateKind::Idle);
    let need_since = || since.ok_or_else(|| bad_value("session.since", "nothing"));
    let state = match kind {
        SessionStateKind::Idle => SessionState::Idle,
        SessionStateKind::Active => {
            let since = need_since()?;
            SessionState::Active {
                since,
                owner: owner.map(|owner| held(owner, since, ttl, left)),
            }
        }
        SessionStateKind::ResumePending => SessionState::ResumePending {
            discovered_at: need_since()?,
            fresh_until: also_at,
        },
        SessionStateKind::Suspended => {
            let found = u8::try_from(by).ok().and_then(Suspender::from_code);
            let by = found.ok_or_else(|| bad_value("session.suspended_by", by))?;
            SessionState::Suspended {
                since: need_since()?,
                by,
            }
        }
        SessionStateKind::Expired => {
            let at = also_at.ok_or_else(|| bad_value("session.also_at", "nothing"))?;
            SessionState::Expired {
                since: need_since()?,
                discovered_at: at,
            }
        }
    };
    let reason = text.map(|text| Reason {
        text: text.into_owned(),
        given,
    });
    Ok(Session {
        key,
        session_id,
        generation,
        finished,
        state,
        reason,
        deaths_in_a_row,
        context,
        seen_at,
        seen_by,
        seq,
        idle_since: since.filter(|_| kind == SessionStateKind::Idle),
        created_at,
        updated_at,
    })
}

/// Without a row number, which the database assigns; `lease_left` holds the end of the lease.
pub(crate) fn session_row(session: &Session, lease_until: Option<i64>) -> Row {
    let (since, also_at, by) = match &session.state {
        SessionState::Idle => (session.idle_since, None, None),
        SessionState::Active { since, .. } => (Some(*since), None, None),
        SessionState::ResumePending {
            discovered_at,
            fresh_until,
        } => (Some(*discovered_at), *fresh_until, None),
        SessionState::Suspended { since, by } => (Some(*since), None, Some(by.code())),
        SessionState::Expired {
            since,
            discovered_at,
        } => (Some(*since), Some(*discovered_at), None),
    };
    let (owner, reason) = (session.owner(), session.reason.as_ref());
    vec![
        Cell::None,
        session.key.as_str().into(),
        session.session_id.as_str().into(),
        session.state.kind().code().into(),
        session.generation.0.into(),
        session.finished.0.into(),
        session.deaths_in_a_row.into(),
        session.seq.into(),
        since.into(),
        also_at.into(),
        by.into(),
        owner
            .map(|held| &held.holder)
            .or(session.seen_by.as_ref())
            .map(to_json)
            .into(),
        owner.and_then(|held| held.ttl).into(),
        lease_until.into(),
        reason.map(|reason| reason.text.as_str()).into(),
        reason.map(|reason| reason.given).into(),
        (!session.context.is_empty())
            .then(|| to_json(&session.context))
            .into(),
        session.seen_at.into(),
        session.created_at.into(),
        session.updated_at.into(),
    ]
}
