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
//! Anybody can check a file; in Python:
//!
//! ```python
//! import hashlib, json, sys
//! document = json.load(open(sys.argv[1], encoding="utf-8"))
//! claimed = document.pop("checkpointHash")
//! canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
//! digest = hashlib.sha256(canonical.encode("utf-8")).hexdigest()
//! print("good" if claimed in (digest, "sha256:" + digest) else "damaged")
//! ```

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The member that holds the hash and is not covered by it.
pub(super) const HASH_FIELD: &str = "checkpointHash";

const PREFIX: &str = "sha256:";

/// The hash of a document, its own `checkpointHash` left out.
pub fn content_hash(document: &Map<String, Value>) -> String {
    let mut canonical = Vec::with_capacity(1024);
    let members = document.iter().filter(|(key, _)| *key != HASH_FIELD);
    write_object(members.collect(), &mut canonical);
    let mut text = String::with_capacity(PREFIX.len() + 64);
    text.push_str(PREFIX);
    for byte in Sha256::digest(&canonical) {
        text.push(HEX[usize::from(byte >> 4)]);
        text.push(HEX[usize::from(byte & 15)]);
    }
    text
}

/// Whether a hash found in a file is the expected one; the bare hex without prefix counts too.
pub(super) fn is_same_hash(found: &str, expected: &str) -> bool {
    found == expected || expected.strip_prefix(PREFIX) == Some(found)
}

/// Any value as canonical JSON, as this module's page defines it.
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut canonical = Vec::new();
    write_value(value, &mut canonical);
    canonical
}

const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => write_object(object.iter().collect(), out),
        Value::Array(items) => write_array(items, out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            write_scalar(value, out);
        }
    }
}

fn write_object(mut members: Vec<(&String, &Value)>, out: &mut Vec<u8>) {
    // UTF-8 sorts by bytes exactly as by code points.
    members.sort_unstable_by_key(|(key, _)| key.as_bytes());
    out.push(b'{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_scalar(key, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_array(items: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_value(item, out);
    }
    out.push(b']');
}

fn write_scalar(scalar: impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &scalar).expect("writing a scalar to memory cannot fail");
}
