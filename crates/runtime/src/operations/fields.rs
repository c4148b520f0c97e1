//! Fields of requests that are read in a way of their own.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use relight_core::ids::AgentName;
use relight_core::lease::Fence;
use relight_core::limits;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::check_reason;

/// A value that is written as a text.
pub fn text<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(bad_value)
}

/// As the reader of requests expects it, which adds the field.
fn bad_value<E: serde::de::Error>(why: impl Display) -> E {
    E::custom(format_args!("invalid value: {why}"))
}

/// The same where it may be left out.
pub fn optional_text<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(bad_value)).transpose()
}

/// Several words: a text with commas between them, or a list of texts.
pub fn words<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let words = match Value::deserialize(from)? {
        Value::Null => Vec::new(),
        Value::String(text) => text.split(',').map(str::to_owned).collect(),
        list => Vec::<String>::deserialize(list).map_err(D::Error::custom)?,
    };
    words
        .iter()
        .map(|word| word.parse().map_err(D::Error::custom))
        .collect()
}

/// The agent of a workflow, which may have any name.
pub fn workflow_agent<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AgentName>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    name.map(|name| AgentName::of_workflow(&name))
        .transpose()
        .map_err(D::Error::custom)
}

/// The same where one is needed.
pub fn named_workflow_agent<'de, D: Deserializer<'de>>(from: D) -> Result<AgentName, D::Error> {
    AgentName::of_workflow(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// A number from nothing to the largest that the store and every client can hold.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    storable(u64::deserialize(from)?)
}

fn storable<E: serde::de::Error>(number: u64) -> Result<u64, E> {
    limits::number(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &"u64"))
}

/// The same where it may be left out.
pub fn optional_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<u64>::deserialize(from)?;
    number.map(storable).transpose()
}

/// The right to write, where one is shown.
pub fn fence<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fence>, D::Error> {
    Ok(optional_number(from)?.map(Fence))
}

/// A reason that says something.
pub fn reason<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let reason = String::deserialize(from)?;
    check_reason(&reason).map_err(D::Error::custom)?;
    Ok(reason)
}

/// Context for a successor. A value without a name could never be found again.
pub fn context<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let pairs = BTreeMap::<String, String>::deserialize(from)?;
    if pairs.contains_key("") {
        Err(D::Error::custom(EMPTY_KEY))
    } else {
        Ok(pairs)
    }
}

/// What is wrong with context without a key.
pub const EMPTY_KEY: &str = "a key of the context is empty; write KEY=VALUE";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_those_that_the_store_can_hold() {
        assert_eq!(optional_number(json!(null)).unwrap(), None);
        assert_eq!(
            optional_number(json!(i64::MAX)).unwrap(),
            Some(i64::MAX as u64)
        );
        for bad in [
            json!(i64::MAX as u64 + 1),
            json!(-1),
            json!(1.5),
            json!("1"),
        ] {
            assert!(
                number(bad.clone()).is_err() && optional_number(bad.clone()).is_err(),
                "{bad}"
            );
        }
    }
}
