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

    /// How far a copy is.
    pub(super) fn tell(&mut self, progress: &CopyProgress) {
        if self.what != progress.what {
            (self.what, self.begun) = (progress.what, Instant::now());
        }
        let (rows, total) = (progress.rows, progress.rows_total);
        self.draw(rows, total, |took| line(progress, took));
    }

    /// How many of these are done.
    pub(super) fn count(&mut self, what: &str, done: usize, total: usize) {
        let (done, total) = (done as u64, total as u64);
        self.draw(done, total, |took| {
            let left = seconds_left(done, total, took);
            format!("{what}: {done} of {total}, {left:.0} s left")
        });
    }

    fn draw(&mut self, done: u64, total: u64, text: impl FnOnce(Duration) -> String) {
        let now = Instant::now();
        let every = if self.is_terminal {
            DRAW_EVERY
        } else {
            LINE_EVERY
        };
        if self.environment.quiet || now - self.told_at < every {
            return;
        }
        self.told_at = now;
        let text = text(now - self.begun);
        if self.is_terminal {
            // Where it cannot be drawn, nobody looks.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{} {text}", bar(done, total));
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

fn bar(done: u64, total: u64) -> String {
    let full = done * WIDTH / total.max(1);
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
    let seconds = seconds_left(*rows, *rows_total, took);
    format!("{what} {table}: {rows} of {rows_total} rows, {percent} %, {seconds:.0} s left")
}

fn seconds_left(done: u64, total: u64, took: Duration) -> f64 {
    took.as_secs_f64() * total.saturating_sub(done) as f64 / done.max(1) as f64
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
                bar(rows, rows_total),
                line(&progress, Duration::from_secs(3))
            )
        };
        insta::assert_snapshot!(told(250, 1_000), @"[######------------------] copying journal: 250 of 1000 rows, 25 %, 9 s left");
        insta::assert_snapshot!(told(0, 0), @"[------------------------] copying journal: 0 of 0 rows, 0 %, 0 s left");
    }
}
