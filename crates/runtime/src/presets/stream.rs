//! Reads what an agent's output says: its session's id, and how it ended.
//!
//! Events are JSON objects, one a line; other lines are texts. Output is whatever an agent, its tools or
//! somebody hostile wrote: nothing in it can make this fail, and only an id of a safe shape is taken.

use relight_core::agent::death::{HowEnded, Said};
use relight_core::time::Time;
use serde::Deserialize;
use serde_json::Value;

use super::{Preset, moment};

/// A longer line is not read.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
const SESSION_BYTES_MAX: usize = 128;
const MESSAGE_CHARS_MAX: usize = 300;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The agent's own session has this id; once in an attempt, before all else that comes later.
    Session(String),
    /// The session that should be resumed is not there: the next attempt has to begin anew.
    SessionGone,
    /// How it goes; the last one counts.
    Said(Said),
}

/// What an event or a text is recognised by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Match {
    /// Members that the event has; none matches lines of text. An array lists alternatives.
    when: Option<Value>,
    /// Where the event has its text.
    path: Option<String>,
    /// Parts of that text, of which it has one, in any case.
    #[serde(default)]
    any: Vec<String>,
    /// Where the event has the time.
    at: Option<String>,
    /// Else the words of the text that the time stands after.
    #[serde(default)]
    after: Vec<String>,
}

/// Reads the output of one attempt.
#[derive(Debug, Clone)]
pub struct StreamReader {
    success: Vec<Match>,
    failure: Vec<Match>,
    later: Vec<Match>,
    session_when: Option<Value>,
    session_path: Option<String>,
    session_gone: Vec<String>,
    must_say_success: bool,
    /// An event of the program was seen.
    began: bool,
    session: Option<String>,
    said: Option<Said>,
}

impl StreamReader {
    pub(super) fn new(preset: &Preset) -> Self {
        Self {
            success: preset.success.clone(),
            failure: preset.failure.clone(),
            later: preset.later.clone(),
            session_when: preset.session.when.clone(),
            session_path: preset.session.path.clone(),
            session_gone: preset.session.gone.clone(),
            must_say_success: preset.must_say_success,
            began: false,
            session: None,
            said: None,
        }
    }

    /// Reads one line, with or without its line break.
    pub fn line(&mut self, line: &[u8], now: Time) -> Vec<Fact> {
        if line.len() > LINE_BYTES_MAX {
            return Vec::new();
        }
        match read(line.trim_ascii()) {
            Line::Event(event) => self.event(&event, now),
            Line::Text(text) => self.text(text, now),
            Line::Nothing => Vec::new(),
        }
    }

    /// What the output said, as far as it was read.
    pub fn said(&self) -> Option<&Said> {
        self.said.as_ref()
    }

    /// What the attempt said in all, now that it ended: by its output, else by its exit code.
    pub fn ended(&self, preset: &Preset, how: HowEnded) -> Option<Said> {
        if let Some(said) = &self.said {
            return Some(said.clone());
        }
        let unfinished = self.must_say_success && self.began && how == HowEnded::Code(0);
        if unfinished {
            return Some(Said::Failure("its output never said that it succeeded".to_owned()));
        }
        preset.said_by_exit(how)
    }

    fn event(&mut self, event: &Value, now: Time) -> Vec<Fact> {
        self.began = true;
        let session = self.session_in(event).map(Fact::Session);
        session.into_iter().chain(self.judge(Some(event), "", now)).collect()
    }

    fn text(&mut self, text: &str, now: Time) -> Vec<Fact> {
        let gone = self.session_gone.iter().any(|words| has(text, words));
        let gone = gone.then_some(Fact::SessionGone);
        gone.into_iter().chain(self.judge(None, text, now)).collect()
    }

    /// The id, the first time that it is seen.
    fn session_in(&mut self, event: &Value) -> Option<String> {
        let (when, path) = (self.session_when.as_ref()?, self.session_path.as_ref()?);
        if self.session.is_some() || !is_like(event, when) {
            return None;
        }
        let id = at_path(event, path)?.as_str().filter(|id| is_safe_id(id))?;
        self.session = Some(id.to_owned());
        self.session.clone()
    }

    /// What the line says, when that is news. A failure after "later" is its consequence.
    fn judge(&mut self, event: Option<&Value>, text: &str, now: Time) -> Option<Fact> {
        let said = self.verdict(event, text, now)?;
        let is_consequence =
            matches!((&self.said, &said), (Some(Said::Later(_)), Said::Failure(_)));
        if is_consequence || self.said.as_ref() == Some(&said) {
            return None;
        }
        self.said = Some(said.clone());
        Some(Fact::Said(said))
    }

    fn verdict(&self, event: Option<&Value>, text: &str, now: Time) -> Option<Said> {
        let find = |rules: &'_ [Match]| rules.iter().position(|rule| rule.matches(event, text));
        if let Some(at) = find(&self.later) {
            return Some(Said::Later(self.later[at].moment(event, text, now)));
        }
        if find(&self.success).is_some() {
            return Some(Said::Success);
        }
        let at = find(&self.failure)?;
        Some(Said::Failure(self.failure[at].message(event, text)))
    }
}

impl Match {
    fn matches(&self, event: Option<&Value>, line: &str) -> bool {
        let right_kind = match (&self.when, event) {
            (Some(when), Some(event)) => is_like(event, when),
            (None, None) => true,
            _ => false,
        };
        let right_words = || {
            self.any.is_empty() || self.words(event, line).is_some_and(|text| self.has_any(&text))
        };
        right_kind && right_words()
    }

    fn has_any(&self, text: &str) -> bool {
        self.any.iter().any(|words| has(text, words))
    }

    /// The text that it looks at: of the event's member, or the line.
    fn words(&self, event: Option<&Value>, line: &str) -> Option<String> {
        let Some(event) = event else { return Some(line.to_owned()) };
        Some(match at_path(event, self.path.as_ref()?)? {
            Value::String(text) => text.clone(),
            Value::Null => return None,
            other => other.to_string(),
        })
    }

    fn message(&self, event: Option<&Value>, line: &str) -> String {
        let text = self.words(event, line).unwrap_or_default();
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let text: String = plain.take(MESSAGE_CHARS_MAX).collect();
        if text.trim().is_empty() {
            "its output says so".to_owned()
        } else {
            text.trim().to_owned()
        }
    }

    fn moment(&self, event: Option<&Value>, line: &str, now: Time) -> Option<Time> {
        let at = self.at.as_ref().zip(event).and_then(|(path, event)| at_path(event, path));
        if let Some(time) = at.and_then(|value| moment::in_value(value, now)) {
            return Some(time);
        }
        let text = self.words(event, line)?;
        let after = self.after.iter().find_map(|words| behind(&text, words))?;
        moment::in_text(after, now)
    }
}

enum Line<'a> {
    Event(Value),
    Text(&'a str),
    Nothing,
}

fn read(line: &[u8]) -> Line<'_> {
    if line.first() == Some(&b'{') {
        // Depth is limited by the parser.
        return serde_json::from_slice(line).map_or(Line::Nothing, Line::Event);
    }
    match std::str::from_utf8(line) {
        Ok(text) if !text.is_empty() => Line::Text(text),
        _ => Line::Nothing,
    }
}

/// Whether the value has all that the pattern has.
fn is_like(value: &Value, pattern: &Value) -> bool {
    match pattern {
        Value::Object(members) => members
            .iter()
            .all(|(name, pattern)| value.get(name).is_some_and(|value| is_like(value, pattern))),
        Value::Array(alternatives) => alternatives.iter().any(|pattern| is_like(value, pattern)),
        pattern => value == pattern,
    }
}

fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

fn is_safe_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    // A leading dash would be read as an option.
    (1..=SESSION_BYTES_MAX).contains(&id.len()) && !id.starts_with('-') && id.chars().all(allowed)
}

/// Whether the text has the words, in any case of ASCII letters.
fn has(text: &str, words: &str) -> bool {
    behind(text, words).is_some()
}

fn behind<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let (text_bytes, words) = (text.as_bytes(), words.as_bytes());
    let mut windows = text_bytes.windows(words.len().max(1));
    let at = windows.position(|window| window.eq_ignore_ascii_case(words))?;
    text.get(at + words.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        "2026-05-01T12:00:00Z".parse().unwrap()
    }

    fn reader(preset: &str) -> StreamReader {
        Preset::by_name(preset, None).unwrap().reader()
    }

    fn facts(preset: &str, lines: &[&str]) -> Vec<Fact> {
        let mut reader = reader(preset);
        lines.iter().flat_map(|line| reader.line(line.as_bytes(), now())).collect()
    }

    #[test]
    fn the_id_is_told_once_and_only_when_it_is_safe() {
        let started = |id: &str| format!(r#"{{"type":"thread.started","thread_id":"{id}"}}"#);
        let told = facts("codex", &[&started("a-1"), &started("b-2")]);
        assert_eq!(told, [Fact::Session("a-1".to_owned())]);
        for bad in ["", "-rf", "a b", "a/../b", "$(id)", "a\\u0000b", "ä", &"x".repeat(129)] {
            assert_eq!(facts("codex", &[&started(bad)]), [], "{bad}");
        }
        assert_eq!(facts("codex", &[r#"{"type":"thread.started","thread_id":7}"#]), []);
    }

    #[test]
    fn hostile_lines_say_nothing() {
        let mut reader = reader("codex");
        let deep = "[".repeat(500_000);
        let object = format!("{{\"type\":{deep}");
        let long = format!(r#"{{"type":"turn.completed","x":"{}"}}"#, "y".repeat(LINE_BYTES_MAX));
        for line in [
            &b""[..],
            b"\n",
            b"{",
            b"{}",
            b"null",
            b"[]",
            b"\xff\xfe{",
            b"{\"type\":\"\xff\"}",
            b"\0\0\0",
            b"{\"type\":\"turn.completed\"",
            b"{\"type\":[]}",
            object.as_bytes(),
            long.as_bytes(),
        ] {
            assert_eq!(reader.line(line, now()), []);
        }
        assert_eq!(reader.said(), None);
    }

    #[test]
    fn a_limit_counts_more_than_the_failure_it_leads_to() {
        let limit = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1777640400}}"#;
        let failed = r#"{"type":"result","subtype":"success","is_error":true,"result":"You've hit your limit"}"#;
        let reset = Some("2026-05-01T13:00:00Z".parse().unwrap());
        assert_eq!(facts("claude-code", &[limit]), [Fact::Said(Said::Later(reset))]);
        let other = r#"{"type":"result","subtype":"error_during_execution","is_error":true}"#;
        assert_eq!(facts("claude-code", &[limit, other]), [Fact::Said(Said::Later(reset))]);
        assert_eq!(facts("claude-code", &[failed]), [Fact::Said(Said::Later(None))]);
        let allowed =
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning"}}"#;
        assert_eq!(facts("claude-code", &[allowed]), []);
    }

    #[test]
    fn success_after_a_limit_or_a_failure_counts() {
        let error = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
        let done = r#"{"type":"turn.completed","usage":{}}"#;
        let mut reader = reader("codex");
        reader.line(error.as_bytes(), now());
        reader.line(done.as_bytes(), now());
        assert_eq!(reader.said(), Some(&Said::Success));
    }

    #[test]
    fn a_message_is_short_and_plain() {
        let long = "x".repeat(1_000);
        let line =
            format!(r#"{{"type":"turn.failed","error":{{"message":"a\u001b[31m\n{long}"}}}}"#);
        let told = facts("codex", &[&line]);
        let [Fact::Said(Said::Failure(text))] = &told[..] else { panic!("{told:?}") };
        assert_eq!(text.chars().count(), MESSAGE_CHARS_MAX);
        assert!(!text.contains(|c: char| c.is_control()));
    }

    #[test]
    fn a_missing_session_is_told_by_a_text_and_never_by_an_event() {
        let gone = "No conversation found with session ID: x";
        assert_eq!(facts("claude-code", &[gone]), [Fact::SessionGone]);
        let quoted = format!(r#"{{"type":"assistant","text":"{gone}"}}"#);
        assert_eq!(facts("claude-code", &[&quoted]), []);
    }

    #[test]
    fn a_stream_that_began_and_never_said_success_has_failed() {
        let preset = Preset::by_name("codex", None).unwrap();
        let mut reader = preset.reader();
        assert_eq!(reader.ended(&preset, HowEnded::Code(0)), None);
        reader.line(br#"{"type":"thread.started","thread_id":"a"}"#, now());
        assert!(matches!(reader.ended(&preset, HowEnded::Code(0)), Some(Said::Failure(_))));
        assert_eq!(reader.ended(&preset, HowEnded::Signal(9)), None);
        reader.line(br#"{"type":"turn.completed"}"#, now());
        assert_eq!(reader.ended(&preset, HowEnded::Code(1)), Some(Said::Success));
    }
}
