//! The end of an attempt, its cause, and what was found then.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::StopReason;
use crate::time::{Span, Time};

/// Why an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It did what it should.
    Completed,
    /// It ended with another code than 0, could not be started, or left its task unfinished.
    Failed,
    /// A signal that Relight did not send.
    Signal,
    /// The kernel needed its memory.
    Oom,
    /// Silent for too long, and stopped for it.
    Hung,
    /// It took too long, and was stopped for it.
    Timeout,
    /// Told to end.
    Stopped,
    /// It is gone and nothing can tell how it ended.
    Lost,
    /// It said "later".
    Deferred,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::Failed,
        Self::Signal,
        Self::Oom,
        Self::Hung,
        Self::Timeout,
        Self::Stopped,
        Self::Lost,
        Self::Deferred,
    ];

    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Signal => "signal",
            Self::Oom => "oom",
            Self::Hung => "hung",
            Self::Timeout => "timeout",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Deferred => "deferred",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a process ended, as the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowEnded {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows.
    Unknown,
}

/// What is known of an end before its cause is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// When, by the wall clock; its last sign of life where nobody saw it end.
    pub at: Time,
    /// Its last sign of life, where it was ended for its silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sign: Option<Time>,
    /// How long it lived, by a clock that does not jump.
    #[serde(rename = "lived_ms")]
    pub lived: Span,
    /// How it ended.
    pub how: HowEnded,
    /// The kernel says that it needed the memory.
    pub oom: bool,
    /// A task that it held and did not finish; exit 0 is no success then.
    pub unfinished_task: Option<String>,
    /// A step or a task was finished in this attempt.
    pub made_progress: bool,
    /// It was lost with its node: that is not the agent's doing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_lost: bool,
    /// What its preset read in its output, when that says more than the code.
    pub said: Option<ReportedEnd>,
    /// What else is known, in words: why it could not be started, which limit it met.
    pub note: Option<String>,
}

/// What an agent's own output says about its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedEnd {
    /// It succeeded.
    Success,
    /// It failed, and how.
    Failure(String),
    /// It may go on then.
    Later(Option<Time>),
}

/// A death with its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDeath {
    /// Why.
    pub cause: Cause,
    /// The facts.
    #[serde(flatten)]
    pub death: Death,
}

/// The exit code that means "later".
pub const EXIT_LATER: i32 = 75;

impl Death {
    /// A death of which nothing is known but that it happened.
    pub fn lost(at: Time, note: impl Into<String>) -> Self {
        Self {
            at,
            last_sign: None,
            lived: Span::ZERO,
            how: HowEnded::Unknown,
            oom: false,
            unfinished_task: None,
            made_progress: false,
            node_lost: false,
            said: None,
            note: Some(note.into()),
        }
    }

    /// The cause. What Relight did to it counts first, then what the kernel says, then what the agent
    /// said itself, then the code.
    pub fn cause(&self, ending: Option<StopReason>) -> Cause {
        match ending {
            Some(StopReason::Stop | StopReason::Shutdown | StopReason::Restart) => {
                return Cause::Stopped;
            }
            Some(StopReason::Hung) => return Cause::Hung,
            Some(StopReason::Timeout) => return Cause::Timeout,
            None => {}
        }
        if self.oom {
            return Cause::Oom;
        }
        match (&self.said, self.how) {
            (_, HowEnded::Signal(_)) => Cause::Signal,
            (_, HowEnded::Unknown) => Cause::Lost,
            (Some(ReportedEnd::Later(_)), _) | (None, HowEnded::Code(EXIT_LATER)) => {
                Cause::Deferred
            }
            (Some(ReportedEnd::Failure(_)), _) => Cause::Failed,
            (Some(ReportedEnd::Success), HowEnded::Code(_)) | (None, HowEnded::Code(0)) => {
                if self.unfinished_task.is_some() { Cause::Failed } else { Cause::Completed }
            }
            (None, HowEnded::Code(_)) => Cause::Failed,
        }
    }
}

impl RecordedDeath {
    /// Since when it did not work: from its last sign of life, or its death. Time to recover counts from
    /// here, and not from when somebody noticed.
    pub fn down_since(&self) -> Time {
        self.death.last_sign.map_or(self.death.at, |sign| sign.min(self.death.at))
    }

    /// Whether it ended against everybody's will, and is to be brought back.
    pub fn is_unwanted(&self) -> bool {
        !matches!(self.cause, Cause::Completed | Cause::Stopped | Cause::Deferred)
    }

    /// In words: `exit 1`, `signal 9 (KILL)`, `exit 0 without finishing task t`.
    pub fn in_words(&self) -> String {
        let how = match self.death.how {
            HowEnded::Code(code) => format!("exit {code}"),
            HowEnded::Signal(signal) => format!("signal {signal} ({})", signal_name(signal)),
            HowEnded::Unknown => "its exit is unknown".to_owned(),
        };
        match (&self.death.unfinished_task, self.cause) {
            (Some(task), Cause::Failed) if self.death.how == HowEnded::Code(0) => {
                format!("{how} without finishing task {task}")
            }
            _ => how,
        }
    }
}

/// The usual name of a signal, without `SIG`.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        10 => "USR1",
        11 => "SEGV",
        12 => "USR2",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        31 => "SYS",
        _ => "other",
    }
}

/// What was found at a death, for whoever asks why and for the successor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PostMortem {
    /// The last lines of output, redacted.
    pub last_output: String,
    /// The task it held.
    pub task: Option<String>,
    /// The last step that was recorded.
    pub last_step: Option<String>,
    /// Steps that are finished; the last of them.
    pub done: Vec<String>,
    /// How many are finished.
    #[serde(default)]
    pub done_count: u64,
    /// Steps that were begun and not ended.
    pub in_doubt: Vec<String>,
    /// The step to go on with.
    pub next: Option<String>,
    /// The most memory that its leader had, in KiB.
    pub memory_max_kib: Option<u64>,
    /// Processor time of its leader and what it waited for.
    pub cpu_ms: Option<u64>,
    /// Processes that outlived the leader and were stopped.
    pub leftovers: u32,
    /// Processes that could not be stopped.
    pub survivors: u32,
}
