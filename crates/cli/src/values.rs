//! Reads single values of the command line.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use relight_core::ids::check_skill;
use relight_core::limits;
use relight_core::time::{Moment, Span, Time, TimeError};
use relight_runtime::operations::fields::EMPTY_KEY;
use relight_runtime::os::clock;
use relight_runtime::state_location::missing_folder;

/// A time to come, or a duration from now.
pub(crate) fn later(text: &str) -> Result<Moment, TimeError> {
    let moment: Moment = text.parse()?;
    moment.after(clock::now()).map(|_| moment)
}

/// A time that has passed, or a duration before now.
pub(crate) fn earlier(text: &str) -> Result<Time, TimeError> {
    Ok(match text.parse()? {
        Moment::At(time) => time,
        Moment::In(span) => clock::now().minus(span),
    })
}

/// A regular expression.
pub(crate) fn pattern(text: &str) -> Result<regex_lite::Regex, String> {
    regex_lite::Regex::new(text).map_err(|error| {
        format!(
            "it is not a regular expression: {error}; put \\ before a character that stands for itself"
        )
    })
}

/// A number that the store can hold.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let number = text
        .parse()
        .ok()
        .and_then(|number| limits::number(number).ok());
    number.ok_or_else(|| format!("write 0 to {}", i64::MAX))
}

/// Which of the steps with a name.
pub(crate) fn occurrence(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| format!("write 1 to {}", u32::MAX))
}

/// How long a lease lasts.
pub fn lease(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: TimeError| error.to_string())?;
    relight_core::lease::of_length(span).map_err(|error| error.to_string())
}

/// A file or folder that may be new, in a folder that is there: a new folder for a mistyped path would
/// be found by nobody.
pub(crate) fn new_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match missing_folder(&path) {
        Some(folder) => Err(format!("there is no folder {}", folder.display())),
        None => Ok(path),
    })
}

/// The same for the folder of a program's own files, such as `.claude/skills`: a hidden folder is made
/// with it.
pub(crate) fn new_folder_of_program() -> impl TypedValueParser<Value = PathBuf> {
    let is_hidden = |folder: &Path| {
        let name = folder.file_name();
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            && missing_folder(folder).is_none()
    };
    PathBufValueParser::new().try_map(move |path| match missing_folder(&path) {
        Some(folder) if !is_hidden(folder) => {
            Err(format!("there is no folder {}", folder.display()))
        }
        _ => Ok(path),
    })
}

/// A number from 1.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("write a number from 1".to_owned()),
    }
}

/// `KEY=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err(EMPTY_KEY.to_owned()),
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("write KEY=VALUE".to_owned()),
    }
}

/// Any JSON, read strictly.
pub fn json(text: &str) -> Result<serde_json::Value, String> {
    // How deep a payload may be is decided for all fronts where it is stored.
    let limits = relight_core::checkpoint::Limits {
        depth_max: 64,
        ..Default::default()
    };
    relight_core::checkpoint::parse_strict(text.as_bytes(), limits).map_err(|e| e.to_string())
}

/// A word that tasks ask for and agents declare.
pub(crate) fn skill(text: &str) -> Result<String, String> {
    check_skill(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// `5` or `5/s`.
pub fn rate(text: &str) -> Result<u32, String> {
    let count = text.strip_suffix("/s").unwrap_or(text);
    count
        .parse()
        .map_err(|_| "write how many in a second: 5/s".to_owned())
}

/// A program and its arguments, or some arguments, that were written as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

/// Words separated by spaces; quotes keep a word together, a backslash the next character (within
/// `"…"` only before `"` and `\`). No shell: nothing is expanded.
pub fn words(text: &str) -> Result<Words, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"'), '\\') if matches!(rest.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(rest.next());
            }
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                let kept = rest.next().ok_or("nothing follows the last backslash")?;
                word.get_or_insert_default().push(kept);
            }
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quote {open} is not closed"));
    }
    words.extend(word);
    if words.is_empty() {
        Err("there is no word in it".to_owned())
    } else {
        Ok(Words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_and_kept_by_quotes_without_a_shell() {
        let split = |text| words(text).map(|words| words.0);
        assert_eq!(
            split(" ./done.sh  --quiet ").unwrap(),
            ["./done.sh", "--quiet"]
        );
        let kept = split(r#"test 'a  $b' "c \"d\" \n" e\ f '' x"y"z"#).unwrap();
        assert_eq!(kept, ["test", "a  $b", r#"c "d" \n"#, "e f", "", "xyz"]);
        for bad in ["", "   ", "a 'b", "a \"b", "a \\"] {
            assert!(split(bad).is_err(), "{bad:?} was taken");
        }
    }
}
