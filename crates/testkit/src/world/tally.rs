//! What was found, counted.

use std::fmt;
use std::sync::Mutex;

/// What a broken promise is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Something acknowledged is not there.
    Lost,
    /// Something finished was done again.
    Repeated,
    /// A step in doubt was not treated by its rule.
    Rule,
    /// A write behind a fence, or two holders at once.
    Fence,
    /// The store or a file is damaged, or cannot be used again.
    Damage,
    /// Two copies of one agent at once.
    Doubled,
    /// A process outlived its attempt.
    LeftBehind,
    /// A death without its cause, or a count that is wrong.
    Record,
    /// A process that is none of ours was signalled.
    Foreign,
    /// An exit code or an answer that the contract does not have.
    Answer,
}

/// One broken promise.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// How it shows.
    pub text: String,
}

impl Violation {
    /// A broken promise with what shows it.
    pub fn new(promise: Promise, text: impl Into<String>) -> Self {
        Self {
            promise,
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.text)
    }
}

/// The count of a suite; shared by its workers.
#[derive(Debug, Default)]
pub struct Tally {
    inner: Mutex<Counts>,
    /// Of a build that must fail: nobody is told of each violation.
    is_expected: bool,
}

/// The figures of a tally.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Trials without a violation.
    pub passed: u64,
    /// Trials with one.
    pub failed: u64,
    /// Violations of each kind that matters most.
    pub lost: u64,
    /// Finished steps that ran again.
    pub repeated: u64,
    /// Agents of which two copies lived at once.
    pub doubled: u64,
    /// Processes that outlived their attempt.
    pub left_behind: u64,
    /// The first few violations with what replays them.
    pub shown: Vec<String>,
    /// What could not be tried here.
    pub skipped: Vec<String>,
}

/// Most violations that are printed.
const SHOWN_MAX: usize = 20;

impl Tally {
    /// Counts what a deliberately broken build does wrong.
    pub fn of_broken_build() -> Self {
        Self {
            is_expected: true,
            ..Self::default()
        }
    }

    /// Counts one trial.
    pub fn trial(&self, replay: &str, violations: &[Violation]) {
        let mut counts = self.lock();
        if violations.is_empty() {
            counts.passed += 1;
            return;
        }
        counts.failed += 1;
        for violation in violations {
            counts.lost += u64::from(violation.promise == Promise::Lost);
            counts.repeated += u64::from(violation.promise == Promise::Repeated);
            counts.doubled += u64::from(violation.promise == Promise::Doubled);
            counts.left_behind += u64::from(violation.promise == Promise::LeftBehind);
            let line = format!("{replay}: {violation}");
            if !self.is_expected {
                eprintln!("VIOLATION {line}");
            }
            if counts.shown.len() < SHOWN_MAX {
                counts.shown.push(line);
            }
        }
    }

    /// Says loudly that something was not tried.
    pub fn skip(&self, what: &str, why: &str) {
        let line = format!("{what} SKIPPED: {why}");
        eprintln!("\n*** {line} ***\n");
        self.lock().skipped.push(line);
    }

    /// The figures now.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.inner.lock().expect("nothing panics while it counts")
    }
}
