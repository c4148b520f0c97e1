//! Parsers of the core and redaction.

use serde_json::Value;

use relight_core::agent::active_state::ActiveState;
use relight_core::agent::plain::{clipped, plain_line, plain_lines};
use relight_core::checkpoint::hash::content_hash;
use relight_core::checkpoint::{Checkpoint, Limits, parse_strict};
use relight_core::ids::{
    AgentName, IdempotencyKey, SessionId, SessionKey, StepName, TaskId, is_obeyed,
};
use relight_core::session::read_marks;
use relight_core::time::{Span, Time};
use relight_redact::{MarkKey, Redactor};

/// A checkpoint file, as it is and with a hash that fits: what opens is sealed to something that opens
/// as the same.
pub(crate) fn checkpoint(data: &[u8]) {
    opened_and_sealed(data);
    if let Ok(Value::Object(mut members)) = parse_strict(data, Limits::CHECKPOINT) {
        members.remove("checkpointHash");
        members.insert(
            "checkpointHash".to_owned(),
            Value::String(content_hash(&members)),
        );
        opened_and_sealed(&serde_json::to_vec(&members).expect("it was JSON"));
    }
}

fn opened_and_sealed(data: &[u8]) {
    let Ok(opened) = Checkpoint::open(data) else {
        return;
    };
    let again = Checkpoint::open(&opened.seal()).expect("what was opened can be sealed and opened");
    assert_eq!(
        Checkpoint {
            foreign: false,
            ..opened
        },
        again
    );
}

/// Strict JSON: what it takes, the usual reader takes too and understands alike.
pub(crate) fn strict_json(data: &[u8]) {
    let Ok(value) = parse_strict(data, Limits::CHECKPOINT) else {
        return;
    };
    let usual: Value = serde_json::from_slice(data).expect("the usual reader takes it too");
    assert_eq!(value, usual);
}

/// `agent_checkpoints.json` of other gateways: each entry is taken or named.
pub(crate) fn session_marks(data: &[u8]) {
    let Ok(marks) = read_marks(data) else { return };
    let value: Value = serde_json::from_slice(data).expect("it was read");
    let entries = value.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(marks.marks.len() + marks.damaged.len(), entries);
}

/// Times, durations, ids and names: what is taken is written so that it is taken again.
pub(crate) fn words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(time) = text.parse::<Time>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    if let Ok(span) = text.parse::<Span>() {
        let later = Time::from_ms(0).plus(span);
        assert_eq!(later.to_string().parse(), Ok(later));
        assert!(!span.to_string().is_empty());
    }
    if TaskId::new(text).is_ok() {
        assert!(!text.chars().any(char::is_control) && text.len() <= 512);
        assert!(!text.starts_with('/') && !text.split('/').any(|part| part == ".."));
        assert!(AgentName::of_workflow(text).is_ok() && SessionKey::new(text).is_ok());
    }
    if let Ok(id) = TaskId::strict(text) {
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:@/-".contains(c);
        assert!(id.as_str().chars().all(is_safe) && !text.contains(".."));
        assert!(!text.starts_with(['/', '-']) && text.len() <= 128);
        assert!(AgentName::new(text).is_ok() && TaskId::new(text).is_ok());
    }
    if StepName::new(text).is_ok() || IdempotencyKey::new(text).is_ok() {
        assert!(!text.contains(is_obeyed) && !text.starts_with('-'));
    }
    let _ = SessionId::new(text);
}

/// Redaction: once is enough, a known value never comes through, and a stream is the whole in pieces.
pub(crate) fn redaction(data: &[u8]) {
    const KNOWN: &str = "kn0wn-value-one";
    let redactor = Redactor::new(MarkKey::new([7; 32])).with_known("test", KNOWN);
    let once = redactor.bytes(data).into_owned();
    assert_eq!(
        redactor.bytes(&once),
        once,
        "redacting twice is redacting once"
    );
    assert!(
        !once
            .windows(KNOWN.len())
            .any(|part| part == KNOWN.as_bytes()),
        "a known value"
    );
    let mut stream = redactor.stream();
    let size = usize::from(data.first().copied().unwrap_or(0) % 13) + 1;
    for piece in data.chunks(size) {
        let shown = stream.pass(piece);
        assert!(
            !shown
                .windows(KNOWN.len())
                .any(|part| part == KNOWN.as_bytes())
        );
    }
    stream.finish();
    if let Ok(mut value) = serde_json::from_slice::<Value>(data) {
        redactor.json(&mut value);
        assert!(!value.to_string().contains(KNOWN));
        assert!(
            !redactor.json(&mut value),
            "redacting JSON twice is redacting it once"
        );
    }
}

/// Agents' text that is shown to people: nothing in it is obeyed, and it is no longer than it may be.
pub(crate) fn plain(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let line = plain_line(&text);
    assert!(!line.contains(is_obeyed), "nothing is obeyed");
    assert!(plain_lines(&text).all(|line| !line.contains(is_obeyed)));
    let max = 3 + data.len() / 2;
    assert!(clipped(&line, max).len() <= max);
}

/// `active_state.json` as it is read back.
pub(crate) fn active_state(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Some(state) = ActiveState::from_text(text) else {
        return;
    };
    let again = ActiveState::from_text(&state.to_text()).expect("what was read is written whole");
    assert!(state.says_the_same(&again));
}
