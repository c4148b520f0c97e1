//! Reads what an agent's output says: its session's id, what it is waiting for, and how it ended.
//!
//! Events are JSON objects, one a line; other lines are texts. Output is whatever an agent, its tools or
//! somebody hostile wrote: nothing in it can make this fail, and only an id of a safe shape is taken.

use std::collections::HashMap;

use relight_core::agent::StopReason;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::time::{Span, Time};
use relight_core::usage::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::usage::{StreamUsage, UsageScope};
use super::{Preset, reset_time};

/// A longer line is not read.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Most tool calls that are open at a time; more are not taken note of.
const CALLS_MAX: usize = 1_000;
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
    Said(ReportedEnd),
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
    /// Parts of that text, of which it has none.
    #[serde(default)]
    unless: Vec<String>,
    /// Where the event has the HTTP status of the provider's answer.
    status: Option<String>,
    /// Where the event has the time.
    at: Option<String>,
    /// The same, in milliseconds from now.
    at_ms: Option<String>,
    /// Else the words of the text that the time stands after.
    #[serde(default)]
    after: Vec<String>,
}

/// Where tool calls begin and end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCallRule {
    begin: CallMatch,
    end: CallMatch,
}

/// The ids of the tool calls that an event is about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallMatch {
    /// Members that the event has.
    when: Value,
    /// Where the event has a list of parts; the event itself is the only part when none.
    each: Option<String>,
    /// Members that a part has.
    #[serde(default)]
    is: Value,
    /// Where a part has the id of its call.
    id: String,
}

impl CallMatch {
    fn ids<'a>(&'a self, event: &'a Value) -> impl Iterator<Item = &'a str> {
        let is_about_calls = is_like(event, &self.when);
        let parts = match &self.each {
            _ if !is_about_calls => &[],
            Some(path) => at_path(event, path)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice),
            None => std::slice::from_ref(event),
        };
        let ours = parts
            .iter()
            .filter(|part| self.is.is_null() || is_like(part, &self.is));
        ours.filter_map(|part| at_path(part, &self.id)?.as_str())
            .filter(|id| is_safe_id(id))
    }
}

/// Reads the output of one attempt.
#[derive(Debug, Clone)]
pub struct StreamReader {
    success: Vec<Match>,
    failure: Vec<Match>,
    later: Vec<Match>,
    wait: Vec<Match>,
    incurable: Vec<Match>,
    tool_call: Option<ToolCallRule>,
    session_when: Option<Value>,
    session_path: Option<String>,
    session_gone: Vec<String>,
    must_say_success: bool,
    /// An event of the program was seen.
    began: bool,
    session: Option<String>,
    /// A line said that the session does not exist.
    is_session_gone: bool,
    said: Option<ReportedEnd>,
    /// It went on working after what it said: with another turn in the same process.
    works_on: bool,
    /// The error that it repeats a request for.
    repeats: Option<String>,
    used: StreamUsage,
    /// Tool calls that began and did not end, and since when.
    calls: HashMap<String, Time>,
    /// Since when it waits for a limit or a retry, and until when where that is known.
    waits: Option<(Time, Option<Time>)>,
}

impl StreamReader {
    pub(super) fn new(preset: &Preset) -> Self {
        Self {
            success: preset.success.clone(),
            failure: preset.failure.clone(),
            later: preset.later.clone(),
            wait: preset.wait.clone(),
            incurable: preset.incurable.clone(),
            tool_call: preset.tool_call.clone(),
            session_when: preset.session.when.clone(),
            session_path: preset.session.path.clone(),
            session_gone: preset.session.gone.clone(),
            must_say_success: preset.must_say_success,
            began: false,
            session: None,
            is_session_gone: false,
            said: None,
            works_on: false,
            repeats: None,
            used: StreamUsage::new(&preset.usage),
            calls: HashMap::new(),
            waits: None,
        }
    }

    /// Tool calls that are open, and what it waits for: since when, and until when where that is known.
    pub fn open_work(&self) -> impl Iterator<Item = (Time, Option<Time>)> {
        self.calls
            .values()
            .map(|since| (*since, None))
            .chain(self.waits)
    }

    /// Reads one line, with or without its line break.
    pub fn line(&mut self, line: &[u8], now: Time) -> Vec<Fact> {
        if line.len() > LINE_BYTES_MAX {
            return Vec::new();
        }
        match read(line.trim_ascii()) {
            ParsedLine::Event(event) => self.event(&event, now),
            ParsedLine::Text(text) => self.text(text, now),
            ParsedLine::Nothing => Vec::new(),
        }
    }

    /// What the output said, as far as it was read.
    pub fn said(&self) -> Option<&ReportedEnd> {
        self.said.as_ref()
    }

    /// Whether it said that the session to resume does not exist.
    pub fn is_session_gone(&self) -> bool {
        self.is_session_gone
    }

    /// The error that no retry can cure, for which it repeats a request all the same.
    pub fn repeats_in_vain(&self) -> Option<&str> {
        self.repeats.as_deref()
    }

    /// Totals of what was used: in this run, and in the whole conversation where the program tells that.
    pub fn used(&self) -> [(UsageScope, Usage); 2] {
        self.used.totals()
    }

    /// What the attempt said in all, now that it ended: by its output, else by its exit code. The
    /// success of an earlier turn counts only if it exited with 0 by itself.
    pub fn ended(
        &self,
        preset: &Preset,
        how: HowEnded,
        ending: Option<StopReason>,
    ) -> Option<ReportedEnd> {
        let exited_well = how == HowEnded::Code(0) && ending.is_none();
        let is_of_earlier_turn = self.works_on && self.said == Some(ReportedEnd::Success);
        match &self.said {
            Some(_) if is_of_earlier_turn && !exited_well => {}
            Some(said) => return Some(said.clone()),
            None => {}
        }
        let unfinished = self.must_say_success && self.began && how == HowEnded::Code(0);
        if unfinished {
            return Some(ReportedEnd::Failure(
                "its output never said that it succeeded".to_owned(),
            ));
        }
        preset.said_by_exit(how)
    }

    fn event(&mut self, event: &Value, now: Time) -> Vec<Fact> {
        self.began = true;
        let is_answer = self.used.note(event);
        let is_call = self.note_calls(event, now);
        // Before it is judged: the event that ends a turn tells of its usage, too.
        self.works_on |= is_answer || is_call || self.begins_anew(event);
        if let Some(rule) = self
            .incurable
            .iter()
            .find(|rule| rule.matches(Some(event), ""))
        {
            let end = ReportedEnd::failed(rule.status(Some(event)), rule.message(Some(event), ""));
            self.repeats = end.why().map(str::to_owned);
        }
        self.note_wait(Some(event), "", now);
        let session = self.session_in(event).map(Fact::Session);
        session
            .into_iter()
            .chain(self.judge(Some(event), "", now))
            .collect()
    }

    fn text(&mut self, text: &str, now: Time) -> Vec<Fact> {
        self.note_wait(None, text, now);
        let gone = self.session_gone.iter().any(|words| has(text, words));
        self.is_session_gone |= gone;
        let gone = gone.then_some(Fact::SessionGone);
        gone.into_iter()
            .chain(self.judge(None, text, now))
            .collect()
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

    /// Whether the event is the first of a run or a turn. A pattern without members is of every event.
    fn begins_anew(&self, event: &Value) -> bool {
        let of_one_kind = self
            .session_when
            .as_ref()
            .filter(|when| **when != json!({}));
        of_one_kind.is_some_and(|when| is_like(event, when))
    }

    /// Whether a call began.
    fn note_calls(&mut self, event: &Value, now: Time) -> bool {
        let Some(rule) = &self.tool_call else {
            return false;
        };
        let mut is_begun = false;
        for id in rule.begin.ids(event) {
            is_begun = true;
            if self.calls.len() < CALLS_MAX {
                self.calls.insert(id.to_owned(), now);
            }
        }
        for id in rule.end.ids(event) {
            self.calls.remove(id);
        }
        is_begun
    }

    /// A wait ends at its time, or with the next event of the program.
    fn note_wait(&mut self, event: Option<&Value>, text: &str, now: Time) {
        let mut rules = self.later.iter().chain(&self.wait);
        match rules.find(|rule| rule.matches(event, text)) {
            Some(rule) => self.waits = Some((now, rule.moment(event, text, now))),
            None if event.is_some() => self.waits = None,
            None => {}
        }
    }

    /// What the line says, when that is news. A failure after "later" is its consequence.
    fn judge(&mut self, event: Option<&Value>, text: &str, now: Time) -> Option<Fact> {
        let said = self.verdict(event, text, now)?;
        self.works_on = false;
        let was_limited = self.said.as_ref().is_some_and(ReportedEnd::is_later);
        let is_consequence = was_limited && said.why().is_some() && !said.is_later();
        if is_consequence || self.said.as_ref() == Some(&said) {
            return None;
        }
        // A turn that is over has no open calls, whether or not each was told of.
        self.calls.clear();
        self.said = Some(said.clone());
        Some(Fact::Said(said))
    }

    fn verdict(&self, event: Option<&Value>, text: &str, now: Time) -> Option<ReportedEnd> {
        let find = |rules: &'_ [Match]| rules.iter().position(|rule| rule.matches(event, text));
        if let Some(at) = find(&self.later) {
            let rule = &self.later[at];
            return Some(ReportedEnd::Limited {
                until: rule.moment(event, text, now),
                why: rule.message(event, text),
            });
        }
        if find(&self.success).is_some() {
            return Some(ReportedEnd::Success);
        }
        let at = find(&self.failure)?;
        let (status, message) = (
            self.failure[at].status(event),
            self.failure[at].message(event, text),
        );
        Some(ReportedEnd::failed(status, message))
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
            let has_one = |text: &str, parts: &[String]| parts.iter().any(|words| has(text, words));
            let text = self.words(event, line);
            (self.any.is_empty() || text.as_deref().is_some_and(|it| has_one(it, &self.any)))
                && !text.is_some_and(|it| has_one(&it, &self.unless))
        };
        right_kind && right_words()
    }

    /// The text that it looks at: of the event's member, or the line.
    fn words(&self, event: Option<&Value>, line: &str) -> Option<String> {
        let Some(event) = event else {
            return Some(line.to_owned());
        };
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

    fn status(&self, event: Option<&Value>) -> Option<u16> {
        at_path(event?, self.status.as_ref()?)?
            .as_u64()?
            .try_into()
            .ok()
    }

    fn moment(&self, event: Option<&Value>, line: &str, now: Time) -> Option<Time> {
        let in_ms = self
            .at_ms
            .as_ref()
            .zip(event)
            .and_then(|(path, event)| at_path(event, path));
        // Some write it with a fraction.
        if let Some(ms) = in_ms.and_then(Value::as_f64) {
            return reset_time::to_come(now.plus(Span::from_ms(ms as u64)), now);
        }
        let at = self
            .at
            .as_ref()
            .zip(event)
            .and_then(|(path, event)| at_path(event, path));
        if let Some(time) = at.and_then(|value| reset_time::in_value(value, now)) {
            return Some(time);
        }
        let text = self.words(event, line)?;
        let after = self.after.iter().find_map(|words| behind(&text, words))?;
        reset_time::in_text(after, now)
    }
}

enum ParsedLine<'a> {
    Event(Value),
    Text(&'a str),
    Nothing,
}

fn read(line: &[u8]) -> ParsedLine<'_> {
    if line.first() == Some(&b'{') {
        // Depth is limited by the parser.
        return serde_json::from_slice(line).map_or(ParsedLine::Nothing, ParsedLine::Event);
    }
    match std::str::from_utf8(line) {
        Ok(text) if !text.is_empty() => ParsedLine::Text(text),
        _ => ParsedLine::Nothing,
    }
}

/// Whether the value has all that the pattern has.
pub(super) fn is_like(value: &Value, pattern: &Value) -> bool {
    match pattern {
        Value::Object(members) => members
            .iter()
            .all(|(name, pattern)| value.get(name).is_some_and(|value| is_like(value, pattern))),
        Value::Array(alternatives) => alternatives.iter().any(|pattern| is_like(value, pattern)),
        pattern => value == pattern,
    }
}

pub(super) fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
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
        lines
            .iter()
            .flat_map(|line| reader.line(line.as_bytes(), now()))
            .collect()
    }

    /// The ends of the limits that are told of, and nothing else.
    fn limits(preset: &str, lines: &[&str]) -> Vec<Option<Time>> {
        let limit = |fact| match fact {
            Fact::Said(ReportedEnd::Limited { until, .. }) => until,
            fact => panic!("{fact:?}"),
        };
        facts(preset, lines).into_iter().map(limit).collect()
    }

    #[test]
    fn the_id_is_told_once_and_only_when_it_is_safe() {
        let started = |id: &str| format!(r#"{{"type":"thread.started","thread_id":"{id}"}}"#);
        let told = facts("codex", &[&started("a-1"), &started("b-2")]);
        assert_eq!(told, [Fact::Session("a-1".to_owned())]);
        for bad in [
            "",
            "-rf",
            "a b",
            "a/../b",
            "$(id)",
            "a\\u0000b",
            "ä",
            &"x".repeat(129),
        ] {
            assert_eq!(facts("codex", &[&started(bad)]), [], "{bad}");
        }
        assert_eq!(
            facts("codex", &[r#"{"type":"thread.started","thread_id":7}"#]),
            []
        );
    }

    #[test]
    fn hostile_lines_say_nothing() {
        let mut reader = reader("codex");
        let deep = "[".repeat(500_000);
        let object = format!("{{\"type\":{deep}");
        let long = format!(
            r#"{{"type":"turn.completed","x":"{}"}}"#,
            "y".repeat(LINE_BYTES_MAX)
        );
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
        assert_eq!(limits("claude-code", &[limit]), [reset]);
        let other = r#"{"type":"result","subtype":"error_during_execution","is_error":true}"#;
        assert_eq!(limits("claude-code", &[limit, other]), [reset]);
        assert_eq!(limits("claude-code", &[failed]), [None]);
        let text = r#"{"type":"result","subtype":"success","is_error":true,"result":"You've hit your session limit · resets May 2, 9am (UTC)"}"#;
        let reset = Some("2026-05-02T09:00:00Z".parse().unwrap());
        assert_eq!(limits("claude-code", &[text]), [reset]);
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
        assert_eq!(reader.said(), Some(&ReportedEnd::Success));
    }

    /// Lines as the real programs wrote them when a stub answered with 401, 404 and a spent budget.
    #[test]
    fn an_error_that_no_retry_can_cure_is_told_from_others() {
        for (preset, line, why) in [
            (
                "claude-code",
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Failed to authenticate"}"#,
                "401: Failed to authenticate",
            ),
            (
                "claude-code",
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":404,"result":"There's an issue with the selected model (opus)."}"#,
                "404: There's an issue with the selected model (opus).",
            ),
            (
                "claude-code",
                r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true}"#,
                "error_max_budget_usd",
            ),
            (
                "claude-code",
                "error: unknown option '--nosuchflag'",
                "error: unknown option '--nosuchflag'",
            ),
            (
                "codex",
                r#"{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: Incorrect API key provided"}}"#,
                "unexpected status 401 Unauthorized: Incorrect API key provided",
            ),
            (
                "codex",
                r#"{"type":"turn.failed","error":{"message":"The model stub does not exist"}}"#,
                "The model stub does not exist",
            ),
            (
                "codex",
                "error: unexpected argument '--nosuchflag' found",
                "error: unexpected argument '--nosuchflag' found",
            ),
            (
                "gemini",
                r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: {\"error\":{\"type\":\"authentication_error\"}}]"}}"#,
                r#"[API Error: {"error":{"type":"authentication_error"}}]"#,
            ),
            (
                "opencode",
                r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"Incorrect key","statusCode":401}}}"#,
                "401: Incorrect key",
            ),
            (
                "kimi",
                "error: failed to run prompt: provider.auth_error: 401 Incorrect API key provided",
                "error: failed to run prompt: provider.auth_error: 401 Incorrect API key provided",
            ),
            (
                "kimi",
                "error: failed to run prompt: Model \"nope\" is not configured in config.toml.",
                "error: failed to run prompt: Model \"nope\" is not configured in config.toml.",
            ),
        ] {
            let said = facts(preset, &[line]).pop();
            assert_eq!(
                said,
                Some(Fact::Said(ReportedEnd::Incurable(why.to_owned()))),
                "{line}"
            );
        }
        let overloaded = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"overloaded"}"#;
        let failed = ReportedEnd::Failure("529: overloaded".to_owned());
        assert_eq!(facts("claude-code", &[overloaded]), [Fact::Said(failed)]);
    }

    /// Limits as the real programs write them while they wait, and when they give up.
    #[test]
    fn limits_of_the_real_streams_are_read() {
        let retrying = r#"{"role":"meta","type":"turn.step.retrying","failed_attempt":1,"delay_ms":600000,"status_code":429}"#;
        let in_ten_minutes = Some("2026-05-01T12:10:00Z".parse().unwrap());
        assert_eq!(open("kimi", &[retrying]), [(now(), in_ten_minutes)]);
        let api_retry = r#"{"type":"system","subtype":"api_retry","retry_delay_ms":1095.7009,"error_status":401}"#;
        let soon = Some("2026-05-01T12:00:01.095Z".parse().unwrap());
        assert_eq!(open("claude-code", &[api_retry]), [(now(), soon)]);
        let codex = r#"{"type":"error","message":"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"}"#;
        assert_eq!(open("codex", &[codex]), [(now(), None)]);
        let opencode = r#"timestamp=2026 level=ERROR message="stream error" error.error="AI_APICallError: Rate limit reached""#;
        assert_eq!(open("opencode", &[opencode]), [(now(), None)]);
        for (preset, line) in [
            (
                "kimi",
                "error: failed to run prompt: provider.rate_limit: 429 Rate limit reached",
            ),
            (
                "claude-code",
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429)"}"#,
            ),
            ("codex", codex),
        ] {
            assert_eq!(limits(preset, &[line]), [None], "{line}");
        }
        let quota = r#"{"type":"result","status":"error","error":{"message":"[API Error: You exceeded your current quota. Please retry in 600s.]"}}"#;
        assert_eq!(limits("gemini", &[quota]), [in_ten_minutes]);
    }

    #[test]
    fn a_message_is_short_and_plain() {
        let long = "x".repeat(1_000);
        let line =
            format!(r#"{{"type":"turn.failed","error":{{"message":"a\u001b[31m\n{long}"}}}}"#);
        let told = facts("codex", &[&line]);
        let [Fact::Said(ReportedEnd::Failure(text))] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(text.chars().count(), MESSAGE_CHARS_MAX);
        assert!(!text.contains(|c: char| c.is_control()));
    }

    /// Since when and until when something is open after these lines.
    fn open(preset: &str, lines: &[&str]) -> Vec<(Time, Option<Time>)> {
        let mut reader = reader(preset);
        for line in lines {
            reader.line(line.as_bytes(), now());
        }
        reader.open_work().collect()
    }

    #[test]
    fn a_tool_call_is_open_until_its_result_comes() {
        let claude = [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"toolu_1","name":"Bash"},{"type":"tool_use","id":"toolu_2","name":"Bash"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_2"}]}}"#,
        ];
        let codex = [
            r#"{"type":"item.started","item":{"id":"item_1","type":"command_execution"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"command_execution"}}"#,
        ];
        let gemini = [
            r#"{"type":"tool_use","tool_name":"shell","tool_id":"t-1"}"#,
            r#"{"type":"tool_result","tool_id":"t-1","status":"success"}"#,
        ];
        let kimi = [
            r#"{"role":"assistant","tool_calls":[{"type":"function","id":"tc_1"}]}"#,
            r#"{"role":"tool","tool_call_id":"tc_1","content":"ok"}"#,
        ];
        let still = (now(), None);
        assert_eq!(open("claude-code", &claude[..1]), [still, still]);
        assert_eq!(open("claude-code", &claude[..2]), [still]);
        assert_eq!(open("claude-code", &claude), []);
        for (preset, lines) in [("codex", codex), ("gemini", gemini), ("kimi", kimi)] {
            assert_eq!(open(preset, &lines[..1]), [still], "{preset}");
            assert_eq!(open(preset, &lines), [], "{preset}");
        }
        let said = r#"{"type":"turn.completed"}"#;
        assert_eq!(open("codex", &[codex[0], said]), [], "the turn is over");
        assert_eq!(
            open(
                "codex",
                &[r#"{"type":"item.started","item":{"id":"item_2","type":"reasoning"}}"#]
            ),
            []
        );
    }

    #[test]
    fn a_retry_or_a_limit_is_a_wait_until_its_time_or_the_next_event() {
        let retry = r#"{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":90000}"#;
        let limit = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1777640400}}"#;
        let next = r#"{"type":"assistant","message":{"content":[]}}"#;
        let until = |text: &str| Some(text.parse().unwrap());
        let waits = (now(), until("2026-05-01T12:01:30Z"));
        assert_eq!(open("claude-code", &[retry]), [waits]);
        assert_eq!(
            open("claude-code", &[limit]),
            [(now(), until("2026-05-01T13:00:00Z"))]
        );
        assert_eq!(open("claude-code", &[retry, "retrying"]), [waits]);
        assert_eq!(open("claude-code", &[retry, next]), []);
        for preset in ["claude-code", "codex", "gemini", "opencode"] {
            let said = ["HTTP 429, Retry-After: 90"];
            assert_eq!(open(preset, &said), [waits], "{preset}");
        }
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
        assert_eq!(reader.ended(&preset, HowEnded::Code(0), None), None);
        reader.line(br#"{"type":"thread.started","thread_id":"a"}"#, now());
        assert!(matches!(
            reader.ended(&preset, HowEnded::Code(0), None),
            Some(ReportedEnd::Failure(_))
        ));
        assert_eq!(reader.ended(&preset, HowEnded::Signal(9), None), None);
        reader.line(br#"{"type":"turn.completed"}"#, now());
        assert_eq!(
            reader.ended(&preset, HowEnded::Code(1), None),
            Some(ReportedEnd::Success)
        );
    }

    #[test]
    fn the_success_of_an_earlier_turn_is_not_that_of_an_attempt_that_was_ended() {
        let preset = Preset::by_name("claude-code", None).unwrap();
        let success =
            r#"{"type":"result","subtype":"success","is_error":false,"usage":{"input_tokens":9}}"#;
        let ended = |lines: &[&str], how, ending| {
            let mut reader = preset.reader();
            for line in lines {
                reader.line(line.as_bytes(), now());
            }
            reader.ended(&preset, how, ending)
        };
        let (killed, said) = (HowEnded::Signal(15), Some(ReportedEnd::Success));
        for next in [
            r#"{"type":"system","subtype":"init","session_id":"a"}"#,
            r#"{"type":"assistant","message":{"id":"m","usage":{"input_tokens":1}}}"#,
        ] {
            for ending in [StopReason::Budget, StopReason::Shutdown, StopReason::Hung] {
                assert_eq!(ended(&[success, next], killed, Some(ending)), None);
                let trapped = ended(&[success, next], HowEnded::Code(0), Some(ending));
                assert_ne!(trapped, said, "it trapped the signal");
                assert_eq!(ended(&[success], killed, Some(ending)), said);
                assert_eq!(ended(&[success, next, success], killed, Some(ending)), said);
            }
            assert_eq!(ended(&[success, next], killed, None), None);
            assert_eq!(ended(&[success, next], HowEnded::Code(0), None), said);
        }
        assert_eq!(
            ended(&[success], killed, None),
            said,
            "killed after it said so"
        );
        let news = r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#;
        assert_eq!(
            ended(&[success, news], killed, Some(StopReason::Hung)),
            said
        );
    }
}
