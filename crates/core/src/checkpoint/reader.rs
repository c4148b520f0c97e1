//! Drives serde_json and objects to what it would let pass.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::error::Category;

use super::json_value::{JsonValue, Members};
use super::strict::{Position, StrictError, excerpt};

/// Reads exactly one document from a text.
pub(super) fn read_node(text: &str, depth_max: usize) -> Result<JsonValue<'_>, StrictError> {
    let fault = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = JsonReader {
        depth_left: depth_max,
        fault: &fault,
    }
    .deserialize(&mut deserializer)
    .map_err(|error| refusal(fault.take(), &error))?;
    deserializer
        .end()
        .map_err(|error| StrictError::TrailingBytes(position_of(&error)))?;
    Ok(node)
}

/// What a [`JsonReader`] objects to; serde's own errors carry only text.
enum Fault {
    TooDeep,
    DuplicateKey(String),
    NumberOutOfRange,
}

fn refusal(fault: Option<Fault>, error: &serde_json::Error) -> StrictError {
    let at = position_of(error);
    match fault {
        Some(Fault::TooDeep) => StrictError::TooDeep(at),
        Some(Fault::DuplicateKey(key)) => StrictError::DuplicateKey { key, at },
        Some(Fault::NumberOutOfRange) => StrictError::NumberOutOfRange(at),
        None if error.classify() == Category::Eof => StrictError::Torn(at),
        // serde_json has no other way to tell this one from the rest.
        None if error.to_string().starts_with("number out of range") => {
            StrictError::NumberOutOfRange(at)
        }
        None => StrictError::Syntax(at),
    }
}

fn position_of(error: &serde_json::Error) -> Position {
    Position {
        line: error.line(),
        column: error.column(),
    }
}

/// Reads one value, with the nesting still allowed below it.
#[derive(Clone, Copy)]
struct JsonReader<'f> {
    depth_left: usize,
    fault: &'f RefCell<Option<Fault>>,
}

impl JsonReader<'_> {
    fn object_to<E: Error>(self, fault: Fault) -> E {
        *self.fault.borrow_mut() = Some(fault);
        E::custom("refused")
    }

    fn child<E: Error>(self) -> Result<Self, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(JsonReader { depth_left, ..self }),
            None => Err(self.object_to(Fault::TooDeep)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for JsonReader<'_> {
    type Value = JsonValue<'de>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<JsonValue<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_> {
    type Value = JsonValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<JsonValue<'de>, E> {
        Ok(JsonValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonValue<'de>, E> {
        Ok(JsonValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonValue<'de>, E> {
        Ok(JsonValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonValue<'de>, E> {
        Ok(JsonValue::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<JsonValue<'de>, E> {
        const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
        match Number::from_f64(value) {
            Some(number) if value.abs() < TWO_TO_63 => Ok(JsonValue::Number(number)),
            Some(_) | None => Err(self.object_to(Fault::NumberOutOfRange)),
        }
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonValue<'de>, E> {
        TextReader.visit_borrowed_str(text).map(JsonValue::Text)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<JsonValue<'de>, E> {
        TextReader.visit_str(text).map(JsonValue::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonValue<'de>, A::Error> {
        let child = self.child::<A::Error>()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(child)? {
            array.push(item);
        }
        Ok(JsonValue::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonValue<'de>, A::Error> {
        let child = self.child::<A::Error>()?;
        let mut object = Vec::new();
        while let Some(key) = members.next_key_seed(TextReader)? {
            object.push((key, members.next_value_seed(child)?));
        }
        Members::sorted(object)
            .map(JsonValue::Object)
            .map_err(|key| self.object_to(Fault::DuplicateKey(excerpt(&key))))
    }
}

/// Reads a text, borrowed where it has no escapes.
struct TextReader;

impl<'de> DeserializeSeed<'de> for TextReader {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextReader {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
