//! A JSON value that borrows its texts from the bytes it was read from.
//!
//! Verifying a folder of a hundred thousand files reads each of them whole and keeps little, so
//! the tree between bytes and checkpoint copies nothing. Members of objects are always sorted: that
//! is what canonical JSON needs, and it shows duplicates.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<JsonValue<'a>>),
    Object(Members<'a>),
}

/// The members of an object, sorted by key, each key once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, JsonValue<'a>)>);

impl<'a> Members<'a> {
    /// Sorts the members; a key that stands there twice is the error.
    pub(super) fn sorted(
        mut members: Vec<(Cow<'a, str>, JsonValue<'a>)>,
    ) -> Result<Self, Cow<'a, str>> {
        // UTF-8 sorts by bytes exactly as by code points.
        members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        match members.windows(2).position(|pair| pair[0].0 == pair[1].0) {
            Some(index) => Err(members.swap_remove(index).0),
            None => Ok(Members(members)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &JsonValue<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    pub(super) fn get(&self, key: &str) -> Option<&JsonValue<'a>> {
        self.index_of(key).map(|index| &self.0[index].1)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<JsonValue<'a>> {
        self.index_of(key).map(|index| self.0.remove(index).1)
    }

    /// The members as text, when all of them are.
    pub(super) fn into_texts(self) -> Option<impl Iterator<Item = (String, String)>> {
        let is_text = |(_, value): &(_, JsonValue<'_>)| matches!(value, JsonValue::Text(_));
        self.0.iter().all(is_text).then(|| {
            self.0
                .into_iter()
                .filter_map(|(key, value)| Some((key.into_owned(), value.into_text()?)))
        })
    }

    fn index_of(&self, key: &str) -> Option<usize> {
        // Of the few members a checkpoint has, most differ in length already: faster than halving.
        self.0.iter().position(|(other, _)| other.as_ref() == key)
    }
}

impl JsonValue<'_> {
    pub(super) fn into_text(self) -> Option<String> {
        let JsonValue::Text(text) = self else {
            return None;
        };
        Some(text.into_owned())
    }

    pub(super) fn as_count(&self) -> Option<u64> {
        let JsonValue::Number(number) = self else {
            return None;
        };
        number.as_u64()
    }
}

impl<'a> From<&'a Map<String, Value>> for Members<'a> {
    fn from(map: &'a Map<String, Value>) -> Self {
        let members = map
            .iter()
            .map(|(key, value)| (Cow::from(key), JsonValue::from(value)));
        Members::sorted(members.collect()).expect("a map holds each key once")
    }
}

impl<'a> From<&'a Value> for JsonValue<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => JsonValue::Null,
            Value::Bool(value) => JsonValue::Bool(*value),
            Value::Number(number) => JsonValue::Number(number.clone()),
            Value::String(text) => JsonValue::Text(Cow::from(text)),
            Value::Array(items) => JsonValue::Array(items.iter().map(JsonValue::from).collect()),
            Value::Object(map) => JsonValue::Object(Members::from(map)),
        }
    }
}

impl From<Members<'_>> for Map<String, Value> {
    fn from(members: Members<'_>) -> Self {
        members
            .0
            .into_iter()
            .map(|(key, value)| (key.into_owned(), value.into()))
            .collect()
    }
}

impl From<JsonValue<'_>> for Value {
    fn from(node: JsonValue<'_>) -> Self {
        match node {
            JsonValue::Null => Value::Null,
            JsonValue::Bool(value) => Value::Bool(value),
            JsonValue::Number(number) => Value::Number(number),
            JsonValue::Text(text) => Value::String(text.into_owned()),
            JsonValue::Array(items) => items.into_iter().map(Value::from).collect(),
            JsonValue::Object(members) => Value::Object(members.into()),
        }
    }
}
