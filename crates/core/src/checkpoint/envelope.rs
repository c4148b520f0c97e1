//! Seals a checkpoint into the bytes of its file, and opens such bytes again.

use serde_json::{Map, Value};

use super::document::Checkpoint;
use super::hash::{self, HASH_FIELD, content_hash};
use super::json_value::{JsonValue, Members};
use super::schema::SchemaVersion;
use super::strict::{Limits, StrictError, excerpt, parse_borrowed};

/// Why some bytes are not a good checkpoint; the text is a short reason for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Not one strict JSON document: empty, zero-filled, torn …
    #[error(transparent)]
    Json(#[from] StrictError),
    /// Not a checkpoint of any version that there ever was.
    #[error("not a checkpoint: schemaVersion is {found:?}")]
    WrongSchema {
        /// What stands there, cut to a readable length.
        found: String,
    },
    /// Not a checkpoint at all: no object with a `schemaVersion`.
    #[error("not a checkpoint: no schemaVersion")]
    NoSchema,
    /// A checkpoint of a later major version.
    #[error("schemaVersion {found:?} is newer than this Relight understands")]
    NewerSchema {
        /// What stands there, cut to a readable length.
        found: String,
    },
    /// The hash does not fit the content: it was changed after it was sealed.
    #[error("checkpointHash does not fit: {expected:?} expected, {found:?} found")]
    WrongHash {
        /// The hash of the content.
        expected: String,
        /// The hash in the file, cut to a readable length.
        found: String,
    },
    /// A member that every checkpoint has is absent; a missing hash is one of these.
    #[error("{field} is missing")]
    MissingField {
        /// Its name.
        field: &'static str,
    },
    /// A member holds the wrong kind of thing.
    #[error("{field} is not {expected}")]
    BadField {
        /// Its name.
        field: &'static str,
        /// What should be there.
        expected: &'static str,
    },
}

impl Checkpoint {
    /// The members of its file, with the hash filled in.
    pub fn sealed_members(&self) -> Map<String, Value> {
        let mut members = match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            other => unreachable!("a checkpoint always becomes an object, not {other:?}"),
        };
        let hash = content_hash(&members);
        members.insert(HASH_FIELD.to_owned(), Value::String(hash));
        members
    }

    /// The bytes of its file: JSON for people and programs, with the hash filled in.
    ///
    /// A document larger than [`Limits::CHECKPOINT`] is sealed all the same, but cannot be opened.
    pub fn seal(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.sealed_members())
            .expect("writing JSON to memory cannot fail");
        bytes.push(b'\n');
        bytes
    }

    /// Reads and verifies the bytes of a checkpoint file.
    ///
    /// The schema is judged before the hash, since a later version may hash something else.
    pub fn open(bytes: &[u8]) -> Result<Self, Damage> {
        let JsonValue::Object(mut members) = parse_borrowed(bytes, Limits::CHECKPOINT)? else {
            return Err(Damage::NoSchema);
        };
        check_schema(&members)?;
        let foreign = !hash::is_own_form(check_hash(&members)?);
        members.take(HASH_FIELD);
        let checkpoint = Checkpoint::from_members(members)?;
        Ok(Checkpoint {
            foreign,
            ..checkpoint
        })
    }
}

fn check_schema(members: &Members<'_>) -> Result<(), Damage> {
    match members.get("schemaVersion") {
        Some(JsonValue::Text(text)) => SchemaVersion::read(text).map(|_| ()),
        _ => Err(Damage::NoSchema),
    }
}

fn check_hash<'a>(members: &'a Members<'_>) -> Result<&'a str, Damage> {
    let found = match members.get(HASH_FIELD) {
        Some(JsonValue::Text(found)) => found,
        Some(_) => {
            return Err(Damage::BadField {
                field: HASH_FIELD,
                expected: "text",
            });
        }
        None => return Err(Damage::MissingField { field: HASH_FIELD }),
    };
    match hash::check_hash(members, found) {
        Ok(()) => Ok(found),
        Err(expected) => Err(Damage::WrongHash {
            expected,
            found: excerpt(found),
        }),
    }
}
