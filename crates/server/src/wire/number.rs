//! Numbers that the store keeps: from nothing to the largest that it and every client can hold.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A number of the wire.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if i64::try_from(number).is_ok() {
        return Ok(number);
    }
    Err(D::Error::custom(format!("{number} is too large; the largest number is {}", i64::MAX)))
}

/// The same where it may be left out.
pub(crate) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Whole(#[serde(deserialize_with = "whole")] u64);
    Ok(Option::<Whole>::deserialize(from)?.map(|Whole(number)| number))
}
