//! Steps: records of one part of a task, and repeat rules after a crash.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{StepName, TaskId};
use crate::lease::{Fence, Lease};
use crate::time::Time;

/// What to do with a step that was begun and not ended: it may or may not have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatRule {
    /// Run again with the same idempotency key; the receiver recognises it.
    #[default]
    Keyed,
    /// Run again; a repetition does no harm.
    Repeatable,
    /// Run a command that checks whether it happened.
    Verify,
    /// Never repeat automatically; a person decides.
    Once,
}

impl RepeatRule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Keyed, Self::Repeatable, Self::Verify, Self::Once];

    /// Its name in JSON, SQL and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Repeatable => "repeatable",
            Self::Verify => "verify",
            Self::Once => "once",
        }
    }

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|rule| *rule == self)
            .map_or(0, |at| at as u8 + 1)
    }

    /// The rule with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Whether the begin must be on disk before the step acts. If a step in doubt is simply run
    /// again, a lost begin changes nothing.
    pub fn needs_intent_first(self) -> bool {
        match self {
            Self::Keyed | Self::Repeatable => false,
            Self::Verify | Self::Once => true,
        }
    }
}

impl fmt::Display for RepeatRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Not a repeat rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a repeat rule; known are keyed, repeatable, verify, once")]
pub struct UnknownRule(String);

impl FromStr for RepeatRule {
    type Err = UnknownRule;
    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.as_str() == text);
        found.ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

/// Identifies a step of a task: its name and occurrence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepKey {
    /// The step's name.
    pub name: StepName,
    /// 1 for the first occurrence of the name, 2 for the second …
    pub occurrence: u32,
}

impl StepKey {
    /// The first step of that name.
    pub fn first(name: StepName) -> Self {
        Self {
            name,
            occurrence: 1,
        }
    }

    /// The idempotency key, which is the same for all tries of the step.
    pub fn idempotency_key(&self, task: &TaskId) -> String {
        let mut hash = blake3::Hasher::new_derive_key("relight 2026 step idempotency key");
        for part in [task.as_str(), self.name.as_str()] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(&self.occurrence.to_le_bytes());
        format!("rl-{}", &hash.finalize().to_hex()[..40])
    }
}

impl fmt::Display for StepKey {
    /// The name; from the second occurrence on with its number: `fetch`, `fetch#2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.occurrence {
            1 => write!(f, "{}", self.name),
            n => write!(f, "{}#{n}", self.name),
        }
    }
}

/// Maximum size of an output that is kept completely.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes kept of each end of a longer output.
const OUTPUT_BYTES_EACH_END: usize = 256 << 10;

/// The output of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// The exit code of a command; 0 for a value from the library.
    pub exit_code: i32,
    /// Standard output, or the library's value as JSON; the two ends when `cut` is set.
    #[serde(with = "body")]
    pub body: Vec<u8>,
    /// The end of standard error, for people.
    pub stderr: String,
    /// Set when the body was over the limit.
    pub cut: Option<Cut>,
    /// Whether secrets were redacted.
    pub redacted: bool,
}

/// Serializes a body as text if it is UTF-8, otherwise as base64.
mod body {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum EncodedBytes {
        Text(String),
        Base64(String),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let written = match std::str::from_utf8(bytes) {
            Ok(text) => EncodedBytes::Text(text.to_owned()),
            Err(_) => EncodedBytes::Base64(STANDARD.encode(bytes)),
        };
        written.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        match EncodedBytes::deserialize(from)? {
            EncodedBytes::Text(text) => Ok(text.into_bytes()),
            EncodedBytes::Base64(text) => STANDARD.decode(text).map_err(D::Error::custom),
        }
    }
}

/// Describes an output that was too long to keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Its whole length in bytes.
    pub bytes: u64,
    /// Hash of the whole output: `blake3:` and 64 hex digits.
    pub hash: String,
    /// How many bytes of the body are its head; the rest is its tail.
    pub head_bytes: u64,
}

impl Output {
    /// Keeps a body up to the limit, otherwise its head, tail and hash.
    pub fn keep(exit_code: i32, body: Vec<u8>) -> Self {
        if body.len() <= OUTPUT_BYTES_MAX {
            return Self {
                exit_code,
                body,
                ..Self::default()
            };
        }
        let mut kept = KeptBytes::default();
        kept.push(&body);
        kept.into_output(exit_code)
    }
}

/// Collects an `Output` from a stream in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct KeptBytes {
    /// Everything up to the limit; from then on the head.
    body: Vec<u8>,
    /// At most twice the tail; empty up to the limit.
    tail: Vec<u8>,
    bytes: u64,
    hash: blake3::Hasher,
}

impl KeptBytes {
    /// Adds the next part.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.hash.update(part);
        if self.is_whole() && self.body.len() + part.len() <= OUTPUT_BYTES_MAX {
            self.body.extend_from_slice(part);
            return;
        }
        if self.is_whole() {
            self.body.extend_from_slice(part);
            self.tail = self.body[self.body.len() - OUTPUT_BYTES_EACH_END..].to_vec();
            self.body.truncate(OUTPUT_BYTES_EACH_END);
            return;
        }
        let last = &part[part.len().saturating_sub(OUTPUT_BYTES_EACH_END)..];
        self.tail.extend_from_slice(last);
        if self.tail.len() > 2 * OUTPUT_BYTES_EACH_END {
            self.tail.drain(..self.tail.len() - OUTPUT_BYTES_EACH_END);
        }
    }

    /// The collected output.
    pub fn into_output(mut self, exit_code: i32) -> Output {
        if self.is_whole() {
            return Output {
                exit_code,
                body: self.body,
                ..Output::default()
            };
        }
        let extra = self.tail.len() - OUTPUT_BYTES_EACH_END;
        let tail = from_a_line(&self.tail[extra..]);
        self.body.truncate(to_a_line(&self.body).len());
        let cut = Cut {
            bytes: self.bytes,
            hash: format!("blake3:{}", self.hash.finalize().to_hex()),
            head_bytes: self.body.len() as u64,
        };
        self.body.extend_from_slice(tail);
        Output {
            exit_code,
            body: self.body,
            cut: Some(cut),
            ..Output::default()
        }
    }

    fn is_whole(&self) -> bool {
        self.tail.is_empty()
    }
}

/// Search range for a line end near a cut. A secret cut in two would not be recognised.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Cuts at the last complete line, if one ends near.
fn to_a_line(head: &[u8]) -> &[u8] {
    let near = head.len().saturating_sub(LINE_BYTES_MAX);
    match head[near..].iter().rposition(|byte| *byte == b'\n') {
        Some(at) => &head[..=near + at],
        None => head,
    }
}

/// Cuts before the first complete line, if one begins near.
pub fn from_a_line(tail: &[u8]) -> &[u8] {
    let near = tail.len().min(LINE_BYTES_MAX);
    match tail[..near].iter().position(|byte| *byte == b'\n') {
        Some(at) => &tail[at + 1..],
        None => tail,
    }
}

/// How a try of a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// Finished; never run again.
    Done,
    /// Known to have failed; may be run again.
    Failed,
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Begun and not ended; in doubt if nobody runs it.
    Begun,
    /// Finished.
    Done,
    /// Its last try failed, or a person resolved it as not done.
    Failed,
    /// Closed on purpose without being done.
    Skipped,
}

impl StepState {
    /// Whether it is finished or skipped.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }

    /// Its name in JSON, SQL and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The record of a step, without its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Which step.
    #[serde(flatten)]
    pub key: StepKey,
    /// Its state.
    pub state: StepState,
    /// The rule recorded at its begin.
    pub rule: RepeatRule,
    /// How often it was tried.
    pub tries: u32,
    /// The fence of its writer.
    pub fence: Fence,
    /// When it was begun or ended.
    pub at: Time,
    /// The exit code of its end.
    pub exit_code: Option<i32>,
    /// A hash of its input, where one was given.
    pub fingerprint: Option<u64>,
    /// Set for a tool call that hooks observed; empty once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
}

/// A tool call of an agent, as hooks observed it. Relight neither runs nor prevents it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments on one line, redacted and shortened.
    pub arguments: String,
    /// The file that it writes. The file's hash tells afterwards whether it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<WrittenFile>,
}

/// A file that a call writes, with hashes of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Absolute.
    pub path: String,
    /// Before the call; none when there was no file.
    pub before: Option<String>,
    /// After the call, where the arguments tell.
    pub after: Option<String>,
}

impl WrittenFile {
    /// Whether it was written, by its hash now; none when nobody can tell.
    pub fn was_written(&self, now: Option<&str>) -> Option<bool> {
        if self.after.is_some() && self.after.as_deref() == now {
            return Some(true);
        }
        if self.before.as_deref() == now {
            return Some(false);
        }
        // It was changed, and only this call is known to change it; unless its result is known.
        self.after.is_none().then_some(true)
    }
}

/// Set in the stored number of a rule for a call that hooks observed.
const OBSERVED: u8 = 16;

/// The number by which stores keep the rule of a step, and whether it is an observed call.
pub fn rule_code(rule: RepeatRule, is_call: bool) -> u8 {
    rule.code() | if is_call { OBSERVED } else { 0 }
}

/// Reads such a number.
pub fn rule_from_code(code: u8) -> Option<(RepeatRule, bool)> {
    Some((
        RepeatRule::from_code(code & !OBSERVED)?,
        code & OBSERVED != 0,
    ))
}

impl Step {
    /// Begun and not ended.
    pub fn is_open(&self) -> bool {
        self.state == StepState::Begun
    }

    /// In doubt as soon as nobody is at it, and only a person may decide whether it happened. An observed
    /// call is never work to do.
    pub fn waits_for_person(&self) -> bool {
        self.is_open() && self.rule == RepeatRule::Once && self.call.is_none()
    }

    /// Begun under this lease, so that its holder may be at it. One begun without a fence counts as
    /// its holder's, unless that took the lease later.
    pub fn is_of_lease(&self, lease: &Lease) -> bool {
        let began_before = lease.held.as_ref().is_some_and(|held| self.at < held.since);
        self.fence == lease.fence || (self.fence == Fence::default() && !began_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(task: &str, step: &str, occurrence: u32) -> String {
        let name = StepName::new(step).unwrap();
        StepKey { name, occurrence }.idempotency_key(&TaskId::new(task).unwrap())
    }

    #[test]
    fn an_idempotency_key_depends_on_task_step_and_occurrence_alone() {
        assert_eq!(key("a", "b", 1), key("a", "b", 1));
        let all = [
            key("a", "b", 1),
            key("a", "b", 2),
            key("a", "c", 1),
            key("ab", "b", 1),
            key("a", "bb", 1),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one));
        }
        insta::assert_snapshot!(key("deploy", "push", 1), @"rl-46f26ea9f8a68e6503a66c38c03e38033a12205f");
    }

    #[test]
    fn a_long_output_keeps_head_tail_and_hash() {
        let mut body = vec![b'x'; OUTPUT_BYTES_MAX + 1];
        body[0] = b'H';
        *body.last_mut().unwrap() = b'T';
        let output = Output::keep(0, body.clone());
        let cut = output.cut.unwrap();
        assert_eq!(
            (cut.bytes, output.body.len()),
            (body.len() as u64, 2 * OUTPUT_BYTES_EACH_END)
        );
        assert_eq!((output.body[0], output.body.last()), (b'H', Some(&b'T')));
        assert_eq!(cut.hash, format!("blake3:{}", blake3::hash(&body).to_hex()));
        assert_eq!(Output::keep(0, vec![b'x'; OUTPUT_BYTES_MAX]).cut, None);
    }

    #[test]
    fn a_stream_in_parts_is_kept_as_if_it_came_at_once() {
        let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        for part_bytes in [1 << 10, 65_536, 700_001] {
            for length in [0, OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX + 1, body.len()] {
                let mut kept = KeptBytes::default();
                body[..length]
                    .chunks(part_bytes)
                    .for_each(|part| kept.push(part));
                assert!(kept.body.len() + kept.tail.len() <= 2 * OUTPUT_BYTES_MAX);
                assert_eq!(
                    kept.into_output(3),
                    Output::keep(3, body[..length].to_vec())
                );
            }
        }
    }

    #[test]
    fn rules_go_both_ways() {
        for rule in RepeatRule::ALL {
            assert_eq!(rule.as_str().parse(), Ok(rule));
            assert_eq!(RepeatRule::from_code(rule.code()), Some(rule));
            for is_call in [false, true] {
                assert_eq!(
                    rule_from_code(rule_code(rule, is_call)),
                    Some((rule, is_call))
                );
            }
        }
        assert!("twice".parse::<RepeatRule>().is_err());
    }
}
