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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_those_that_the_store_can_hold() {
        assert_eq!(optional(json!(null)).unwrap(), None);
        assert_eq!(optional(json!(i64::MAX)).unwrap(), Some(i64::MAX as u64));
        for bad in [json!(i64::MAX as u64 + 1), json!(-1), json!(1.5), json!("1")] {
            assert!(whole(bad.clone()).is_err() && optional(bad.clone()).is_err(), "{bad}");
        }
    }
}
