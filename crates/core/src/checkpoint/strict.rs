//! JSON read without the benefit of the doubt.
//!
//! Readers of JSON differ in what they let pass: duplicate keys, a byte order mark, numbers that
//! lose digits, a second document behind the first. A file that two readers understand differently
//! cannot be verified, so all of that is refused here. What the JSON means is left to the caller.

use std::fmt;

use serde_json::Value;

use super::json_value::JsonValue;
use super::reader;

/// How much a document may hold before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest accepted size of the whole document.
    pub bytes_max: usize,
    /// How many objects and arrays may lie inside each other.
    pub depth_max: usize,
}

impl Limits {
    /// The limits of checkpoint files: 4 MiB, 32 levels.
    pub const CHECKPOINT: Limits = Limits {
        bytes_max: 4 << 20,
        depth_max: 32,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::CHECKPOINT
    }
}

/// A place in a text, as an editor shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes; 0 is the very start of a line.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Why some bytes are not one strict JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// Larger than [`Limits::bytes_max`].
    #[error("too large: {bytes} bytes, {bytes_max} are allowed")]
    TooLarge {
        /// The size found.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// No bytes, or only white space.
    #[error("empty")]
    Empty,
    /// Only zero bytes, as some file systems leave behind after a power cut.
    #[error("zero-filled")]
    ZeroFilled,
    /// The text starts with a byte order mark.
    #[error("starts with a byte order mark")]
    ByteOrderMark,
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// The first offending byte, counted from 0.
        offset: usize,
    },
    /// The text ends in the middle of the document.
    #[error("torn: ends too early at {0}")]
    Torn(Position),
    /// The text is not JSON.
    #[error("not JSON at {0}")]
    Syntax(Position),
    /// Something follows the document.
    #[error("more bytes after the document's end at {0}")]
    TrailingBytes(Position),
    /// More nesting than [`Limits::depth_max`].
    #[error("nested too deeply at {0}")]
    TooDeep(Position),
    /// An object names the same member twice.
    #[error("key {key:?} twice in the object that ends at {at}")]
    DuplicateKey {
        /// The key, cut to a readable length.
        key: String,
        /// The end of the object.
        at: Position,
    },
    /// A number that 64 bits cannot hold without losing digits.
    #[error("number out of range at {0}")]
    NumberOutOfRange(Position),
}

/// Reads exactly one JSON document.
///
/// A whole number beyond 64 bits is refused however it is written (`1e30` too): read as floating
/// point, several of them become the same value, and a hash would no longer tell them apart.
pub fn parse_strict(bytes: &[u8], limits: Limits) -> Result<Value, StrictError> {
    parse_borrowed(bytes, limits).map(Value::from)
}

/// Refuses JSON that readers understand differently: an object that names the same member twice, a number
/// that loses digits.
///
/// Whatever else is wrong with it is left to the reader that follows.
pub fn check_unambiguous(bytes: &[u8], limits: Limits) -> Result<(), StrictError> {
    match parse_borrowed(bytes, limits) {
        Err(error @ (StrictError::DuplicateKey { .. } | StrictError::NumberOutOfRange(_))) => {
            Err(error)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Like [`parse_strict`], leaving all texts without escapes where they are.
pub(super) fn parse_borrowed(bytes: &[u8], limits: Limits) -> Result<JsonValue<'_>, StrictError> {
    reader::read_node(text_of(bytes, limits)?, limits.depth_max)
}

fn text_of(bytes: &[u8], limits: Limits) -> Result<&str, StrictError> {
    if bytes.len() > limits.bytes_max {
        let too_large = StrictError::TooLarge {
            bytes: bytes.len(),
            bytes_max: limits.bytes_max,
        };
        return Err(too_large);
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(StrictError::Empty);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(StrictError::ZeroFilled);
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(StrictError::ByteOrderMark);
    }
    std::str::from_utf8(bytes).map_err(|error| StrictError::NotUtf8 {
        offset: error.valid_up_to(),
    })
}

/// As much of an untrusted text as a reason may carry.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}
