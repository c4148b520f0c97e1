//! Small changes of a JSON file that belongs to somebody else: items are put in and taken out by their place
//! in the text, so that comments, order and spaces of everything else stay.

use std::ops::Range;

use serde::Serialize as _;
use serde_json::Value;

/// Deeper is not a configuration.
const DEPTH_MAX: usize = 64;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct JsonNode {
    span: Range<usize>,
    kind: JsonKind,
}

#[derive(Debug)]
enum JsonKind {
    Object(Vec<(String, usize, JsonNode)>),
    Array(Vec<JsonNode>),
    Other,
}

impl JsonNode {
    fn members(&self, what: &str) -> Result<&[(String, usize, Self)], String> {
        match &self.kind {
            JsonKind::Object(members) => Ok(members),
            _ => Err(format!("{what} is not an object")),
        }
    }

    fn items(&self, what: &str) -> Result<&[Self], String> {
        match &self.kind {
            JsonKind::Array(items) => Ok(items),
            _ => Err(format!("{what} is not a list")),
        }
    }

    fn member(&self, what: &str, name: &str) -> Result<Option<&Self>, String> {
        Ok(self
            .members(what)?
            .iter()
            .find(|(key, ..)| key == name)
            .map(|(.., node)| node))
    }
}

/// Whether a command of a hook is ours.
pub(super) type IsOurs<'a> = &'a dyn Fn(&str) -> bool;

/// The hooks of a group, or none if the item is a hook by itself.
fn hooks_of(item: &JsonNode) -> Option<(&JsonNode, &[JsonNode])> {
    let JsonKind::Object(members) = &item.kind else {
        return None;
    };
    members.iter().find_map(|(name, _, node)| match &node.kind {
        JsonKind::Array(items) if name == "hooks" => Some((node, items.as_slice())),
        _ => None,
    })
}

fn is_hook_of_ours(hook: &JsonNode, text: &str, is_ours: IsOurs<'_>) -> bool {
    let JsonKind::Object(members) = &hook.kind else {
        return false;
    };
    members.iter().any(|(.., node)| {
        let text: Result<String, _> = serde_json::from_str(&text[node.span.clone()]);
        text.is_ok_and(|text| is_ours(&text))
    })
}

/// Whether all of an item is ours, or at least a hook of its group.
fn share_of_ours(item: &JsonNode, text: &str, is_ours: IsOurs<'_>) -> (bool, bool) {
    let Some((_, hooks)) = hooks_of(item) else {
        let is_all = is_hook_of_ours(item, text, is_ours);
        return (is_all, is_all);
    };
    let ours = hooks
        .iter()
        .filter(|hook| is_hook_of_ours(hook, text, is_ours))
        .count();
    (ours > 0 && ours == hooks.len(), ours > 0)
}

/// Whether the items of these lists that are ours are just the expected ones.
pub(super) fn has_exactly(
    text: &str,
    table: &str,
    expected: &[(&str, Value)],
    is_ours: IsOurs<'_>,
) -> Result<bool, String> {
    let root = parse(text)?;
    let Some(hooks) = root.member("the file", table)? else {
        return Ok(expected.is_empty());
    };
    let mut found = Vec::new();
    for (name, _, list) in hooks.members(table)? {
        let has_ours = |item: &&JsonNode| share_of_ours(item, text, is_ours).1;
        for item in list.items(name)?.iter().filter(has_ours) {
            let value: Option<Value> = serde_json::from_str(&text[item.span.clone()]).ok();
            found.push((name.as_str(), value));
        }
    }
    let is_there = |(name, value): &(&str, Value)| {
        found
            .iter()
            .any(|(there, found)| there == name && found.as_ref() == Some(value))
    };
    Ok(found.len() == expected.len() && expected.iter().all(is_there))
}

/// The text without our items. A group, a list and a table that hold nothing else go with them.
pub(super) fn without(text: &str, table: &str, is_ours: IsOurs<'_>) -> Result<String, String> {
    let mut whole = text.to_owned();
    // One at a time, because each moves those behind it.
    while let Some(span) = first_of_ours(&whole, table, is_ours)? {
        whole.replace_range(span, "");
    }
    Ok(whole)
}

fn first_of_ours(
    text: &str,
    table: &str,
    is_ours: IsOurs<'_>,
) -> Result<Option<Range<usize>>, String> {
    let root = parse(text)?;
    let members = root.members("the file")?;
    let Some(at) = members.iter().position(|(name, ..)| name == table) else {
        return Ok(None);
    };
    let hooks = members[at].2.members(table)?;
    for (place, (name, _, list)) in hooks.iter().enumerate() {
        let items = list.items(name)?;
        let has_ours = |item: &JsonNode| share_of_ours(item, text, is_ours).1;
        let Some(item) = items.iter().position(has_ours) else {
            continue;
        };
        let spans = |items: &[JsonNode]| {
            items
                .iter()
                .map(|node| node.span.clone())
                .collect::<Vec<_>>()
        };
        let of_members = |members: &[(String, usize, JsonNode)]| {
            members
                .iter()
                .map(|(_, start, node)| *start..node.span.end)
                .collect::<Vec<_>>()
        };
        let is_all = share_of_ours(&items[item], text, is_ours).0;
        if !is_all && let Some((group, hooks)) = hooks_of(&items[item]) {
            let hook = hooks
                .iter()
                .position(|hook| is_hook_of_ours(hook, text, is_ours));
            return Ok(hook.map(|hook| gone(text, &group.span, &spans(hooks), hook)));
        }
        return Ok(Some(match (items.len(), hooks.len()) {
            (1, 1) => gone(text, &root.span, &of_members(members), at),
            (1, _) => gone(text, &members[at].2.span, &of_members(hooks), place),
            _ => gone(text, &list.span, &spans(items), item),
        }));
    }
    Ok(None)
}

/// One of several parts with its comma, and with the space that belongs to it.
fn gone(text: &str, around: &Range<usize>, parts: &[Range<usize>], at: usize) -> Range<usize> {
    match (at, parts.len()) {
        (0, 1) if text[parts[0].end..around.end - 1].trim().is_empty() => {
            around.start + 1..around.end - 1
        }
        (0, 1) => parts[0].clone(),
        (0, _) => parts[0].start..parts[1].start,
        (at, _) => parts[at - 1].end..parts[at].end,
    }
}

/// The text with a member of the file, unless it has one of this name.
pub(super) fn with_member(text: &str, name: &str, value: &Value) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = parse(text)?;
    if root.member("the file", name)?.is_some() {
        return Ok(text.to_owned());
    }
    Ok(put(text, &root, 1, &format!("\"{name}\": {value}")))
}

/// The text with one more item in a list of a table of the file; both are made where they are missing.
pub(super) fn with_item(
    text: &str,
    table: &str,
    list: &str,
    item: &Value,
) -> Result<String, String> {
    let text = with_member(text, table, &serde_json::json!({}))?;
    let root = parse(&text)?;
    let hooks = root
        .member("the file", table)?
        .ok_or("a table that was put in is missing")?;
    let (place, depth, new) = match hooks.member(table, list)? {
        Some(found) => {
            found.items(list)?;
            (found, 3, item.to_string())
        }
        None => (hooks, 2, format!("\"{list}\": [{item}]")),
    };
    Ok(put(&text, place, depth, &new))
}

/// The value of a member of a table of the file.
pub(super) fn member(text: &str, table: &str, name: &str) -> Result<Option<Value>, String> {
    let root = parse(text)?;
    let Some(table_node) = root.member("the file", table)? else {
        return Ok(None);
    };
    let found = table_node.member(table, name)?;
    // Comments inside it: nobody's JSON, so it is not equal to any.
    Ok(found.map(|node| serde_json::from_str(&text[node.span.clone()]).unwrap_or_default()))
}

/// The text with this member in a table of the file, in place of one of its name; the table is made where
/// it is missing.
pub(super) fn with_member_of(
    text: &str,
    table: &str,
    name: &str,
    value: &Value,
) -> Result<String, String> {
    let mut text = with_member(text, table, &serde_json::json!({}))?;
    let root = parse(&text)?;
    let servers = root
        .member("the file", table)?
        .ok_or("a table that was put in is missing")?;
    let indent = indent_of(&text);
    let pretty = pretty(value, &indent).replace('\n', &format!("\n{}", indent.repeat(2)));
    match servers.member(table, name)? {
        Some(there) => {
            text.replace_range(there.span.clone(), &pretty);
            Ok(text)
        }
        None => Ok(put(&text, servers, 2, &format!("\"{name}\": {pretty}"))),
    }
}

fn pretty(value: &Value, indent: &str) -> String {
    let form = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut bytes = Vec::new();
    let mut to = serde_json::Serializer::with_formatter(&mut bytes, form);
    value
        .serialize(&mut to)
        .expect("JSON that was read can be written");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Puts a part at the end of an object or a list, on a line of its own.
fn put(text: &str, place: &JsonNode, depth: usize, new: &str) -> String {
    let indent = indent_of(text);
    let line = |depth: usize| format!("\n{}", indent.repeat(depth));
    let last = match &place.kind {
        JsonKind::Object(members) => members.last().map(|(.., node)| node.span.end),
        JsonKind::Array(items) => items.last().map(|node| node.span.end),
        JsonKind::Other => None,
    };
    let mut whole = text.to_owned();
    match last {
        Some(end) => whole.insert_str(end, &format!(",{}{new}", line(depth))),
        None => {
            let inside = place.span.start + 1..place.span.end - 1;
            let is_blank = text[inside.clone()].trim().is_empty();
            let tail = if is_blank {
                line(depth - 1)
            } else {
                String::new()
            };
            let span = if is_blank {
                inside
            } else {
                inside.start..inside.start
            };
            whole.replace_range(span, &format!("{}{new}{tail}", line(depth)));
        }
    }
    whole
}

/// As the file has it; two spaces in a new one.
fn indent_of(text: &str) -> String {
    let first = text
        .lines()
        .skip(1)
        .find(|line| line.starts_with([' ', '\t']));
    let blank = first.map(|line| {
        line.chars()
            .take_while(|c| *c == ' ' || *c == '\t')
            .collect()
    });
    blank.unwrap_or_else(|| "  ".to_owned())
}

/// Reads JSON, with comments and commas before an end, which some programs allow.
fn parse(text: &str) -> Result<JsonNode, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let start = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut reader = JsonParser { text, at: start };
    let node = reader.value(0)?;
    reader.space()?;
    match reader.at == text.len() {
        true => Ok(node),
        false => Err(reader.wrong("something follows its end")),
    }
}

struct JsonParser<'t> {
    text: &'t str,
    at: usize,
}

impl JsonParser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, why: &str) -> String {
        format!(
            "line {}: {why}",
            self.text[..self.at].matches('\n').count() + 1
        )
    }

    fn space(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let blank = rest.len() - trimmed.len();
            let comment = match () {
                () if trimmed.starts_with("//") => trimmed.find('\n').unwrap_or(trimmed.len()),
                () if trimmed.starts_with("/*") => {
                    trimmed
                        .find("*/")
                        .ok_or_else(|| self.wrong("a comment has no end"))?
                        + 2
                }
                () => 0,
            };
            self.at += blank + comment;
            if comment == 0 {
                return Ok(());
            }
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, String> {
        self.space()?;
        if depth > DEPTH_MAX {
            return Err(self.wrong("it is too deep"));
        }
        let start = self.at;
        let kind = match self.rest().chars().next() {
            Some('{') => {
                let mut members: Vec<(String, usize, JsonNode)> = Vec::new();
                self.parts('}', |reader| {
                    let start = reader.at;
                    let name = reader.text()?;
                    reader.space()?;
                    if !reader.take(':') {
                        return Err(reader.wrong("a colon is missing"));
                    }
                    if members.iter().any(|(known, ..)| *known == name) {
                        return Err(reader.wrong(&format!("{name:?} is there twice")));
                    }
                    members.push((name, start, reader.value(depth + 1)?));
                    Ok(())
                })?;
                JsonKind::Object(members)
            }
            Some('[') => {
                let mut items = Vec::new();
                self.parts(']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                JsonKind::Array(items)
            }
            Some('"') => self.text().map(|_| JsonKind::Other)?,
            _ => {
                let end = self
                    .rest()
                    .find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
                let word = &self.rest()[..end.unwrap_or(self.rest().len())];
                serde_json::from_str::<Value>(word).map_err(|_| self.wrong("no value is there"))?;
                self.at += word.len();
                JsonKind::Other
            }
        };
        Ok(JsonNode {
            span: start..self.at,
            kind,
        })
    }

    /// The parts between two brackets, with commas between.
    fn parts(
        &mut self,
        close: char,
        mut part: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.at += 1;
        loop {
            self.space()?;
            if self.take(close) {
                return Ok(());
            }
            part(self)?;
            self.space()?;
            if !self.take(',') && !self.rest().starts_with(close) {
                return Err(self.wrong("a comma is missing"));
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let mut is_escaped = false;
        let end = self.rest().char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        let Some((end, _)) = end.filter(|_| self.rest().starts_with('"')) else {
            return Err(self.wrong("a text is missing, or has no end"));
        };
        let found = serde_json::from_str(&self.rest()[..=end]);
        let found = found.map_err(|error| self.wrong(&error.to_string()))?;
        self.at += end + 1;
        Ok(found)
    }
}
