//! The end of an attempt: its cause and post-mortem.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::StopReason;
use crate::time::{Span, Time};

/// Why an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It succeeded.
    Completed,
    /// It exited with a non-zero code, could not be started, or left its task unfinished.
    Failed,
    /// A signal that Relight did not send.
    Signal,
    /// Killed by the kernel for lack of memory.
    Oom,
    /// Stopped because it was silent for too long.
    Hung,
    /// Stopped because it exceeded its time limit.
    Timeout,
    /// Stopped on request.
    Stopped,
    /// It is gone and how it ended is unknown.
    Lost,
    /// It asked to be resumed later.
    Deferred,
}

impl Cause {
    /// All causes, by number.
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

    /// Its name in JSON, SQL and output.
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

/// How a process ended, as the system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowEnded {
    /// Exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Unknown.
    Unknown,
}

/// The facts of a death, before its cause is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Time by the wall clock; its last sign of life if nobody saw it end.
    pub at: Time,
    /// Its last sign of life, if it was stopped for its silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sign: Option<Time>,
    /// How long it ran, by a monotonic clock.
    #[serde(rename = "lived_ms")]
    pub lived: Span,
    /// How it ended.
    pub how: HowEnded,
    /// The kernel reported an OOM kill.
    pub oom: bool,
    /// A task that it held and did not finish; exit 0 is then not a success.
    pub unfinished_task: Option<String>,
    /// A step or a task was finished in this attempt.
    pub made_progress: bool,
    /// It was lost with its node, which is not the agent's fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_lost: bool,
    /// The end that its output reports, if its preset found one.
    pub said: Option<ReportedEnd>,
    /// Further details: why it could not be started, which limit it reached.
    pub note: Option<String>,
}

/// The end of an attempt as its own output reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedEnd {
    /// It succeeded.
    Success,
    /// It failed, with this message.
    Failure(String),
    /// It failed with an error that no retry can cure; a person has to act.
    Incurable(String),
    /// The session that it should resume does not exist: the next attempt begins a new one.
    SessionGone,
    /// It asked to be resumed at this time.
    Later(Option<Time>),
    /// A limit of its provider stopped it.
    Limited {
        /// The end of the limit, where that is known.
        until: Option<Time>,
        /// The message.
        why: String,
    },
}

/// Words of errors that stay until a person acts, in lower case: a wrong key, an unknown model, a wrong
/// option, money that is spent.
const INCURABLE: [&str; 25] = [
    "401 unauthorized",
    "invalid api key",
    "invalid x-api-key",
    "incorrect api key",
    "api key not valid",
    "authentication_error",
    "unauthenticated",
    "auth_error",
    "not logged in",
    "please run /login",
    "model_not_found",
    "issue with the selected model",
    "unknown option",
    "unknown argument",
    "unexpected argument",
    "credit balance is too low",
    "out of credits",
    "insufficient_quota",
    "quota exceeded. check your plan",
    "monthly spend limit",
    "ran out of room in the model's context window",
    "exceeds the context window",
    "error_max_budget_usd",
    "maximum budget",
    "permission_denied",
];

impl ReportedEnd {
    /// A failure with this message and, where it is known, the HTTP status of the provider's answer.
    pub fn failed(status: Option<u16>, message: String) -> Self {
        let words = message.to_ascii_lowercase();
        let names_model = words.contains("model")
            && [
                "does not exist",
                "is not supported",
                "not found",
                "not configured",
            ]
            .iter()
            .any(|it| words.contains(it));
        let is_incurable = matches!(status, Some(401..=403))
            || names_model
            || INCURABLE.iter().any(|known| words.contains(known));
        let message = match status {
            Some(status) if !message.contains(&status.to_string()) => {
                format!("{status}: {message}")
            }
            _ => message,
        };
        if is_incurable {
            Self::Incurable(message)
        } else {
            Self::Failure(message)
        }
    }

    /// The message of a failure or of a limit.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Failure(why) | Self::Incurable(why) | Self::Limited { why, .. } => Some(why),
            Self::Success | Self::SessionGone | Self::Later(_) => None,
        }
    }

    /// Whether it is to be resumed later, which is not a failure.
    pub fn is_later(&self) -> bool {
        matches!(self, Self::Later(_) | Self::Limited { .. })
    }

    /// When it is to be resumed, where that is known.
    pub fn resumes_at(&self) -> Option<Time> {
        match self {
            Self::Later(at) | Self::Limited { until: at, .. } => *at,
            _ => None,
        }
    }

    /// The same with another message.
    #[must_use]
    pub fn map_why(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failure(why) => Self::Failure(change(why)),
            Self::Incurable(why) => Self::Incurable(change(why)),
            Self::Limited { until, why } => Self::Limited {
                until,
                why: change(why),
            },
            Self::Success | Self::SessionGone | Self::Later(_) => self,
        }
    }
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

/// The exit code that asks to be resumed later.
pub const EXIT_LATER: i32 = 75;

impl Death {
    /// A death of unknown cause.
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

    /// Whether it told of its success before it was ended, whoever ended it.
    pub fn has_said_success(&self) -> bool {
        self.said == Some(ReportedEnd::Success) && self.unfinished_task.is_none()
    }

    /// Determines the cause. Precedence: a stop by Relight, the kernel's report, the agent's own
    /// report, the exit code.
    pub fn cause(&self, ending: Option<StopReason>) -> Cause {
        match ending {
            Some(
                StopReason::Stop | StopReason::Shutdown | StopReason::Restart | StopReason::Budget,
            ) => return Cause::Stopped,
            // It waits for its limit, and has nothing to say meanwhile.
            Some(StopReason::Hung) if self.said.as_ref().is_some_and(ReportedEnd::is_later) => {
                return Cause::Deferred;
            }
            Some(StopReason::Hung) => return Cause::Hung,
            Some(StopReason::Timeout) => return Cause::Timeout,
            Some(StopReason::Incurable) => return Cause::Failed,
            None => {}
        }
        if self.oom {
            return Cause::Oom;
        }
        match (&self.said, self.how) {
            (_, HowEnded::Signal(_)) => Cause::Signal,
            (_, HowEnded::Unknown) => Cause::Lost,
            (Some(ReportedEnd::Later(_) | ReportedEnd::Limited { .. }), _)
            | (None, HowEnded::Code(EXIT_LATER)) => Cause::Deferred,
            (
                Some(
                    ReportedEnd::Failure(_) | ReportedEnd::Incurable(_) | ReportedEnd::SessionGone,
                ),
                _,
            ) => Cause::Failed,
            (Some(ReportedEnd::Success), HowEnded::Code(_)) | (None, HowEnded::Code(0)) => {
                if self.unfinished_task.is_some() {
                    Cause::Failed
                } else {
                    Cause::Completed
                }
            }
            (None, HowEnded::Code(_)) => Cause::Failed,
        }
    }
}

impl RecordedDeath {
    /// Since when it was down: its last sign of life, or its death. The time to recover is counted
    /// from here, not from when the death was noticed.
    pub fn down_since(&self) -> Time {
        self.death
            .last_sign
            .map_or(self.death.at, |sign| sign.min(self.death.at))
    }

    /// Whether it ended unexpectedly and should be restarted.
    pub fn is_unwanted(&self) -> bool {
        !matches!(
            self.cause,
            Cause::Completed | Cause::Stopped | Cause::Deferred
        )
    }

    /// How long it lived, as text. If nobody saw its end, that is only known up to its last sign of
    /// life: `at least 13ms`.
    pub fn lived_in_words(&self) -> String {
        let lived = self.death.lived;
        match self.death.how {
            HowEnded::Unknown => format!("at least {lived}"),
            HowEnded::Code(_) | HowEnded::Signal(_) => lived.to_string(),
        }
    }

    /// Its cause and how it ended, `failed, exit 1`; a signal that is the cause is named once.
    pub fn cause_in_words(&self) -> String {
        match (self.cause, self.death.how) {
            (Cause::Signal, HowEnded::Signal(_)) => self.in_words(),
            (cause, _) => format!("{cause}, {}", self.in_words()),
        }
    }

    /// As text: `exit 1`, `signal 9 (KILL)`, `exit 0 without finishing task t`.
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

/// The post-mortem of an attempt, for users and the successor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PostMortem {
    /// The last lines of output, redacted.
    pub last_output: String,
    /// The task it held.
    pub task: Option<String>,
    /// The last step that was recorded.
    pub last_step: Option<String>,
    /// The last finished steps.
    pub done: Vec<String>,
    /// How many are finished.
    #[serde(default)]
    pub done_count: u64,
    /// Steps that were begun and not ended.
    pub in_doubt: Vec<String>,
    /// The step to resume with.
    pub next: Option<String>,
    /// Peak memory of its main process, in KiB.
    pub memory_max_kib: Option<u64>,
    /// CPU time of its main process and its reaped children.
    pub cpu_ms: Option<u64>,
    /// Processes that outlived the main process and were stopped.
    pub leftovers: u32,
    /// Processes that could not be stopped.
    pub survivors: u32,
}
