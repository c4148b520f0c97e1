//! JSON values redacted in place: the shape stays, so the document stays valid and
//! what reads it still finds its fields.

use serde_json::{Map, Value};

use super::names::{self, KeyName};
use super::{Redactor, assigned_value, command};

/// Redacts a value that stands under a key of this kind; answers whether anything changed.
pub(super) fn redact(redactor: &Redactor, value: &mut Value, key: KeyName) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => {
            let digits = number.to_string();
            let is_secret =
                key == KeyName::Strong && !assigned_value::is_harmless(key, digits.as_bytes());
            if is_secret {
                *value = Value::String(redactor.whole(digits.as_bytes(), "assignment"));
            }
            is_secret
        }
        Value::String(text) => string(redactor, text, key),
        Value::Array(items) => array(redactor, items, key),
        Value::Object(fields) => object(redactor, fields, key),
    }
}

fn string(redactor: &Redactor, text: &mut String, key: KeyName) -> bool {
    let redacted = match key {
        KeyName::Plain => redactor.text(text),
        KeyName::Weak | KeyName::Loose | KeyName::Strong => redactor.secret_value(key, b"", text),
    };
    let changed = (redacted != *text).then(|| redacted.into_owned());
    if let Some(redacted) = changed {
        *text = redacted;
        return true;
    }
    false
}

fn array(redactor: &Redactor, items: &mut [Value], key: KeyName) -> bool {
    let mut changed = false;
    // `["curl", "-u", "ann:x"]`, `["--password", "x"]`: a command line.
    let words: Vec<&[u8]> = items
        .iter()
        .map(|item| item.as_str().unwrap_or_default().as_bytes())
        .collect();
    let places = command::places(&words, true, false);
    let mut after_flag = KeyName::Plain;
    for (item, place) in items.iter_mut().zip(places) {
        let stricter = if key == KeyName::Plain {
            after_flag
        } else {
            key
        };
        after_flag = match &*item {
            Value::String(text) if text.starts_with('-') => command::next_word(text),
            _ => KeyName::Plain,
        };
        match (item, place) {
            (Value::String(text), Some((start, end))) if stricter == KeyName::Plain => {
                let secret = redactor.whole(&text.as_bytes()[start..end], "password");
                text.replace_range(start..end, &secret);
                changed = true;
            }
            (item, _) => changed |= redact(redactor, item, stricter),
        }
    }
    changed
}

fn object(redactor: &Redactor, fields: &mut Map<String, Value>, key: KeyName) -> bool {
    let mut changed = false;
    // `{"name": "API_KEY", "value": "x"}`: variables, headers and cookies as lists of pairs.
    let named = ["name", "key", "Name", "Key"]
        .iter()
        .find_map(|field| fields.get(*field)?.as_str());
    let named = named.map_or(KeyName::Plain, |name| names::judge(name.as_bytes()));
    for (field, value) in fields.iter_mut() {
        let own = names::judge(field.as_bytes());
        let is_named_value = field.eq_ignore_ascii_case("value");
        // Numbers deep inside a secret object (`expires_in`) are secret only by their own key.
        // A service's name says nothing of what lies deep inside.
        let is_own = value.is_number() || key == KeyName::Weak;
        let inherited = if is_own { KeyName::Plain } else { key };
        let candidates = [
            own,
            if is_named_value {
                named
            } else {
                KeyName::Plain
            },
            inherited,
        ];
        let stricter = candidates.into_iter().find(|key| *key != KeyName::Plain);
        changed |= redact(redactor, value, stricter.unwrap_or(KeyName::Plain));
    }
    changed | keys(redactor, fields)
}

/// Object keys are redacted too; order stays, and two keys never become one.
fn keys(redactor: &Redactor, fields: &mut Map<String, Value>) -> bool {
    if !fields
        .keys()
        .any(|field| redactor.text(field) != field.as_str())
    {
        return false;
    }
    for (field, value) in std::mem::take(fields) {
        let clean = redactor.text(&field).into_owned();
        let mut unique = clean.clone();
        let mut number = 2;
        while fields.contains_key(&unique) {
            unique = format!("{clean}~{number}");
            number += 1;
        }
        fields.insert(unique, value);
    }
    true
}
