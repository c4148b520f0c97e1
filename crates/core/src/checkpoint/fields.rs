//! Takes the known members out of a verified document, one type at a time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::envelope::Damage;
use super::json_value::{JsonValue, Members};

/// The members of a document that nobody has taken yet.
pub(super) struct Fields<'a> {
    members: Members<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(members: Members<'a>) -> Self {
        Fields { members }
    }

    /// What is left when all known members are taken.
    pub(super) fn into_rest(self) -> Map<String, Value> {
        self.members.into()
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, Damage> {
        self.required(field)?.into_text().ok_or(bad(field, "text"))
    }

    pub(super) fn text_or_null(&mut self, field: &'static str) -> Result<Option<String>, Damage> {
        match self.required(field)? {
            JsonValue::Null => Ok(None),
            value => value
                .into_text()
                .map(Some)
                .ok_or(bad(field, "text or null")),
        }
    }

    pub(super) fn texts(&mut self, field: &'static str) -> Result<Vec<String>, Damage> {
        let damage = bad(field, "a list of texts");
        let JsonValue::Array(items) = self.required(field)? else {
            return Err(damage);
        };
        items
            .into_iter()
            .map(JsonValue::into_text)
            .collect::<Option<_>>()
            .ok_or(damage)
    }

    pub(super) fn time(&mut self, field: &'static str) -> Result<Timestamp, Damage> {
        time_of(field, &self.text(field)?)
    }

    pub(super) fn time_or_null(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Timestamp>, Damage> {
        match self.text_or_null(field)? {
            None => Ok(None),
            Some(text) => time_of(field, &text).map(Some),
        }
    }

    /// A count that other writers of the dialect leave out: 0 when absent.
    pub(super) fn count_or_zero(&mut self, field: &'static str) -> Result<u64, Damage> {
        match self.members.take(field) {
            None => Ok(0),
            Some(value) => value
                .as_count()
                .ok_or(bad(field, "a whole number, 0 or more")),
        }
    }

    /// A table of texts that other writers of the dialect leave out: empty when absent.
    pub(super) fn text_table(
        &mut self,
        field: &'static str,
    ) -> Result<BTreeMap<String, String>, Damage> {
        let table = match self.members.take(field) {
            None => return Ok(BTreeMap::new()),
            Some(JsonValue::Object(members)) => members.into_texts().map(Iterator::collect),
            Some(_) => None,
        };
        table.ok_or(bad(field, "an object of texts"))
    }

    fn required(&mut self, field: &'static str) -> Result<JsonValue<'a>, Damage> {
        self.members
            .take(field)
            .ok_or(Damage::MissingField { field })
    }
}

/// Reads an RFC 3339 time in UTC; digits beyond the millisecond are dropped.
fn time_of(field: &'static str, text: &str) -> Result<Timestamp, Damage> {
    const EXPECTED: &str = "an RFC 3339 time in UTC";
    let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
    let is_rfc_3339 = text.is_ascii() && text.get(10..11) == Some("T") && text.len() >= 20;
    if !(is_utc && is_rfc_3339) {
        return Err(bad(field, EXPECTED));
    }
    let time = text
        .parse::<Timestamp>()
        .map_err(|_| bad(field, EXPECTED))?;
    Timestamp::from_millisecond(floor_ms(time)).map_err(|_| bad(field, EXPECTED))
}

/// The whole milliseconds at or before a time.
pub(super) fn floor_ms(time: Timestamp) -> i64 {
    let ms = time.as_nanosecond().div_euclid(1_000_000);
    i64::try_from(ms).expect("milliseconds of any timestamp fit in 64 bits")
}

fn bad(field: &'static str, expected: &'static str) -> Damage {
    Damage::BadField { field, expected }
}
