//! Printing: people's text cleaned of control sequences, or one JSON document.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::time::Duration;

use relight_core::agent::plain::harmless_json;
pub(crate) use relight_core::shell::{shell_quote, shell_word};
use relight_runtime::operations::view::List;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::line_writer::{LINES_MAX, Voice};
use crate::log::{self, Level, Line};
use crate::terminal_filter::clean;

/// How long the end of a process waits for whoever reads its standard error.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// More of a table's cell is not shown.
const CELL_CHARS_MAX: usize = 200;
/// A column is not made narrower than this to fit a terminal.
const CELL_CHARS_MIN: usize = 6;
/// Between two columns.
const GAP: usize = 2;
/// A longer cell or name moves only the rest of its own line, instead of every line.
pub(crate) const PAD_CHARS_MAX: usize = 48;

/// What printing depends on: global flags and the environment.
pub(crate) trait OutputSettings {
    /// The answer is printed as JSON.
    fn is_json(&self) -> bool;
    /// Only the answer is printed.
    fn is_quiet(&self) -> bool;
    /// A variable that is set, not empty and text.
    fn variable(&self, name: &str) -> Option<&str>;
}

/// Prints a line, or ends quietly when nobody reads any more.
pub(crate) fn line(text: &str) {
    write_out(format!("{text}\n").as_bytes());
}

/// Prints bytes as they are. An answer that cannot be given is no success.
pub(crate) fn write_out(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            complain(&format!("relight: cannot write the answer: {error}"));
            std::process::exit(i32::from(Exit::Io as u8));
        }
    }
}

/// A line on standard error; where nobody can read it there is nobody to tell.
fn complain(line: &str) {
    match VOICE.get() {
        Some(voice) => voice.say(format!("{line}\n")),
        None => {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

/// What supervises must not wait until somebody reads what it says. Standard error is one for the process.
static VOICE: OnceLock<Voice> = OnceLock::new();

/// From now on nobody waits for whoever reads standard error. Where that cannot be had, everybody does.
pub(crate) fn wait_for_no_reader() {
    let voice = || {
        let copy = std::io::stderr().as_fd().try_clone_to_owned()?;
        Voice::new(std::fs::File::from(copy), LINES_MAX)
    };
    if VOICE.get().is_none()
        && let Ok(voice) = voice()
    {
        let _ = VOICE.set(voice);
    }
}

/// Waits a little for what was said to be written, before the process ends.
pub(crate) fn settle() {
    if let Some(voice) = VOICE.get() {
        let _ = voice.settle(SETTLE_MAX);
    }
}

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).expect("answers have string keys");
    line(&harmless_json(&text));
}

/// Prints one JSON document on one line.
pub(crate) fn json_line(value: &impl Serialize) {
    let text = serde_json::to_string(value).expect("answers have string keys");
    line(&harmless_json(&text));
}

/// Prints text for people, or the JSON document when that is wanted.
pub(crate) fn answer(settings: &impl OutputSettings, value: &impl Serialize, text: &str) {
    if settings.is_json() {
        json(value);
    } else if !settings.is_quiet() && !text.is_empty() {
        line(&clean(text));
    }
}

/// Prints a list that is complete: text for people, or the envelope of every list.
pub(crate) fn list<T: Serialize>(settings: &impl OutputSettings, items: Vec<T>, text: &str) {
    answer(settings, &List::new(items, None), text);
}

/// Says something beside the answer.
pub(crate) fn note(settings: &impl OutputSettings, text: &str) {
    if !settings.is_quiet() {
        say(&Line::of(Level::Info, "note", text));
    }
}

/// Says what a person has to know, quiet or not.
pub(crate) fn alert(text: &str) {
    say(&Line::of(Level::Error, "alert", text));
}

/// Says which rows of a list cannot be read and are left out.
pub(crate) fn left_out(unreadable: &[String]) {
    for row in unreadable {
        alert(&format!("{row}; it is left out (relight doctor says more)"));
    }
}

/// Says one thing.
pub(crate) fn say(line: &Line<'_>) {
    complain(&line.written());
}

/// Says why not, and what to type next.
pub(crate) fn failure(json: bool, failure: &Failure) {
    if log::is_json() {
        let hint = failure.hint.as_deref();
        return say(&Line {
            hint,
            ..Line::of(Level::Error, "failed", &failure.message)
        });
    }
    if json {
        let body = serde_json::json!({"error": failure.json()});
        complain(&harmless_json(&body.to_string()));
        return;
    }
    let (error, try_this, plain) = match has_colours_on_stderr() {
        true => ("\u{1b}[1;31m", "\u{1b}[36m", "\u{1b}[0m"),
        false => ("", "", ""),
    };
    complain(&format!(
        "{error}relight:{plain} {}",
        clean(&failure.message)
    ));
    if let Some(hint) = &failure.hint {
        complain(&format!("  {try_this}try:{plain} {}", clean(hint)));
    }
}

/// Whether a person looks at standard output.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether colours are wanted: on a terminal that knows them, unless `NO_COLOR` says no.
pub(crate) fn has_colours(settings: &impl OutputSettings) -> bool {
    let knows_them = settings
        .variable("TERM")
        .is_some_and(|terminal| terminal != "dumb");
    is_terminal() && knows_them && settings.variable("NO_COLOR").is_none()
}

/// The same for standard error. Errors come also before the flags are understood.
fn has_colours_on_stderr() -> bool {
    let variables = relight_runtime::os::environment::variables();
    let get = |wanted: &str| {
        let found = relight_runtime::os::environment::texts(&variables)
            .find(|(name, value)| *name == wanted && !value.is_empty());
        found.map(|(_, value)| value.to_owned())
    };
    let knows_them = get("TERM").is_some_and(|terminal| terminal != "dumb");
    std::io::stderr().is_terminal() && knows_them && get("NO_COLOR").is_none()
}

/// The first `chars_max` characters of a text, with a sign that it continues.
pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A number with its noun.
pub(crate) fn count_of(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The folder that whoever reads this is in.
pub(crate) fn here() -> Option<String> {
    let here = std::env::current_dir().ok()?;
    Some(here.to_string_lossy().into_owned())
}

/// Text that must stay on one line: a line break in it is shown, not obeyed.
pub fn one_line(text: &str) -> String {
    clean(text).replace('\n', "\\n")
}

/// Columns under each other, as wide as their widest cell. A long cell is cut, so that one row does
/// not make the whole list unreadable.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    laid_out(rows, CELL_CHARS_MAX)
}

/// One thing, a fact in each row: nothing is cut.
pub(crate) fn facts(rows: &[Vec<String>]) -> String {
    laid_out(rows, usize::MAX)
}

/// A table that is no wider than this: its widest columns are cut first.
pub(crate) fn fitted(rows: &[Vec<String>], width: usize) -> String {
    let rows = cells(rows, CELL_CHARS_MAX);
    let mut widths = widths(&rows);
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= CELL_CHARS_MIN {
            break;
        }
        *widest -= 1;
    }
    let fit = |(cell, width): (&String, &usize)| match cell.chars().count() > *width {
        true => shorten(cell, width - 1),
        false => cell.clone(),
    };
    let fitted = |row: &Vec<String>| row.iter().zip(&widths).map(fit).collect();
    lines(&rows.iter().map(fitted).collect::<Vec<_>>(), &widths)
}

/// Columns and rows of the terminal on standard output; none where that is not a terminal.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    // Some terminals do not know theirs.
    let or = |count: u16, usual| match usize::from(count) {
        0 => usual,
        count => count,
    };
    Some((or(size.ws_col, 80), or(size.ws_row, 24)))
}

fn laid_out(rows: &[Vec<String>], chars_max: usize) -> String {
    let rows = cells(rows, chars_max);
    let widths: Vec<usize> = widths(&rows)
        .into_iter()
        .map(|width| width.min(PAD_CHARS_MAX))
        .collect();
    lines(&rows, &widths)
}

fn cells(rows: &[Vec<String>], chars_max: usize) -> Vec<Vec<String>> {
    let cell = |cell: &String| shorten(&one_line(cell), chars_max);
    rows.iter()
        .map(|row| row.iter().map(cell).collect())
        .collect()
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

fn lines(rows: &[Vec<String>], widths: &[usize]) -> String {
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line += cell;
            let pad = width.saturating_sub(cell.chars().count()) + GAP;
            line.extend(std::iter::repeat_n(' ', pad));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use relight_core::ids::is_obeyed;

    use super::*;

    #[test]
    fn no_cell_breaks_a_table() {
        let row = |text: String| vec!["t".to_owned(), text, "ready".to_owned()];
        let text = table(&[
            row("ü".repeat(70_000)),
            row(String::new()),
            row("a\nb".into()),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() < 2 * CELL_CHARS_MAX),
            "{text}"
        );
    }

    #[test]
    fn a_long_cell_moves_only_its_own_line() {
        let row = |text: &str| vec![text.to_owned(), "running".to_owned()];
        let text = table(&[row("agent"), row(&"a".repeat(100)), row("b")]);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        let short = PAD_CHARS_MAX + GAP + "running".len();
        assert_eq!(widths, [short, 100 + GAP + "running".len(), short]);
    }

    #[test]
    fn a_fitted_table_cuts_its_widest_columns_and_no_others() {
        let row = |texts: [&str; 3]| texts.map(str::to_owned).to_vec();
        let rows = [
            row(["agent", "state", "task"]),
            row([
                "writer",
                "running",
                "a-very-long-task-id · a very long step",
            ]),
        ];
        insta::assert_snapshot!(fitted(&rows, 40), @r"
        agent   state    task
        writer  running  a-very-long-task-id · …
        ");
        assert_eq!(fitted(&rows, 100), table(&rows));
        let narrow = fitted(&rows, 10);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 22),
            "{narrow}"
        );
    }

    #[test]
    fn facts_of_one_thing_are_not_cut() {
        let remedy = format!("cd {} && relight run -- x", "d".repeat(2 * CELL_CHARS_MAX));
        assert!(facts(&[vec!["state".to_owned(), remedy.clone()]]).ends_with(&remedy));
    }

    #[test]
    fn exported_values_are_one_literal_word() {
        insta::assert_snapshot!(shell_quote("a'b $(id); `x`"), @r"'a'\''b $(id); `x`'");
    }

    #[test]
    fn json_says_the_same_without_what_a_terminal_obeys() {
        let nasty = "a\u{1b}]0;x\u{7}\u{7f}\u{9b}31m\u{202e}\u{2066}b\n\tü";
        let document = serde_json::to_string_pretty(&serde_json::json!({ "text": nasty })).unwrap();
        let shown = harmless_json(&document);
        assert!(!shown.contains(|c| is_obeyed(c) && c != '\n'), "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["text"], nasty);
    }
}
