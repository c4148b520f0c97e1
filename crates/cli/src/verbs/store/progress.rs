//! How far something is that takes long: a bar on a terminal, now and then a line elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use relight_store::transfer::CopyProgress;
use tokio::time::Instant;

use crate::environment::Environment;
use crate::output;

/// How often a terminal is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often whoever reads a log wants to know.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Letters of a full bar.
const WIDTH: u64 = 24;

/// Tells on standard error, so that the answer stays alone on standard output.
pub(super) struct Bar<'a> {
    environment: &'a Environment,
    is_terminal: bool,
    begun: Instant,
    told_at: Instant,
    what: &'static str,
    is_drawn: bool,
}

impl<'a> Bar<'a> {
    pub(super) fn new(environment: &'a Environment) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self {
            environment,
            is_terminal,
            begun: now,
            told_at: now,
            what: "",
            is_drawn: false,
        }
    }

    pub(super) fn tell(&mut self, progress: &CopyProgress) {
        let now = Instant::now();
        if self.what != progress.what {
            (self.what, self.begun) = (progress.what, now);
        }
        let every = if self.is_terminal {
            DRAW_EVERY
        } else {
            LINE_EVERY
        };
        if self.environment.quiet || now - self.told_at < every {
            return;
        }
        self.told_at = now;
        let text = line(progress, now - self.begun);
        if self.is_terminal {
            // Where it cannot be drawn, nobody looks.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{} {text}", bar(progress));
            self.is_drawn = true;
        } else {
            output::note(self.environment, &text);
        }
    }

    /// Leaves the terminal as if nothing had been drawn.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn bar(progress: &CopyProgress) -> String {
    let full = progress.rows * WIDTH / progress.rows_total.max(1);
    let full = full.min(WIDTH) as usize;
    format!(
        "[{}{}]",
        "#".repeat(full),
        "-".repeat(WIDTH as usize - full)
    )
}

fn line(progress: &CopyProgress, took: Duration) -> String {
    let CopyProgress {
        what,
        table,
        rows,
        rows_total,
    } = progress;
    let percent = rows * 100 / (*rows_total).max(1);
    let left = rows_total.saturating_sub(*rows);
    let seconds = took.as_secs_f64() * left as f64 / (*rows).max(1) as f64;
    format!("{what} {table}: {rows} of {rows_total} rows, {percent} %, {seconds:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use relight_store::transfer::Table;

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_takes() {
        let told = |rows, rows_total| {
            let table = Table::Journal;
            let progress = CopyProgress {
                what: "copying",
                table,
                rows,
                rows_total,
            };
            format!(
                "{} {}",
                bar(&progress),
                line(&progress, Duration::from_secs(3))
            )
        };
        insta::assert_snapshot!(told(250, 1_000), @"[######------------------] copying journal: 250 of 1000 rows, 25 %, 9 s left");
        insta::assert_snapshot!(told(0, 0), @"[------------------------] copying journal: 0 of 0 rows, 0 %, 0 s left");
    }
}
