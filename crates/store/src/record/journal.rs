//! Rows of the journal: what happened, and the records and outputs of steps.

use std::collections::HashMap;

use relight_core::event::{Event, EventKind};
use relight_core::lease::Fence;
use relight_core::step::{Call, Output, Step, StepKey, StepState, rule_code, rule_from_code};
use relight_core::time::Time;
use serde_json::Value;

use super::{BadValue, RowReader, bad_value, from_json};
use super::{Cell, Row};
use crate::apply::JournalEntry;
use crate::bodies::OutputDetail;

/// Without an id, which the database assigns.
pub(crate) fn entry_row(entry: &JournalEntry<'_>) -> Row {
    let mark = entry.step.as_ref().map(|step| step.mark);
    let output = entry.step.as_ref().and_then(|step| step.output);
    vec![
        Cell::None,
        entry.at.into(),
        entry.kind.code().into(),
        entry.task.map(|(n, _)| n).into(),
        entry.agent.map(|(n, _)| n).into(),
        entry.fence.map(|fence| fence.0).into(),
        mark.map(|mark| mark.key.name.as_str()).into(),
        mark.map(|mark| mark.key.occurrence).into(),
        mark.map(|mark| rule_code(mark.rule, mark.call.is_some()))
            .into(),
        mark.map(|mark| mark.tries).into(),
        mark.and_then(|mark| mark.fingerprint).into(),
        output.map(|output| output.exit_code).into(),
        entry.kept_detail().into(),
        output.map_or(Cell::None, |output| Cell::Bytes(output.body.clone())),
    ]
}

/// The state of a step after a record of this kind; `detail` is needed for `StepResolved`.
pub(crate) fn step_state(kind: EventKind, detail: Option<&str>) -> Result<StepState, BadValue> {
    match kind {
        EventKind::StepBegun => Ok(StepState::Begun),
        EventKind::StepDone => Ok(StepState::Done),
        EventKind::StepFailed => Ok(StepState::Failed),
        EventKind::StepSkipped => Ok(StepState::Skipped),
        EventKind::StepResolved => {
            let detail: Value = from_json(detail.unwrap_or_default(), "journal.detail")?;
            let happened = detail["happened"].as_bool().unwrap_or(false);
            Ok(if happened {
                StepState::Done
            } else {
                StepState::Failed
            })
        }
        other => Err(bad_value("journal.kind", other.as_str())),
    }
}

/// Columns: kind, name, occurrence, rule, tries, fence, at, exit_code, fingerprint, detail.
pub(crate) fn read_step(row: &mut RowReader<'_>) -> Result<Step, BadValue> {
    let kind = row.code("journal.kind", EventKind::from_code)?;
    let (name, occurrence) = (row.parse("journal.name")?, row.small("journal.occurrence")?);
    let (rule, is_call) = row.code("journal.rule", rule_from_code)?;
    let tries = row.small("journal.tries")?;
    let fence = Fence(
        row.some_number("journal.fence")?
            .unwrap_or(0)
            .cast_unsigned(),
    );
    let at = row.time("journal.at")?;
    let exit_code = row.some_small("journal.exit_code")?;
    let fingerprint = row
        .some_number("journal.fingerprint")?
        .map(i64::cast_unsigned);
    let detail = row.some_text("journal.detail")?;
    let state = step_state(kind, detail.as_deref())?;
    let call = match (is_call, state, &detail) {
        (true, StepState::Begun, Some(detail)) => Some(from_json(detail, "journal.detail")?),
        (is_call, ..) => is_call.then(Call::default),
    };
    let key = StepKey { name, occurrence };
    Ok(Step {
        key,
        state,
        rule,
        tries,
        fence,
        at,
        exit_code,
        fingerprint,
        call,
    })
}

/// The newest record of each step, in the order of their first records.
pub(crate) fn newest_of_each(records: Vec<Step>) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let mut places: HashMap<StepKey, usize> = HashMap::new();
    for step in records {
        match places.get(&step.key) {
            Some(&place) => found[place] = step,
            None => {
                places.insert(step.key.clone(), found.len());
                found.push(step);
            }
        }
    }
    found
}

/// Columns: exit_code, body, detail. None without an exit code.
pub(crate) fn read_output(row: &mut RowReader<'_>) -> Result<Option<Output>, BadValue> {
    let Some(exit_code) = row.some_small("journal.exit_code")? else {
        return Ok(None);
    };
    let body = row.bytes("journal.body")?;
    let detail: Option<OutputDetail> = row.some_json("journal.detail")?;
    let OutputDetail {
        stderr,
        cut,
        redacted,
    } = detail.unwrap_or_default();
    Ok(Some(Output {
        exit_code,
        body,
        stderr,
        cut,
        redacted,
    }))
}

/// Columns: id, at, kind, task, name, occurrence, fence, detail, exit_code, agent. An unreadable event keeps
/// its id, so that readers can continue after it.
pub(crate) fn read_event(row: &mut RowReader<'_>) -> Result<Event, BadValue> {
    let (id, at) = (row.unsigned("journal.id")?, row.time("journal.at")?);
    Ok(rest_of_event(row, id, at).unwrap_or_else(|bad| Event::unreadable(id, at, &bad)))
}

fn rest_of_event(row: &mut RowReader<'_>, id: u64, at: Time) -> Result<Event, BadValue> {
    let code = row.number("journal.kind")?;
    let kind = u8::try_from(code).ok().and_then(EventKind::from_code);
    let task = row.some_parse("task.id")?;
    let name = row.some_parse("journal.name")?;
    let occurrence = row.some_small("journal.occurrence")?.unwrap_or_default();
    let fence = row
        .some_number("journal.fence")?
        .map(|fence| Fence(fence.cast_unsigned()));
    let detail = row.some_text("journal.detail")?;
    // The event of a step has only its exit code; the rest is in its output.
    let detail = match (row.some_number("journal.exit_code")?, detail) {
        (Some(exit_code), _) => serde_json::json!({"exit_code": exit_code}),
        (None, Some(text)) => from_json(&text, "journal.detail")?,
        (None, None) => Value::Null,
    };
    Ok(Event {
        id,
        at,
        kind: kind.unwrap_or(EventKind::Unknown),
        task,
        step: name.map(|name| StepKey { name, occurrence }),
        fence,
        detail,
        agent: row.some_parse("agent.name")?,
    })
}
