//! `checkpointHash`: what exactly is hashed, and how.
//!
//! The hash is `"sha256:"` and the lower-case hex SHA-256 of the document's canonical JSON, taken
//! without its top-level `checkpointHash` member. Canonical JSON is UTF-8 with
//!
//! - the members of every object sorted by the code points of their keys,
//! - no white space outside strings,
//! - whole numbers in plain decimal; others in the shortest form that reads back the same, with a
//!   `.0` where nothing else tells them from whole ones (no checkpoint that Relight writes has one),
//! - in strings only `"`, `\` and the control characters below U+0020 escaped: `\"`, `\\`, `\b`,
//!   `\t`, `\n`, `\f`, `\r`, else `\u00` and two lower-case hex digits.
//!
//! Files of other writers may carry the hash of the same text in pure ASCII, where every character
//! outside U+0020 to U+007E is written as `\uXXXX` (UTF-16, lower-case hex): that is what Python's
//! `json.dumps` writes without `ensure_ascii=False`. Both hashes are accepted.
//!
//! Anybody can check a file; in Python:
//!
//! ```python
//! import hashlib, json, sys
//! document = json.load(open(sys.argv[1], encoding="utf-8"))
//! claimed = document.pop("checkpointHash")
//! def digest(ascii):
//!     canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii)
//!     return hashlib.sha256(canonical.encode("utf-8")).hexdigest()
//! good = claimed.removeprefix("sha256:") in (digest(False), digest(True))
//! print("good" if good else "damaged")
//! ```

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::json_value::{JsonValue, Members};

/// The member that holds the hash and is not covered by it.
pub(crate) const HASH_FIELD: &str = "checkpointHash";

const PREFIX: &str = "sha256:";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The hash of a document, its own `checkpointHash` left out.
pub fn content_hash(document: &Map<String, Value>) -> String {
    hash_of(&canonical_document(&Members::from(document)))
}

/// Any value as canonical JSON, as `checkpointHash` is taken of it.
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut canonical = Vec::new();
    write_node(&JsonValue::from(value), &mut canonical);
    canonical
}

/// Checks a hash found in a file against the document in either form, with or without the prefix;
/// the error is the hash that was expected.
pub(super) fn check_hash(document: &Members<'_>, found: &str) -> Result<(), String> {
    let is_same = |hash: &str| hash == found || hash.strip_prefix(PREFIX) == Some(found);
    let canonical = canonical_document(document);
    let expected = hash_of(&canonical);
    if is_same(&expected) || is_same(&hash_of(&in_ascii(&canonical))) {
        return Ok(());
    }
    Err(expected)
}

/// Whether Relight wrote a hash, which always has the prefix; the original script writes bare hex.
pub(super) fn is_own_form(found: &str) -> bool {
    found.starts_with(PREFIX)
}

fn canonical_document(document: &Members<'_>) -> Vec<u8> {
    let mut canonical = Vec::with_capacity(1024);
    write_members(
        document.iter().filter(|(key, _)| *key != HASH_FIELD),
        &mut canonical,
    );
    canonical
}

fn hash_of(canonical: &[u8]) -> String {
    let mut text = String::with_capacity(PREFIX.len() + 64);
    text.push_str(PREFIX);
    for byte in Sha256::digest(canonical) {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// The same JSON in pure ASCII. Only strings hold characters that change.
fn in_ascii(canonical: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(canonical).expect("canonical JSON is UTF-8");
    let mut ascii = String::with_capacity(canonical.len());
    for c in text.chars() {
        if (' '..='~').contains(&c) {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(ascii, "\\u{unit:04x}").expect("writing to memory cannot fail");
            }
        }
    }
    ascii.into_bytes()
}

fn write_node(node: &JsonValue<'_>, out: &mut Vec<u8>) {
    match node {
        JsonValue::Null => out.extend_from_slice(b"null"),
        JsonValue::Bool(value) => write_scalar(value, out),
        JsonValue::Number(number) => write_scalar(number, out),
        JsonValue::Text(text) => write_scalar(text, out),
        JsonValue::Array(items) => write_array(items, out),
        JsonValue::Object(members) => write_members(members.iter(), out),
    }
}

/// Writes an object; [`Members`] are sorted already.
fn write_members<'a>(
    members: impl Iterator<Item = (&'a str, &'a JsonValue<'a>)>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_scalar(key, out);
        out.push(b':');
        write_node(value, out);
    }
    out.push(b'}');
}

fn write_array(items: &[JsonValue<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_node(item, out);
    }
    out.push(b']');
}

fn write_scalar(scalar: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, scalar).expect("writing a scalar to memory cannot fail");
}
