//! One table of the file: reads its keys, with their defaults, and reports everything that is wrong.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use relight_core::task::Cost;
use relight_core::time::Span;
use relight_core::usage::SpendLimit;
use relight_runtime::spelling::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys;
use super::problem::Problems;

/// One table, with the keys that it may have.
pub(super) struct Section<'t> {
    name: String,
    table: Option<&'t DeTable<'t>>,
    /// Tables for keys that it does not set, the most important first.
    defaults: Vec<&'t DeTable<'t>>,
    /// Where problems of the table as a whole are reported.
    place: Range<usize>,
    problems: &'t Problems,
    keys: Vec<&'static str>,
}

type Value<'t> = Spanned<DeValue<'t>>;

/// Why a value cannot be used.
struct Mistake {
    place: Range<usize>,
    kind: MistakeKind,
}

enum MistakeKind {
    /// It has this type instead of the expected one.
    Type {
        found: &'static str,
        expected: String,
    },
    /// It has the right type; this is the hint.
    Value(String),
}

impl<'t> Section<'t> {
    /// The whole file.
    pub(super) fn file(table: &'t DeTable<'t>, problems: &'t Problems) -> Self {
        let nowhere = Section {
            name: String::new(),
            table: None,
            defaults: Vec::new(),
            place: 0..0,
            problems,
            keys: Vec::new(),
        };
        nowhere.child(
            "the file".to_owned(),
            Some(table),
            keys::table_names(),
            Vec::new(),
        )
    }

    /// The table of this name; an empty one when the file has none.
    pub(super) fn section(&self, name: &'static str) -> Section<'t> {
        let header = format!("[{name}]");
        let table = self.get(name).and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.report(
                    name,
                    &[wrong_type(value, format!("a table: write {header}"))],
                );
                None
            }
        });
        let keys = keys::of(&header);
        self.child(header, table, keys, vec![keys::defaults(name)])
    }

    /// The `[[agent]]` tables. Each may have the keys of `[recovery]` too, whose values are the
    /// defaults of its own.
    pub(super) fn agents(&self, recovery: &Section<'t>) -> Vec<Section<'t>> {
        let mut keys = keys::of("[[agent]]");
        keys.extend(&recovery.keys);
        let mut defaults = vec![keys::defaults("agent")];
        defaults.extend(recovery.table.iter().chain(&recovery.defaults));
        self.array("agent", "tables: write [[agent]]", &keys, &defaults)
    }

    /// The tables of an array, which have these keys and no defaults.
    pub(super) fn sections(&self, key: &'static str, keys: &[&'static str]) -> Vec<Section<'t>> {
        self.array(key, "an array of tables: write [{ … }, { … }]", keys, &[])
    }

    fn array(
        &self,
        key: &'static str,
        wanted: &str,
        keys: &[&'static str],
        defaults: &[&'t DeTable<'t>],
    ) -> Vec<Section<'t>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            self.report(key, &[wrong_type(value, wanted)]);
            return Vec::new();
        };
        let table = |item: &'t Value<'t>| match item.get_ref() {
            DeValue::Table(table) => {
                let name = format!("[[{key}]]");
                let section = self.child(name, Some(table), keys.to_vec(), defaults.to_vec());
                Some(Section {
                    place: item.span(),
                    ..section
                })
            }
            _ => {
                self.report(key, &[wrong_type(item, wanted)]);
                None
            }
        };
        items.iter().filter_map(table).collect()
    }

    /// A table of this one; unknown keys are reported at once.
    fn child(
        &self,
        name: String,
        table: Option<&'t DeTable<'t>>,
        keys: Vec<&'static str>,
        defaults: Vec<&'t DeTable<'t>>,
    ) -> Section<'t> {
        for (key, _) in table.into_iter().flatten() {
            if !keys.contains(&&**key.get_ref()) {
                let text = format!("unknown key `{}` in {name}", key.get_ref());
                self.problems
                    .add(key.span(), &text, Some(&known(key.get_ref(), &keys)));
            }
        }
        Section {
            name,
            table,
            defaults,
            place: 0..0,
            problems: self.problems,
            keys,
        }
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// Whether the key is there; reported when not.
    pub(super) fn required(&self, key: &'static str, why: &str) -> bool {
        if !self.has(key) {
            self.problems.add(self.place.clone(), why, None);
        }
        self.has(key)
    }

    /// A text that is parsed further, of a key without a default.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read(key, |value| parse_text(value, &parse))
    }

    /// A text that is parsed further.
    pub(super) fn parsed<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.or_default(key, |value| parse_text(value, &parse))
    }

    pub(super) fn span(&self, key: &'static str) -> Span {
        self.or_default(key, span)
    }

    /// A price in millionths.
    pub(super) fn cost(&self, key: &'static str) -> u64 {
        self.parsed(key, |text| {
            text.parse()
                .map(|Cost(micros)| micros)
                .map_err(|error| error.to_string())
        })
    }

    /// `spend_max` and `tokens_max`.
    pub(super) fn spend_limit(&self) -> SpendLimit {
        let tokens = self.whole("tokens_max", 0..=i64::MAX.unsigned_abs());
        SpendLimit {
            cost_micros: Some(self.cost("spend_max")).filter(|max| *max > 0),
            tokens: Some(tokens).filter(|max| *max > 0),
        }
    }

    pub(super) fn optional_span(&self, key: &'static str) -> Option<Span> {
        self.read(key, span)
    }

    pub(super) fn count(&self, key: &'static str, range: RangeInclusive<u32>) -> u32 {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        u32::try_from(self.whole(key, range)).expect("the range is of such numbers")
    }

    fn whole(&self, key: &'static str, range: RangeInclusive<u64>) -> u64 {
        self.or_default(key, |value| {
            let DeValue::Integer(number) = value.get_ref() else {
                return Err(vec![wrong_type(value, "a number")]);
            };
            let whole = i128::from_str_radix(number.as_str(), number.radix());
            let given = u64::try_from(whole.unwrap_or(i128::MAX));
            let given = given.ok().filter(|given| range.contains(given));
            given.ok_or_else(|| {
                let (from, to) = (range.start(), range.end());
                vec![bad(value, format!("write a number from {from} to {to}"))]
            })
        })
    }

    pub(super) fn flag(&self, key: &'static str) -> bool {
        self.or_default(key, |value| {
            value
                .get_ref()
                .as_bool()
                .ok_or_else(|| vec![wrong_type(value, "true or false")])
        })
    }

    /// One of the words, with what it stands for.
    pub(super) fn one_of<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> T {
        self.parsed(key, |text| {
            let found = words.iter().find(|(word, _)| *word == text);
            found.map(|(_, meaning)| *meaning).ok_or_else(|| {
                known(
                    text,
                    &words.iter().map(|(word, _)| *word).collect::<Vec<_>>(),
                )
            })
        })
    }

    /// An array of words, such as a command.
    pub(super) fn words(&self, key: &'static str) -> Option<Vec<String>> {
        self.each(key, |word| {
            let has_nul = word.contains('\0');
            if has_nul {
                Err("no NUL can be in it".to_owned())
            } else {
                Ok(word.to_owned())
            }
        })
    }

    /// An array of texts, each parsed further.
    pub(super) fn each<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let read = |value: &Value<'t>| match value.get_ref() {
            DeValue::Array(items) => {
                let (mut parsed, mut mistakes) = (Vec::new(), Vec::new());
                for item in items {
                    match parse_text(item, &parse) {
                        Ok(item) => parsed.push(item),
                        Err(more) => mistakes.extend(more),
                    }
                }
                if mistakes.is_empty() {
                    Ok(parsed)
                } else {
                    Err(mistakes)
                }
            }
            DeValue::String(text) => {
                let words: Vec<String> = text
                    .split_whitespace()
                    .map(|it| format!("{it:?}"))
                    .collect();
                Err(vec![bad(
                    value,
                    format!("write an array: {key} = [{}]", words.join(", ")),
                )])
            }
            _ => Err(vec![wrong_type(value, "an array of texts")]),
        };
        self.read(key, read)
    }

    /// A table of texts, each with the place of its name.
    pub(super) fn pairs(&self, key: &'static str) -> Vec<(Range<usize>, String, String)> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.report(
                key,
                &[wrong_type(value, "a table: write { NAME = \"value\" }")],
            );
            return Vec::new();
        };
        let pair = |(name, value): (&'t Spanned<Cow<'t, str>>, &'t Value<'t>)| {
            let text = parse_text(value, &|text: &str| Ok(text.to_owned()));
            let text = text.map_err(|mistakes| self.report(key, &mistakes)).ok()?;
            Some((name.span(), name.get_ref().to_string(), text))
        };
        table.iter().filter_map(pair).collect()
    }

    /// Reports a problem of a key's value, or of the table when the key is not there.
    pub(super) fn problem(&self, key: &'static str, text: &str, hint: Option<&str>) {
        let place = self
            .get(key)
            .map_or_else(|| self.place.clone(), Spanned::span);
        self.problems.add(place, text, hint);
    }

    pub(super) fn problem_at(&self, place: Range<usize>, text: &str, hint: Option<&str>) {
        self.problems.add(place, text, hint);
    }

    fn or_default<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Value<'t>) -> Result<T, Vec<Mistake>>,
    ) -> T {
        self.read(key, read)
            .unwrap_or_else(|| panic!("default.toml has a default of `{key}` in {}", self.name))
    }

    /// The value of the file, else the default. A value that cannot be used is reported.
    fn read<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Value<'t>) -> Result<T, Vec<Mistake>>,
    ) -> Option<T> {
        match self.get(key).map(&read) {
            Some(Ok(value)) => return Some(value),
            Some(Err(mistakes)) => self.report(key, &mistakes),
            None => {}
        }
        self.defaults
            .iter()
            .find_map(|table| find(table, key).and_then(|it| read(it).ok()))
    }

    fn get(&self, key: &'static str) -> Option<&'t Value<'t>> {
        assert!(
            self.keys.contains(&key),
            "`{key}` is a key of {} in default.toml",
            self.name
        );
        find(self.table?, key)
    }

    fn report(&self, key: &str, mistakes: &[Mistake]) {
        for Mistake { place, kind } in mistakes {
            let name = &self.name;
            let (text, hint) = match kind {
                MistakeKind::Type { found, expected } => (
                    format!("`{key}` in {name} is {found}"),
                    format!("expected {expected}"),
                ),
                MistakeKind::Value(hint) => (format!("bad `{key}` in {name}"), hint.clone()),
            };
            self.problems.add(place.clone(), &text, Some(&hint));
        }
    }
}

fn find<'t>(table: &'t DeTable<'t>, key: &str) -> Option<&'t Value<'t>> {
    table
        .iter()
        .find(|(name, _)| name.get_ref() == key)
        .map(|(_, value)| value)
}

fn parse_text<T>(
    value: &Value<'_>,
    parse: &impl Fn(&str) -> Result<T, String>,
) -> Result<T, Vec<Mistake>> {
    let DeValue::String(text) = value.get_ref() else {
        return Err(vec![wrong_type(value, "a text in quotes")]);
    };
    parse(text).map_err(|hint| vec![bad(value, hint)])
}

fn span(value: &Value<'_>) -> Result<Span, Vec<Mistake>> {
    let DeValue::String(text) = value.get_ref() else {
        return Err(vec![wrong_type(
            value,
            "a duration in quotes, such as \"90s\" or \"10m\"",
        )]);
    };
    let hint = "write a number and a unit, such as \"90s\" or \"10m\"";
    text.parse().map_err(|_| vec![bad(value, hint)])
}

/// The nearest known word, else all of them.
fn known(word: &str, all: &[&str]) -> String {
    match nearest(word, all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", all.join(", ")),
    }
}

fn bad(value: &Value<'_>, hint: impl Into<String>) -> Mistake {
    Mistake {
        place: value.span(),
        kind: MistakeKind::Value(hint.into()),
    }
}

fn wrong_type(value: &Value<'_>, expected: impl Into<String>) -> Mistake {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    Mistake {
        place: value.span(),
        kind: MistakeKind::Type {
            found,
            expected: expected.into(),
        },
    }
}
