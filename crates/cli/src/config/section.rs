//! One table of the file: takes its keys and tells of everything that is not what it should be.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use relight_core::time::Span;
use relight_runtime::presets::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problems;

/// One table, with the keys that it may have.
pub(super) struct Section<'t> {
    name: String,
    table: Option<&'t DeTable<'t>>,
    /// Where it is told of as a whole.
    place: Range<usize>,
    problems: &'t Problems,
    keys: Vec<&'static str>,
}

type Value<'t> = Spanned<DeValue<'t>>;

impl<'t> Section<'t> {
    /// A table; unknown keys are told of at once.
    pub(super) fn new(
        name: impl Into<String>,
        table: &'t DeTable<'t>,
        keys: &[&'static str],
        problems: &'t Problems,
    ) -> Self {
        let name = name.into();
        let keys = keys.to_vec();
        for (key, _) in table {
            if !keys.contains(&&**key.get_ref()) {
                let hint = nearest(key.get_ref(), keys.iter().copied());
                let hint = match hint {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known are {}", keys.join(", ")),
                };
                let text = format!("unknown key `{}` in {name}", key.get_ref());
                problems.add(key.span(), &text, Some(&hint));
            }
        }
        Self { name, table: Some(table), place: 0..0, problems, keys }
    }

    /// The table below this key; one without anything in it when there is none.
    pub(super) fn section(&self, key: &'static str, keys: &[&'static str]) -> Section<'t> {
        let name = format!("[{key}]");
        match self.get(key) {
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Section::new(name, table, keys, self.problems),
                _ => {
                    self.wrong(key, value, &format!("a table: write {name}"));
                    self.empty(name, keys)
                }
            },
            None => self.empty(name, keys),
        }
    }

    /// The tables of the array below this key.
    pub(super) fn sections(&self, key: &'static str, keys: &[&'static str]) -> Vec<Section<'t>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let wanted = match key {
            "agent" => "tables: write [[agent]]",
            _ => "an array of tables: write [{ … }, { … }]",
        };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, value, wanted);
            return Vec::new();
        };
        let table = |item: &'t Value<'t>| match item.get_ref() {
            DeValue::Table(table) => {
                let section = Section::new(format!("[[{key}]]"), table, keys, self.problems);
                Some(Section { place: item.span(), ..section })
            }
            _ => {
                self.wrong(key, item, wanted);
                None
            }
        };
        items.iter().filter_map(table).collect()
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// Whether the key is there; told when not.
    pub(super) fn required(&self, key: &'static str, why: &str) -> bool {
        if !self.has(key) {
            self.problems.add(self.place.clone(), why, None);
        }
        self.has(key)
    }

    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        self.parsed(key, |text| Ok(text.to_owned()))
    }

    /// A text that is read further.
    pub(super) fn parsed<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.get(key)?;
        self.parse_value(key, value, parse)
    }

    pub(super) fn span(&self, key: &'static str) -> Option<Span> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => match text.parse() {
                Ok(span) => Some(span),
                Err(_) => {
                    self.bad(key, value, "write a number and a unit, such as \"90s\" or \"10m\"")
                }
            },
            _ => {
                self.wrong(key, value, "a duration in quotes, such as \"90s\" or \"10m\"");
                None
            }
        }
    }

    pub(super) fn count(&self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.get(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            self.wrong(key, value, "a number");
            return None;
        };
        let count = i64::from_str_radix(number.as_str(), number.radix()).ok();
        let count = count.and_then(|count| u32::try_from(count).ok());
        match count.filter(|count| range.contains(count)) {
            Some(count) => Some(count),
            None if *range.end() == u32::MAX => {
                self.bad(key, value, &format!("write a number from {}", range.start()))
            }
            None => {
                let (start, end) = (range.start(), range.end());
                self.bad(key, value, &format!("write a number from {start} to {end}"))
            }
        }
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong(key, value, "true or false");
        }
        flag
    }

    /// One of the words, with what it stands for.
    pub(super) fn one_of<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.parsed(key, |text| {
            let found = words.iter().find(|(word, _)| *word == text);
            found.map(|(_, meaning)| *meaning).ok_or_else(|| {
                match nearest(text, words.iter().map(|(word, _)| *word)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                        format!("known are {}", known.join(", "))
                    }
                }
            })
        })
    }

    /// An array of words, such as a command.
    pub(super) fn words(&self, key: &'static str) -> Option<Vec<String>> {
        self.each(key, |word| {
            let has_nul = word.contains('\0');
            if has_nul { Err("no NUL can be in it".to_owned()) } else { Ok(word.to_owned()) }
        })
    }

    /// An array of texts, each read further.
    pub(super) fn each<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Array(items) => {
                let read = |item| self.parse_value(key, item, &parse);
                Some(items.iter().filter_map(read).collect())
            }
            DeValue::String(text) => {
                let words: Vec<String> =
                    text.split_whitespace().map(|it| format!("{it:?}")).collect();
                self.bad(key, value, &format!("write an array: {key} = [{}]", words.join(", ")))
            }
            _ => {
                self.wrong(key, value, "an array of texts");
                None
            }
        }
    }

    /// A table of texts, each with the place of its name.
    pub(super) fn pairs(&self, key: &'static str) -> Vec<(Range<usize>, String, String)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(key, value, "a table: write { NAME = \"value\" }");
            return Vec::new();
        };
        let pair = |(name, value): (&'t Spanned<Cow<'t, str>>, &'t Value<'t>)| {
            let text = self.parse_value(key, value, |text| Ok(text.to_owned()))?;
            Some((name.span(), name.get_ref().to_string(), text))
        };
        table.iter().filter_map(pair).collect()
    }

    /// Tells of a key's value, or of the table when the key is not there.
    pub(super) fn problem(&self, key: &'static str, text: &str, hint: Option<&str>) {
        let place = self.get(key).map_or_else(|| self.place.clone(), Spanned::span);
        self.problems.add(place, text, hint);
    }

    pub(super) fn problem_at(&self, place: Range<usize>, text: &str, hint: Option<&str>) {
        self.problems.add(place, text, hint);
    }

    fn get(&self, key: &'static str) -> Option<&'t Value<'t>> {
        assert!(self.keys.contains(&key), "`{key}` is in the list of keys of {}", self.name);
        let found = self.table?.iter().find(|(name, _)| name.get_ref() == key);
        found.map(|(_, value)| value)
    }

    fn parse_value<T>(
        &self,
        key: &str,
        value: &Value<'t>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let DeValue::String(text) = value.get_ref() else {
            self.wrong(key, value, "a text in quotes");
            return None;
        };
        match parse(text) {
            Ok(parsed) => Some(parsed),
            Err(why) => self.bad(key, value, &why),
        }
    }

    fn bad<T>(&self, key: impl Display, value: &Value<'t>, hint: &str) -> Option<T> {
        self.problems.add(value.span(), &format!("bad `{key}` in {}", self.name), Some(hint));
        None
    }

    fn wrong(&self, key: &str, value: &Value<'t>, wanted: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let text = format!("`{key}` in {} is {found}", self.name);
        self.problems.add(value.span(), &text, Some(&format!("expected {wanted}")));
    }

    fn empty(&self, name: String, keys: &[&'static str]) -> Section<'t> {
        Section { name, table: None, place: 0..0, problems: self.problems, keys: keys.to_vec() }
    }
}
