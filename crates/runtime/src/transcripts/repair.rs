//! Finds what a crash did to a transcript, and makes one that its program resumes. Pure.
//!
//! Whole records are kept as they are, byte for byte. The rest is cut: the end of a line that was being
//! written, NUL bytes of a file system that had no data yet, a record that was written twice, a result whose
//! call was cut. Where records name the one before them, the chain is closed again over what was cut. A call
//! without a result gets one that says that its outcome is unknown, so that the model sees the call.

use std::borrow::Cow;
use std::collections::HashSet;

use relight_core::time::Time;
use serde::Serialize;
use serde_json::Value;

use super::formats::{CallAnswer, Format, PARENT, Shape, TranscriptCall};

/// What the model is told in place of a result.
const IN_DOUBT: &str = "Interrupted: the agent was killed before the result of this call was recorded. \
     It may or may not have happened. Check before repeating it.";
/// How many records tell the format.
const DETECT_RECORDS_MAX: usize = 200;
/// How many places in a broken line are tried as the beginning of a whole record.
const SALVAGE_TRIES_MAX: usize = 200;

/// What is wrong at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The line, from 1.
    pub line: u64,
    /// The position in the file.
    pub offset: u64,
    /// How much a repair cuts there.
    pub bytes: u64,
    /// The name of the tool, for a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The last line has no end: its record, or only its newline, was not written.
    TornTail,
    /// A line that is not a record.
    BrokenLine,
    /// NUL bytes.
    NulBytes,
    /// A record that is there already.
    DuplicateId,
    /// A record whose parent was cut.
    LostParent,
    /// A result whose call was cut.
    LostCall,
    /// A call without a result.
    OpenCall,
}

impl FindingKind {
    /// What it is, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::TornTail => "the last line was not written to its end",
            Self::BrokenLine => "not a whole record",
            Self::NulBytes => "NUL bytes",
            Self::DuplicateId => "a record that is there already",
            Self::LostParent => "its parent record is lost",
            Self::LostCall => "a result whose call is lost",
            Self::OpenCall => "a call without a result: in doubt",
        }
    }
}

/// A call without a result: it may or may not have happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenCall {
    /// Its id in the transcript.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

impl From<TranscriptCall> for OpenCall {
    /// Some programs write the arguments as text that holds JSON.
    fn from(call: TranscriptCall) -> Self {
        let inside = call
            .arguments
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        Self {
            id: call.id,
            name: call.name,
            arguments: inside.unwrap_or(call.arguments),
        }
    }
}

/// What was found in a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// Everything that is wrong, in the order of the file.
    pub findings: Vec<Finding>,
    /// Calls after the last prompt that have no result.
    pub open_calls: Vec<OpenCall>,
    /// What can be done about it.
    pub remedy: Remedy,
}

/// What can be done about a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is wrong.
    None,
    /// This content in its place.
    Replace(Vec<u8>),
    /// The program cannot resume what is left, for this reason.
    Impossible(&'static str),
}

impl Format {
    /// The format of a transcript; none when no record of it has a sign of one.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(object);
        let records: Vec<Value> = lines.take(DETECT_RECORDS_MAX).collect();
        let count = |format: &Self| {
            records
                .iter()
                .filter(|record| format.shape().has_sign(record))
                .count()
        };
        let best = Self::ALL.into_iter().rev().max_by_key(count);
        best.filter(|format| count(format) > 0)
    }
}

/// Looks at a whole transcript. `now` is the time of what a repair adds.
pub fn examine(format: Format, bytes: &[u8], now: Time) -> Examination {
    let mut scan = Scan::new(format.shape());
    let mut offset = 0;
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        scan.line(
            Place {
                line: at as u64 + 1,
                offset,
            },
            line,
        );
        offset += line.len();
    }
    scan.close_chain();
    let answers = scan.answers(now);
    let open_calls = scan
        .open
        .into_iter()
        .map(|open| OpenCall::from(open.call))
        .collect();
    let is_headless = scan.shape.header.is_some() && !scan.has_header;
    let remedy = match (scan.kept.is_empty(), is_headless) {
        (true, _) => Remedy::Impossible("it holds no record"),
        (false, true) => Remedy::Impossible("the record that it must begin with is lost"),
        (false, false) if scan.findings.is_empty() => Remedy::None,
        (false, false) => {
            let lines = scan.kept.iter().map(|kept| &*kept.text);
            let lines = lines.chain(answers.iter().map(Vec::as_slice));
            Remedy::Replace(
                lines
                    .flat_map(|line| [line, b"\n".as_slice()])
                    .flatten()
                    .copied()
                    .collect(),
            )
        }
    };
    let mut findings = scan.findings;
    findings.sort_by_key(|finding| finding.offset);
    Examination {
        findings,
        open_calls,
        remedy,
    }
}

#[derive(Clone, Copy)]
struct Place {
    line: u64,
    offset: usize,
}

impl Place {
    fn plus(self, bytes: usize) -> Self {
        Self {
            offset: self.offset + bytes,
            ..self
        }
    }

    fn finding(self, kind: FindingKind, bytes: usize) -> Finding {
        let (line, offset, bytes) = (self.line, self.offset as u64, bytes as u64);
        Finding {
            kind,
            line,
            offset,
            bytes,
            tool: None,
        }
    }
}

/// A record that stays.
struct Kept<'a> {
    text: Cow<'a, [u8]>,
    place: Place,
    id: Option<String>,
    parent: Option<String>,
}

/// A call that has no result yet, with its record.
struct Open {
    call: TranscriptCall,
    record: Value,
    place: Place,
}

struct Scan<'a> {
    shape: &'static Shape,
    kept: Vec<Kept<'a>>,
    findings: Vec<Finding>,
    has_header: bool,
    seen: HashSet<Cow<'a, [u8]>>,
    called: HashSet<String>,
    answered: HashSet<String>,
    open: Vec<Open>,
    last: Value,
    /// How many records were kept before the first cut.
    kept_before_cut: Option<usize>,
}

impl<'a> Scan<'a> {
    fn new(shape: &'static Shape) -> Self {
        Self {
            shape,
            kept: Vec::new(),
            findings: Vec::new(),
            has_header: false,
            seen: HashSet::new(),
            called: HashSet::new(),
            answered: HashSet::new(),
            open: Vec::new(),
            last: Value::Null,
            kept_before_cut: None,
        }
    }

    fn line(&mut self, place: Place, line: &'a [u8]) {
        let body = line.strip_suffix(b"\n");
        let is_torn = body.is_none();
        let body = body.unwrap_or(line);
        let broken = if is_torn {
            FindingKind::TornTail
        } else {
            FindingKind::BrokenLine
        };
        let nul_bytes = memchr::memchr_iter(0, body).count();
        if nul_bytes > 0 {
            let first = memchr::memchr(0, body).unwrap_or_default();
            self.cut(place.plus(first).finding(FindingKind::NulBytes, nul_bytes));
        }
        let found_before = self.findings.len();
        let mut start = 0;
        for piece in body.split(|byte| *byte == 0) {
            self.piece(place.plus(start), piece, broken);
            start += piece.len() + 1;
        }
        let is_whole = self.findings.len() == found_before && nul_bytes == 0;
        if is_torn && is_whole && !is_blank(body) {
            self.findings
                .push(place.plus(body.len()).finding(FindingKind::TornTail, 0));
        }
    }

    /// A record, or a piece of one, perhaps with a whole record after it: a program that resumes on a
    /// torn line continues on that line.
    fn piece(&mut self, place: Place, piece: &'a [u8], broken: FindingKind) {
        if is_blank(piece) {
            return;
        }
        if let Some(value) = object(piece) {
            return self.record(place, piece, value);
        }
        match self.salvage(piece) {
            Some((start, value)) => {
                self.cut(place.finding(broken, start));
                self.record(place.plus(start), &piece[start..], value);
            }
            None => self.cut(place.finding(broken, piece.len())),
        }
    }

    fn salvage(&self, piece: &[u8]) -> Option<(usize, Value)> {
        let starts = memchr::memmem::find_iter(piece, b"{\"").filter(|start| *start > 0);
        let whole = |start: usize| Some((start, object(&piece[start..])?));
        let mut found = starts.take(SALVAGE_TRIES_MAX).filter_map(whole);
        found.find(|(_, value)| self.shape.is_record(value))
    }

    fn cut(&mut self, finding: Finding) {
        self.kept_before_cut.get_or_insert(self.kept.len());
        self.findings.push(finding);
    }

    fn record(&mut self, place: Place, text: &'a [u8], value: Value) {
        let calls = self.shape.calls(&value);
        let results: Vec<String> = self.shape.results(&value).map(str::to_owned).collect();
        if self.is_duplicate(text, &value, &calls, &results) {
            return self.cut(place.finding(FindingKind::DuplicateId, text.len()));
        }
        self.called.extend(calls.iter().map(|call| call.id.clone()));
        // Models refuse a conversation with such a result. What the record answers otherwise is open again.
        let has_lost_call = results.iter().any(|id| !self.called.contains(id));
        if has_lost_call && self.kept_before_cut.is_some() {
            return self.cut(place.finding(FindingKind::LostCall, text.len()));
        }
        if self.kept.is_empty() {
            self.has_header = self
                .shape
                .header
                .as_ref()
                .is_some_and(|header| header.holds(&value));
        }
        if self.shape.is_prompt(&value) {
            self.open.clear();
        }
        self.open.retain(|open| !results.contains(&open.call.id));
        self.answered.extend(results);
        for call in calls {
            let is_known = self.open.iter().any(|open| open.call.id == call.id);
            if !is_known && !self.answered.contains(&call.id) {
                self.open.push(Open {
                    call,
                    record: value.clone(),
                    place,
                });
            }
        }
        let id = self.shape.id(&value).map(str::to_owned);
        let parent = self.shape.parent(&value).map(str::to_owned);
        self.kept.push(Kept {
            text: Cow::Borrowed(text),
            place,
            id,
            parent,
        });
        self.last = value;
    }

    /// Records of a chain are the same when every byte is; calls and results, when their ids are.
    fn is_duplicate(
        &mut self,
        text: &'a [u8],
        value: &Value,
        calls: &[TranscriptCall],
        results: &[String],
    ) -> bool {
        let key = |kind: &str, id: &str| Cow::Owned(format!("{kind} {id}").into_bytes());
        let identity = match (calls, results) {
            _ if self.shape.is_linked => self.shape.id(value).map(|_| Cow::Borrowed(text)),
            ([call], []) if self.shape.has_call_records() => Some(key("call", &call.id)),
            ([], [id]) if self.shape.has_call_records() => Some(key("result", id)),
            _ => None,
        };
        identity.is_some_and(|identity| !self.seen.insert(identity))
    }

    /// Records behind a cut whose parent is gone get the record before them as their parent.
    fn close_chain(&mut self) {
        let Some(first) = self.kept_before_cut else {
            return;
        };
        let ids: HashSet<String> = self
            .kept
            .iter()
            .filter_map(|kept| kept.id.clone())
            .collect();
        let mut before: Option<String> = None;
        for (at, kept) in self.kept.iter_mut().enumerate() {
            let lost = kept
                .parent
                .as_deref()
                .filter(|parent| at >= first && !ids.contains(*parent));
            if let (Some(lost), Some(before)) = (lost, &before)
                && let Some(text) = with_parent(&kept.text, lost, before)
            {
                self.findings
                    .push(kept.place.finding(FindingKind::LostParent, 0));
                kept.text = Cow::Owned(text);
            }
            before = kept.id.clone().or(before);
        }
    }

    /// The lines that answer the open calls.
    fn answers(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut last_id = self.kept.iter().rev().find_map(|kept| kept.id.clone());
        let mut last = self.last.clone();
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for Open {
            call,
            record,
            place,
        } in &self.open
        {
            let new_id = id_for(&call.id);
            let answer = (self.shape.answer)(&CallAnswer {
                call_record: record,
                call,
                last: &last,
                last_id: last_id.as_deref(),
                new_id: &new_id,
                text: IN_DOUBT,
                now,
            });
            let line = serde_json::to_vec(&answer).expect("a JSON value has string keys");
            if lines.last() != Some(&line) {
                lines.push(line);
            }
            (last, last_id) = (answer, Some(new_id));
            let tool = Some(call.name.clone());
            self.findings.push(Finding {
                tool,
                ..place.finding(FindingKind::OpenCall, 0)
            });
        }
        lines
    }
}

fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii().is_empty()
}

/// The JSON object that these bytes are.
fn object(text: &[u8]) -> Option<Value> {
    let is_object = text.trim_ascii_start().first() == Some(&b'{');
    if is_object {
        serde_json::from_slice(text).ok()
    } else {
        None
    }
}

/// The record with another parent; every other byte stays.
fn with_parent(text: &[u8], lost: &str, parent: &str) -> Option<Vec<u8>> {
    let member = |id: &str| format!("{:?}:{}", PARENT, Value::from(id)).into_bytes();
    let (old, new) = (member(lost), member(parent));
    let at = memchr::memmem::find(text, &old)?;
    let changed = [&text[..at], &new, &text[at + old.len()..]].concat();
    let now = object(&changed)?;
    (now.get(PARENT).and_then(Value::as_str) == Some(parent)).then_some(changed)
}

/// The id of the record that answers a call; the same each time.
fn id_for(call: &str) -> String {
    let hash = blake3::hash(call.as_bytes());
    let bytes: [u8; 16] = std::array::from_fn(|at| hash.as_bytes()[at]);
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}
