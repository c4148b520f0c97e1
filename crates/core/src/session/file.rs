//! `agent_checkpoints.json`, as gateways keep it by themselves: the turns in flight, by key.
//!
//! Reads what others wrote with care: one entry that makes no sense does not spoil the others.
//! Leaves reading and writing the file itself to others.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Generation, Session, SessionState};
use crate::checkpoint::{Limits, StrictError, check_unambiguous};
use crate::ids::{SessionId, SessionKey};
use crate::time::Time;

/// The largest file that is read.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// The file makes no sense as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Not JSON, or torn.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// JSON that readers understand differently.
    #[error("it has the {0}")]
    Ambiguous(StrictError),
    /// JSON of another shape.
    #[error("it is {0} where an object of sessions was expected")]
    NotAnObject(&'static str),
}

/// One turn in flight, as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMark {
    /// The agent's own id of the conversation.
    pub session_id: SessionId,
    /// When it was begun; none when the file does not say.
    pub started_at: Option<Time>,
    /// Its number; none when the file does not say.
    pub generation: Option<Generation>,
}

/// What a file has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Those that make sense, by key.
    pub marks: BTreeMap<SessionKey, FileMark>,
    /// The keys of the others, with the reason.
    pub damaged: Vec<(String, String)>,
}

/// Reads the text of a file.
pub fn read_marks(text: &[u8]) -> Result<Marks, FileError> {
    let limits = Limits {
        bytes_max: FILE_BYTES_MAX,
        ..Limits::CHECKPOINT
    };
    if let Err(error @ StrictError::DuplicateKey { .. }) = check_unambiguous(text, limits) {
        return Err(FileError::Ambiguous(error));
    }
    let value: Value =
        serde_json::from_slice(text).map_err(|error| FileError::NotJson(error.to_string()))?;
    let entries = match value {
        Value::Object(entries) => entries,
        other => return Err(FileError::NotAnObject(kind_of(&other))),
    };
    let mut marks = Marks::default();
    for (key, entry) in entries {
        match read_entry(&key, &entry) {
            Ok((key, mark)) => drop(marks.marks.insert(key, mark)),
            Err(reason) => marks.damaged.push((key, reason)),
        }
    }
    Ok(marks)
}

fn read_entry(key: &str, entry: &Value) -> Result<(SessionKey, FileMark), String> {
    let key = SessionKey::new(key).map_err(|error| error.to_string())?;
    let Value::Object(fields) = entry else {
        return Err(format!(
            "it is {} where an object was expected",
            kind_of(entry)
        ));
    };
    let id = fields
        .get("session_id")
        .and_then(Value::as_str)
        .ok_or("it has no session_id")?;
    let session_id = SessionId::new(id).map_err(|error| error.to_string())?;
    let started_at = read_time(fields.get("started_at"))?;
    let generation = match fields.get("generation") {
        None | Some(Value::Null) => None,
        Some(value) => Some(Generation(read_generation(value)?)),
    };
    Ok((
        key,
        FileMark {
            session_id,
            started_at,
            generation,
        },
    ))
}

/// The largest leaves room for those that follow it.
fn read_generation(value: &Value) -> Result<u64, String> {
    let number = value
        .as_u64()
        .filter(|number| *number < u64::from(u32::MAX));
    number.ok_or_else(|| format!("its generation {value} is not a number of a turn"))
}

/// RFC 3339, or seconds since 1970 as other languages write them.
fn read_time(value: Option<&Value>) -> Result<Option<Time>, String> {
    let bad = |value: &Value| format!("its started_at {value} is not a time");
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::String(text)) => {
            let with_zone = text.parse().or_else(|_| format!("{text}Z").parse());
            with_zone.map(Some).map_err(|_| bad(value))
        }
        Some(value @ Value::Number(seconds)) => {
            let seconds = seconds.as_f64().filter(|seconds| seconds.is_finite());
            seconds
                .map(|s| Some(Time::from_ms((s * 1_000.0).round() as i64)))
                .ok_or_else(|| bad(value))
        }
        Some(value) => Err(bad(value)),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The text of a file that has the turns in flight of these sessions.
pub fn write_marks<'a>(sessions: impl IntoIterator<Item = &'a Session>) -> String {
    let mut entries = Map::new();
    for session in sessions {
        if let SessionState::Active { since, .. } = session.state {
            let entry = json!({
                "session_id": session.session_id,
                // Seconds since 1970, as the files of gateways have it.
                "started_at": since.as_ms() as f64 / 1_000.0,
                "generation": session.generation,
            });
            entries.insert(session.key.to_string(), entry);
        }
    }
    let text = serde_json::to_string_pretty(&Value::Object(entries));
    text.expect("an object of texts and numbers") + "\n"
}
