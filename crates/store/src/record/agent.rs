//! Agents and attempts as rows: columns for what statements compare, JSON for the rest.

use relight_core::agent::{AgentStateKind, Attempt, AttemptTag, Cause};
use relight_core::ids::AgentName;
use relight_core::lease::{Fence, Lease};

use super::{BadValue, RowReader, bad_value, held};
use super::{Cell, Row};
use crate::apply::AgentEntry;
use crate::bodies::{AgentBody, AttemptBody, to_json};

pub(crate) fn read_agent(row: &mut RowReader<'_>) -> Result<AgentEntry, BadValue> {
    let n = row.number("agent.n")?;
    let name = row.parse("agent.name")?;
    row.number("agent.state")?;
    let fence = Fence(row.unsigned("agent.fence")?);
    let is_held = row.flag("agent.held")?;
    let (ttl, left) = (
        row.some_span("agent.lease_ttl")?,
        row.some_span("agent.lease_left")?,
    );
    let seq = row.unsigned("agent.seq")?;
    let updated_at = row.time("agent.updated_at")?;
    let mut body: AgentBody = row.json("agent.body")?;
    let held = match (is_held, body.holder.take(), body.held_since) {
        (true, Some(holder), Some(since)) => Some(held(holder, since, ttl, left)),
        (true, ..) => return Err(bad_value("agent.body", "a lease that nobody holds")),
        (false, ..) => None,
    };
    let agent = body.into_agent(name, Lease { fence, held }, seq, updated_at);
    Ok(AgentEntry {
        n,
        agent,
        lease_until: None,
        is_new: false,
        is_changed: false,
    })
}

/// `lease_left` holds the end of the lease.
pub(crate) fn agent_row(entry: &AgentEntry) -> Row {
    let agent = &entry.agent;
    let held = agent.lease.held.as_ref();
    vec![
        entry.n.into(),
        agent.name.as_str().into(),
        state_code(agent.state.kind()).into(),
        agent.lease.fence.0.into(),
        held.is_some().into(),
        held.and_then(|held| held.ttl).into(),
        entry.lease_until.into(),
        agent.seq.into(),
        agent.updated_at.into(),
        to_json(&AgentBody::of(agent)).into(),
    ]
}

/// Its place in `AgentStateKind::ALL`, from 1.
pub(crate) fn state_code(state: AgentStateKind) -> u8 {
    let place = AgentStateKind::ALL.iter().position(|other| *other == state);
    place.expect("the list has all states") as u8 + 1
}

pub(crate) fn state_from_code(code: u8) -> Option<AgentStateKind> {
    AgentStateKind::ALL
        .get(usize::from(code).checked_sub(1)?)
        .copied()
}

/// The row begins with the agent's name.
pub(crate) fn read_attempt(row: &mut RowReader<'_>) -> Result<Attempt, BadValue> {
    let agent: AgentName = row.parse("agent.name")?;
    row.number("attempt.n")?;
    row.number("attempt.agent")?;
    let number = row.small("attempt.number")?;
    let tag = AttemptTag::from_text(row.text("attempt.tag")?);
    let begun_at = row.time("attempt.begun_at")?;
    row.some_number("attempt.cause")?;
    let AttemptBody {
        process,
        shim,
        log,
        ended,
        post_mortem,
    } = row.json("attempt.body")?;
    Ok(Attempt {
        agent,
        number,
        tag,
        begun_at,
        process,
        shim,
        log,
        ended,
        post_mortem,
    })
}

/// Without a row number, which the database assigns; `agent` is the agent's row number.
pub(crate) fn attempt_row(agent: i64, attempt: &Attempt) -> Row {
    let cause = attempt.ended.as_ref().map(|ended| ended.cause);
    let code = cause.and_then(|cause| Cause::ALL.iter().position(|other| *other == cause));
    vec![
        Cell::None,
        agent.into(),
        attempt.number.into(),
        attempt.tag.as_str().into(),
        attempt.begun_at.into(),
        code.map(|place| place as i64 + 1).into(),
        to_json(&AttemptBody::of(attempt)).into(),
    ]
}
