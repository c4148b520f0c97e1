//! JSON read without the benefit of the doubt.
//!
//! Readers of JSON differ in what they let pass: duplicate keys, a byte order mark, numbers that
//! lose digits, a second document behind the first. A file that two readers understand differently
//! cannot be verified, so all of that is refused here. What the JSON means is left to the caller.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

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
    pub const CHECKPOINT: Limits = Limits { bytes_max: 4 << 20, depth_max: 32 };
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
    #[error("key {key:?} twice in one object at {at}")]
    DuplicateKey {
        /// The key, cut to a readable length.
        key: String,
        /// Its second appearance.
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
    let text = text_of(bytes, limits)?;
    let fault = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Node { depth_left: limits.depth_max, fault: &fault }
        .deserialize(&mut deserializer)
        .map_err(|error| refusal(fault.take(), &error))?;
    deserializer.end().map_err(|error| StrictError::TrailingBytes(position_of(&error)))?;
    Ok(value)
}

fn text_of(bytes: &[u8], limits: Limits) -> Result<&str, StrictError> {
    if bytes.len() > limits.bytes_max {
        let too_large = StrictError::TooLarge { bytes: bytes.len(), bytes_max: limits.bytes_max };
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
    std::str::from_utf8(bytes).map_err(|error| StrictError::NotUtf8 { offset: error.valid_up_to() })
}

/// What a [`Node`] objects to; serde's own errors carry only text.
enum Fault {
    TooDeep,
    DuplicateKey(String),
    NumberOutOfRange,
}

fn refusal(fault: Option<Fault>, error: &serde_json::Error) -> StrictError {
    let at = position_of(error);
    match fault {
        Some(Fault::TooDeep) => StrictError::TooDeep(at),
        Some(Fault::DuplicateKey(key)) => StrictError::DuplicateKey { key: excerpt(&key), at },
        Some(Fault::NumberOutOfRange) => StrictError::NumberOutOfRange(at),
        None if error.classify() == Category::Eof => StrictError::Torn(at),
        // serde_json has no other way to tell this one from the rest.
        None if error.to_string().starts_with("number out of range") => {
            StrictError::NumberOutOfRange(at)
        }
        None => StrictError::Syntax(at),
    }
}

/// As much of an untrusted text as a reason may carry.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

fn position_of(error: &serde_json::Error) -> Position {
    Position { line: error.line(), column: error.column() }
}

/// One value of the document, with the nesting still allowed below it.
#[derive(Clone, Copy)]
struct Node<'a> {
    depth_left: usize,
    fault: &'a RefCell<Option<Fault>>,
}

impl Node<'_> {
    fn object_to<E: serde::de::Error>(self, fault: Fault) -> E {
        *self.fault.borrow_mut() = Some(fault);
        E::custom("refused")
    }

    fn child<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Node { depth_left, ..self }),
            None => Err(self.object_to(Fault::TooDeep)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let lost_digits = value.abs() >= 9_223_372_036_854_775_808.0;
        match Number::from_f64(value) {
            Some(number) if !lost_digits => Ok(Value::Number(number)),
            _ => Err(self.object_to(Fault::NumberOutOfRange)),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let child = self.child::<A::Error>()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(child)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let child = self.child::<A::Error>()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(self.object_to(Fault::DuplicateKey(key)));
            }
            object.insert(key, members.next_value_seed(child)?);
        }
        Ok(Value::Object(object))
    }
}
