//! Usage errors: what clap found, said as every other failure is said, and with what to type instead.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{Exit, Failure};
use relight_core::shell::shell_word;

/// Whether the answer, and so the error too, is wanted as JSON. Asked before the flags are understood.
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json")
}

/// What is wrong with the command line, and what to type instead.
pub(crate) fn failure(error: &clap::Error, words: &[OsString]) -> Failure {
    let told = UsageMessage::of(error);
    let UsageMessage {
        message,
        tip,
        usage,
    } = &told;
    let given = context(error, ContextKind::InvalidArg);
    let (message, hint) = match (error.kind(), given) {
        (ErrorKind::ValueValidation, Some(flag)) => match number_trouble(error, message) {
            Some(trouble) => {
                let value = context(error, ContextKind::InvalidValue).unwrap_or_default();
                (
                    format!("invalid value '{value}' for '{flag}': {trouble}"),
                    None,
                )
            }
            None => (message.clone(), None),
        },
        // `-1`, `-5s`: a value, and not a flag.
        (ErrorKind::UnknownArgument, Some(word))
            if word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (no_negative_value(&word, words), usage.clone())
        }
        (ErrorKind::UnknownArgument, Some(word))
            if !word.starts_with('-') && usage.as_ref().is_some_and(|it| it.contains(" -- <")) =>
        {
            (message.clone(), Some(with_dashes(&word, words)))
        }
        (ErrorKind::UnknownArgument, Some(flag))
            if flag == "--tail" && words.iter().any(|word| word == "logs") =>
        {
            let hint = "relight logs -n COUNT shows the last lines";
            (message.clone(), Some(hint.to_owned()))
        }
        (ErrorKind::InvalidSubcommand, _) => {
            let other = usage.as_deref().filter(|it| *it == ROOT_USAGE);
            let other = other.and_then(|_| of_other_tools(error));
            let hint = other.or_else(|| nearest_commands(error)).or(usage.clone());
            (message.clone(), hint)
        }
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, _) => {
            ("a command is missing".to_owned(), usage.clone())
        }
        _ => (message.clone(), tip.clone().or(usage.clone())),
    };
    let failure = Failure::new(Exit::Usage, with_short_words(message, words));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The usage of a command line without a command that is known.
const ROOT_USAGE: &str = "relight [OPTIONS] <COMMAND>";
/// So many similar commands are named.
const NEAR_MAX: usize = 2;

/// What similar tools call a command of Relight.
fn of_other_tools(error: &clap::Error) -> Option<String> {
    let hint = match context(error, ContextKind::InvalidSubcommand)?.as_str() {
        "list" | "ls" => "relight ps lists agents, relight task list tasks",
        "top" => "relight ps --watch",
        "kill" => "relight stop NAME",
        "attach" | "tail" => "relight logs NAME -f",
        "rm" => {
            "relight stop NAME ends an agent, relight task cancel ID a task; relight prune removes old work"
        }
        "version" => "relight --version",
        "config" => {
            "relight init writes a relight.toml; relight setup config --print shows every key"
        }
        "info" => "relight status",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The most similar command first; clap sorts them the other way round.
fn nearest_commands(error: &clap::Error) -> Option<String> {
    let near = match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(near) => near
            .iter()
            .rev()
            .take(NEAR_MAX)
            .map(String::as_str)
            .collect(),
        ContextValue::String(near) => vec![near.as_str()],
        _ => return None,
    };
    Some(format!("did you mean {}?", near.join(" or ")))
}

/// A message that repeats no word of the command line beyond what a person reads.
fn with_short_words(mut message: String, words: &[OsString]) -> String {
    const SHOWN_MAX: usize = 200;
    for word in words {
        let word = word.to_string_lossy();
        // `--flag=value` is repeated without its flag.
        let value = word.split_once('=').map_or(&*word, |(_, value)| value);
        for long in [&*word, value]
            .into_iter()
            .filter(|text| text.len() > SHOWN_MAX)
        {
            let short = format!("{}…", &long[..long.floor_char_boundary(SHOWN_MAX)]);
            message = message.replace(long, &short);
        }
    }
    message
}

/// What clap would print, in its parts.
struct UsageMessage {
    message: String,
    tip: Option<String>,
    usage: Option<String>,
}

impl UsageMessage {
    fn of(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut told = Self {
            message: String::new(),
            tip: None,
            usage: None,
        };
        let mut is_message = true;
        for line in text.lines() {
            let (line, is_part) = (line.trim(), line.starts_with("  "));
            if let Some(tip) = line.strip_prefix("tip: ") {
                told.tip.get_or_insert_with(|| tip.to_owned());
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                told.usage = Some(usage.to_owned());
            } else if line.is_empty() {
                is_message = false;
            } else if is_message || (is_part && told.usage.is_none()) {
                let line = line.strip_prefix("error: ").unwrap_or(line);
                let gap = if told.message.is_empty() { "" } else { " " };
                told.message += &format!("{gap}{line}");
            }
        }
        told
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// What is wrong with a number. The messages of the standard library do not help a user.
fn number_trouble(error: &clap::Error, message: &str) -> Option<String> {
    let range = message.split_once(" is not in ").map(|(_, range)| range);
    if let Some((least, most)) = range.and_then(|range| range.split_once("..=")) {
        return Some(format!("write {least} to {most}"));
    }
    let source = error.source()?.downcast_ref::<ParseIntError>()?;
    let text = match source.kind() {
        IntErrorKind::PosOverflow => "the number is too large",
        IntErrorKind::NegOverflow => "the number is too small",
        _ => "write a whole number, such as 3",
    };
    Some(text.to_owned())
}

fn no_negative_value(value: &str, words: &[OsString]) -> String {
    // Of `-5s` clap knows only `-5`.
    let begins = |word: &OsString| word.to_string_lossy().starts_with(value);
    let at = words.iter().position(begins).unwrap_or_default();
    let value = words
        .get(at)
        .map_or(value.into(), |word| word.to_string_lossy());
    let flag = at.checked_sub(1).and_then(|before| words[before].to_str());
    match flag.filter(|flag| flag.starts_with('-')) {
        Some(flag) => format!("invalid value '{value}' for '{flag}': it must not be negative"),
        None => format!("unexpected argument '{value}' found"),
    }
}

/// The same command line with `--` before the command that is to be run.
fn with_dashes(command: &str, words: &[OsString]) -> String {
    let at = words
        .iter()
        .position(|word| word == command)
        .unwrap_or(words.len());
    let quoted = |words: &[OsString]| -> String {
        words
            .iter()
            .map(|word| format!(" {}", shell_word(&word.to_string_lossy())))
            .collect()
    };
    let (before, after) = words.split_at(at);
    let before = before.get(1..).unwrap_or_default();
    let before: Vec<OsString> = before
        .iter()
        .filter(|word| *word != "--json")
        .cloned()
        .collect();
    format!(
        "put -- before the command: relight{} --{}",
        quoted(&before),
        quoted(after)
    )
}
