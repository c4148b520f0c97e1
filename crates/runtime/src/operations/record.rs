//! Named records of programs: small JSON documents that adapters of other frameworks keep in the store.
//!
//! A record belongs to nobody and has no lease: the last write wins, or the one that saw the value it
//! replaces. Records are not part of the journal.

use relight_redact::Redactor;
use relight_store::KeptRange;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Context, LIST_MAX, invalid, page_limit};
use crate::boxed::boxed;
use crate::engine::ActError;
use crate::redact_input::check_record_name;

/// What the names of these records start with in the store; the others are Relight's own.
pub const PREFIX: &str = "record/";
/// Sorts after every character that a name may have.
const LAST: char = char::MAX;
/// Sorts before every character that a name may have.
const FIRST: char = '\u{1}';
/// The longest name.
const NAME_BYTES_MAX: usize = 2_048;
/// Tries of an unconditional write that meets others.
const TRIES_MAX: u32 = 100;

/// Whether it holds only records of programs.
pub fn is_of_programs(range: &KeptRange) -> bool {
    range.from.starts_with(PREFIX) && range.to.starts_with(PREFIX)
}

/// A record to write.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordPut {
    /// Its name.
    pub record: String,
    /// What it holds from now on. Texts under a key `base64` are binary data and are not redacted.
    pub value: Option<Value>,
    /// Only if it holds this now.
    pub expected: Option<Value>,
    /// Only if it does not exist.
    #[serde(default)]
    pub new: bool,
}

/// Whether a record was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordWritten {
    /// Its name.
    pub record: String,
    /// False when it holds something else than was expected.
    pub written: bool,
}

impl RecordPut {
    /// Writes it. On disk when it returns.
    #[boxed]
    pub async fn run(self, context: &Context) -> Result<RecordWritten, ActError> {
        let (engine, name) = (&context.engine, stored_name(&self.record)?);
        let mut value = self.value.ok_or_else(|| {
            invalid("value: null is no value of a record; record.remove removes one")
        })?;
        let redactor = engine.redactor();
        check_record_name(redactor, &self.record)?;
        redact(redactor, &mut value);
        let store = engine.store();
        let is_conditional = self.new || self.expected.is_some();
        let mut before = self.expected;
        // As it was written.
        before.iter_mut().for_each(|value| redact(redactor, value));
        let mut written = false;
        for _ in 0..TRIES_MAX {
            written = store.keep(&name, before, value.clone()).await?;
            if written || is_conditional {
                break;
            }
            before = store.kept(&name).await?;
        }
        Ok(RecordWritten {
            record: self.record,
            written,
        })
    }
}

/// A record to read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordGet {
    /// Its name.
    pub record: String,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Its name.
    pub record: String,
    /// What it holds; null when it does not exist.
    pub value: Value,
}

impl RecordGet {
    /// Reads it.
    #[boxed]
    pub async fn run(self, context: &Context) -> Result<Record, ActError> {
        let value = context
            .engine
            .store()
            .kept(&stored_name(&self.record)?)
            .await?;
        Ok(Record {
            record: self.record,
            value: value.unwrap_or_default(),
        })
    }
}

/// Records to list, in the order of their names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordList {
    /// Only those whose names start with this.
    #[serde(default)]
    pub under: String,
    /// From the last name to the first.
    #[serde(default)]
    pub descending: bool,
    /// Continues after this one.
    pub after: Option<String>,
    /// At most so many, 1 to 1000; 1000 when none.
    pub limit: Option<usize>,
}

/// Some of the records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordPage {
    /// These.
    pub items: Vec<Record>,
    /// What `after` is for the next ones; none when these are all.
    pub next: Option<String>,
}

impl RecordList {
    /// Lists them.
    #[boxed]
    pub async fn run(self, context: &Context) -> Result<RecordPage, ActError> {
        let limit = page_limit(Some(self.limit.unwrap_or(LIST_MAX)))?;
        let mut range = under(&self.under)?;
        (range.descending, range.limit) = (self.descending, Some(limit + 1));
        match self.after.as_deref().map(stored_name).transpose()? {
            Some(after) if self.descending => range.to = after.min(range.to),
            Some(after) => range.from = format!("{after}{FIRST}").max(range.from),
            None => {}
        }
        let mut found = context.engine.store().kept_in(range).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let items: Vec<_> = found
            .into_iter()
            .map(|(name, value)| Record {
                record: name.strip_prefix(PREFIX).unwrap_or(&name).to_owned(),
                value,
            })
            .collect();
        let last = items.last().filter(|_| has_more);
        Ok(RecordPage {
            next: last.map(|item| item.record.clone()),
            items,
        })
    }
}

/// Records to remove: one by its name, or all under a prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRemove {
    /// The name of one.
    pub record: Option<String>,
    /// All whose names start with this.
    pub under: Option<String>,
}

/// How many records were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordsRemoved {
    /// How many.
    pub removed: u64,
}

impl RecordRemove {
    /// Removes them.
    #[boxed]
    pub async fn run(self, context: &Context) -> Result<RecordsRemoved, ActError> {
        let range = match (self.record, self.under) {
            (Some(name), None) => {
                let from = stored_name(&name)?;
                let to = format!("{from}{FIRST}");
                KeptRange {
                    from,
                    to,
                    descending: false,
                    limit: None,
                }
            }
            (None, Some(prefix)) if !prefix.is_empty() => under(&prefix)?,
            _ => return Err(invalid("name one record, or what their names start with")),
        };
        let removed = context.engine.store().forget_kept(range).await?;
        Ok(RecordsRemoved { removed })
    }
}

fn under(prefix: &str) -> Result<KeptRange, ActError> {
    let from = match prefix {
        "" => PREFIX.to_owned(),
        prefix => stored_name(prefix)?,
    };
    Ok(KeptRange {
        to: format!("{from}{LAST}"),
        from,
        descending: false,
        limit: None,
    })
}

fn stored_name(name: &str) -> Result<String, ActError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let text = format!("the name of a record has 1 to {NAME_BYTES_MAX} bytes");
        return Err(invalid(text));
    }
    if name.contains(|letter: char| letter.is_control() || letter == LAST) {
        return Err(invalid("the name of a record has no control characters"));
    }
    Ok(format!("{PREFIX}{name}"))
}

/// Redacts what is text. A mark in the middle of binary data would make all of it unreadable.
fn redact(redactor: &Redactor, value: &mut Value) {
    let mut binary = Vec::new();
    take_binary(value, &mut binary);
    redactor.json(value);
    binary.reverse();
    put_binary(value, &mut binary);
}

fn take_binary(value: &mut Value, taken: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| take_binary(item, taken)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if key == "base64" {
                    taken.push(field.take());
                } else {
                    take_binary(field, taken);
                }
            }
        }
        _ => {}
    }
}

fn put_binary(value: &mut Value, taken: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| put_binary(item, taken)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if key == "base64" {
                    *field = taken.pop().unwrap_or_default();
                } else {
                    put_binary(field, taken);
                }
            }
        }
        _ => {}
    }
}
