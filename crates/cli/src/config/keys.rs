//! The table of all keys: `default.toml`, which drives what is known, the defaults, the hints and
//! the reference page.

use std::sync::{LazyLock, OnceLock};

use toml::de::DeTable;

/// The file with every key, which `relight setup config` writes.
pub(crate) const DEFAULT: &str = include_str!("default.toml");

static TABLES: LazyLock<Vec<KeyTable>> = LazyLock::new(tables);

/// One table of `default.toml`.
pub(super) struct KeyTable {
    /// `[store]`, `[[agent]]`.
    pub(super) header: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    pub(super) about: Vec<&'static str>,
    pub(super) settings: Vec<Setting>,
    /// As a file would set them; each command needs few tables.
    defaults: OnceLock<DeTable<'static>>,
}

/// One key, with its default or an example.
pub(super) struct Setting {
    pub(super) mark: Mark,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    pub(super) why: Vec<&'static str>,
}

/// What a commented line of `default.toml` holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// `#key = value`: the default.
    Default,
    /// `#! key = value`: required, with an example.
    Required,
    /// `#~ key = value`: no default, an example.
    Example,
}

/// The names of all tables.
pub(super) fn table_names() -> Vec<&'static str> {
    TABLES.iter().map(KeyTable::name).collect()
}

/// The keys of the table with this header.
pub(super) fn of(header: &str) -> Vec<&'static str> {
    let table = TABLES.iter().find(|table| table.header == header);
    let table = table.unwrap_or_else(|| panic!("default.toml has {header}"));
    table.settings.iter().map(|setting| setting.key).collect()
}

/// The defaults of the table of this name.
pub(super) fn defaults(name: &str) -> &'static DeTable<'static> {
    let table = TABLES.iter().find(|table| table.name() == name);
    let table = table.unwrap_or_else(|| panic!("default.toml has a table {name}"));
    table.defaults.get_or_init(|| {
        let settings = table.settings.iter();
        let set = settings.filter(|setting| setting.mark == Mark::Default);
        let lines = set.map(|setting| format!("{} = {}\n", setting.key, setting.value));
        // Read once in a process, and kept.
        let text: &'static str = lines.collect::<String>().leak();
        let table = DeTable::parse(text).expect("default.toml is valid TOML");
        table.into_inner()
    })
}

impl KeyTable {
    fn name(&self) -> &'static str {
        self.header.trim_matches(['[', ']'])
    }
}

/// What a commented line would say.
pub(super) fn marked(line: &str) -> Option<(Mark, &str)> {
    let rest = line.strip_prefix('#')?;
    if let Some(rest) = rest.strip_prefix("! ") {
        return Some((Mark::Required, rest));
    }
    if let Some(rest) = rest.strip_prefix("~ ") {
        return Some((Mark::Example, rest));
    }
    rest.starts_with(|c: char| c.is_ascii_lowercase())
        .then_some((Mark::Default, rest))
}

pub(super) fn tables() -> Vec<KeyTable> {
    let mut tables: Vec<KeyTable> = Vec::new();
    let mut comment = Vec::new();
    for line in DEFAULT.lines() {
        let (mark, setting) = marked(line).unwrap_or((Mark::Default, line));
        if setting.starts_with('[') {
            let about = std::mem::take(&mut comment);
            tables.push(KeyTable {
                header: setting,
                about,
                settings: Vec::new(),
                defaults: OnceLock::new(),
            });
        } else if let Some((key, value)) = setting.split_once(" = ").filter(|_| setting != line) {
            let why = std::mem::take(&mut comment);
            let table = tables.last_mut().expect("a setting is in a table");
            table.settings.push(Setting {
                mark,
                key,
                value,
                why,
            });
        } else {
            let text = line.trim_start_matches('#').trim();
            match text.is_empty() {
                true => comment.clear(),
                false => comment.push(text),
            }
        }
    }
    tables
}
