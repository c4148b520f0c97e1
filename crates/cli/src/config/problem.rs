//! What is wrong with a configuration, and where: file, line, column, the line itself with a caret.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use relight_redact::{MarkKey, Redactor};

use crate::exit::{Exit, Failure};

/// More are told as a number.
const TOLD_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 160;

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<ReadProblem>>);

#[derive(Debug)]
struct ReadProblem {
    place: Range<usize>,
    text: String,
    hint: Option<String>,
}

impl Problems {
    pub(super) fn add(&self, place: Range<usize>, text: &str, hint: Option<&str>) {
        let (text, hint) = (text.to_owned(), hint.map(str::to_owned));
        self.0.borrow_mut().push(ReadProblem { place, text, hint });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All of them in the order of the file.
    pub(super) fn into_error(self, text: &str, file: &Path) -> ConfigError {
        let mut found = self.0.into_inner();
        found.sort_by_key(|problem| (problem.place.start, problem.place.end));
        let problems = found
            .iter()
            .map(|found| ConfigProblem::new(found, text))
            .collect();
        ConfigError {
            file: file.to_path_buf(),
            problems,
        }
    }
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(crate) file: PathBuf,
    /// All of them.
    pub problems: Vec<ConfigProblem>,
}

/// One mistake.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What it is.
    pub(crate) text: String,
    /// What was expected.
    pub(crate) hint: Option<String>,
    /// The line, unless it holds a secret.
    shown: Option<String>,
    /// How many characters are meant.
    width: usize,
}

impl ConfigProblem {
    fn new(found: &ReadProblem, text: &str) -> Self {
        let start = floor_boundary(text, found.place.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let end = floor_boundary(text, found.place.end.min(line_start + line.len())).max(start);
        let column = text[line_start..start].chars().count() + 1;
        let shown: String = line.chars().take(LINE_CHARS_MAX).map(plain).collect();
        Self {
            line: text[..start].matches('\n').count() + 1,
            column,
            text: found.text.clone(),
            hint: found.hint.clone().filter(|hint| !has_secret(hint)),
            width: text[start..end].chars().count().max(1),
            shown: (column <= LINE_CHARS_MAX && !has_secret(line)).then_some(shown),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().take(TOLD_MAX).enumerate() {
            let gap = if at > 0 { "\n\n" } else { "" };
            let ConfigProblem {
                line, column, text, ..
            } = problem;
            write!(f, "{gap}{}:{line}:{column}: {text}", self.file.display())?;
            problem.picture(f)?;
        }
        match self.problems.len().saturating_sub(TOLD_MAX) {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl ConfigProblem {
    fn picture(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = self.hint.as_deref().unwrap_or_default();
        let Some(shown) = &self.shown else {
            return if hint.is_empty() {
                Ok(())
            } else {
                write!(f, "\n  {hint}")
            };
        };
        let number = self.line.to_string();
        let left = " ".repeat(number.len());
        let before = " ".repeat(self.column - 1);
        let width = self.width.min(LINE_CHARS_MAX + 1 - self.column);
        let under = format!("  {left} | {before}{} {hint}", "^".repeat(width));
        write!(f, "\n  {number} | {shown}\n{}", under.trim_end())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let text = match error.problems.len() {
            1 => error.to_string(),
            several => format!("{several} mistakes in the configuration\n{error}"),
        };
        Self::new(Exit::Config, text)
    }
}

/// One column wide.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// A mistake may stand beside a secret, and what is printed may be kept.
fn has_secret(line: &str) -> bool {
    let redactor = Redactor::new(MarkKey::new([0; 32]));
    // This key sounds like a secret's and holds names of variables.
    let line = line.replace("env_pass", "env");
    redactor.text(&line) != line
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
