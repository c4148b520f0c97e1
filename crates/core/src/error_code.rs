//! What an error is for programs, and what a person does about it. One list for the command line, HTTP
//! and MCP.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize};

use crate::alert::{resolve_first, step_command};
use crate::decide::Refusal;
use crate::session::SessionRefusal;
use crate::shell::shell_word;
use crate::status::TaskStatus;

/// The name of an error, and the exit code and the HTTP status that say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ErrorCode {
    /// What happened.
    #[serde(rename = "code")]
    pub name: &'static str,
    /// The exit code of the command line.
    pub exit: u8,
    /// The HTTP status.
    pub status: u16,
}

/// A code as another process sent it.
#[derive(Deserialize)]
struct SentCode {
    code: String,
    exit: Option<u8>,
}

impl<'de> Deserialize<'de> for ErrorCode {
    /// Two codes may have one name: the exit code tells them apart. One of another version is a bug.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let sent = SentCode::deserialize(from)?;
        let mut named = Self::ALL
            .iter()
            .filter(|code| code.name == sent.code)
            .copied();
        let first = named.clone().next();
        Ok(named
            .find(|code| Some(code.exit) == sent.exit)
            .or(first)
            .unwrap_or(Self::INTERNAL))
    }
}

/// Why something was not done, in the form that every front shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What it is for programs.
    #[serde(flatten)]
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    #[serde(default)]
    pub hint: Option<String>,
}

impl Refused {
    /// A refusal with what to do next.
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// One that leaves open what to do.
    pub fn without_hint(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }
}

macro_rules! codes {
    ($(#[doc = $doc:literal] $constant:ident = $name:literal, $exit:literal, $status:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $doc] pub const $constant: Self =
                Self { name: $name, exit: $exit, status: $status };)*

            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$constant),*];

            /// What it says, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$constant => $doc.trim_ascii(),)*
                    _ => "",
                }
            }
        }
    };
}

codes! {
    /// Somebody else holds the task or turn, or is running the step.
    HELD = "held", 75, 409;
    /// The caller's lease is no longer valid.
    FENCED = "fenced", 77, 409;
    /// The status of the task, step or agent does not allow the request.
    ILLEGAL = "illegal", 1, 409;
    /// The id or key is taken: what is recorded under it differs from the request.
    CONFLICT = "conflict", 1, 409;
    /// Other writers changed the same record first, at every try.
    CONTENDED = "conflict", 75, 409;
    /// Not possible now: try later, or the agent already holds its maximum number of tasks.
    FULL = "busy", 75, 409;
    /// There is no such thing.
    NOT_FOUND = "not_found", 1, 404;
    /// There is nothing to resume or to claim.
    NOTHING = "nothing", 1, 409;
    /// A value has the wrong form, or is not one of those that are allowed.
    INVALID = "invalid", 2, 422;
    /// A text is longer than its limit.
    OVER_LIMIT = "invalid", 65, 422;
    /// The task has ended.
    ENDED = "ended", 1, 409;
    /// The task is blocked or suspended.
    WAITS_FOR_PERSON = "waits_for_person", 1, 409;
    /// The task has reached a limit of its own.
    USED_UP = "used_up", 1, 409;
    /// Declared steps are not finished.
    STEPS_LEFT_OPEN = "steps_left_open", 1, 409;
    /// A step began and did not end; the request has to wait until it is ended or resolved.
    IN_DOUBT = "in_doubt", 1, 409;
    /// The step to be run is in doubt, and its rule forbids to repeat it.
    NOT_REPEATED = "in_doubt", 75, 409;
    /// The caller did not start the task.
    NOT_HELD = "not_held", 77, 409;
    /// Nobody supervises the agent.
    NOT_SUPERVISED = "not_supervised", 69, 409;
    /// A file or a row cannot be trusted.
    DAMAGED = "damaged", 65, 422;
    /// The process was forked after it opened the store.
    FORKED = "forked", 2, 409;
    /// The system did not read or write.
    IO = "io", 74, 503;
    /// The store cannot be used now.
    STORE_UNAVAILABLE = "store_unavailable", 69, 503;
    /// The daemon does not answer.
    UNREACHABLE = "unreachable", 69, 503;
    /// Nothing is begun now.
    DRAINING = "draining", 75, 503;
    /// The daemon ends.
    ENDING = "ending", 75, 503;
    /// A bug.
    INTERNAL = "internal", 70, 500;
    /// Not a request that is understood.
    BAD_REQUEST = "bad_request", 2, 400;
    /// No token, or one that is not known.
    UNAUTHORIZED = "unauthorized", 1, 401;
    /// The token is not for this.
    FORBIDDEN = "forbidden", 1, 403;
    /// Another method is needed.
    METHOD_NOT_ALLOWED = "method_not_allowed", 2, 405;
    /// The answer would be of another type.
    NOT_ACCEPTABLE = "not_acceptable", 2, 406;
    /// The request did not come in time.
    TOO_SLOW = "too_slow", 75, 408;
    /// The other side is of another version.
    OTHER_VERSION = "other_version", 69, 409;
    /// The request is too long.
    TOO_LARGE = "too_large", 65, 413;
    /// The body is of another type.
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 2, 415;
    /// Too many failed logins.
    RATE_LIMITED = "rate_limited", 75, 429;
    /// A file or a text is damaged or not what it should be.
    INVALID_DATA = "invalid_data", 65, 422;
    /// Saved in the store, but its file copy could not be written.
    FILE_COPY = "file_copy", 73, 500;
    /// The configuration is wrong.
    CONFIG = "config", 78, 500;
    /// The program of a command may not be executed.
    NOT_EXECUTABLE = "not_executable", 126, 422;
    /// There is no program of that name.
    NO_PROGRAM = "no_program", 127, 422;
}

const TOO_LARGE_HINT: &str = "write it to a file and give the file's name; nothing was stored";
const NO_REASON_HINT: &str = "say why; whoever reads it later has to know";
const NEVER_GIVEN_HINT: &str =
    "correct --fence or RELIGHT_FENCE; relight task start prints the fence it takes";

/// What models are told to do about an error. They would obey a hint for a person, who may take work from
/// its holder or start what waits for a decision.
pub mod model_hint {
    /// Only a person decides how it continues.
    pub const ASK: &str = "stop working on it and tell a person, who decides how it continues";
    /// Somebody else works on it.
    pub const WAIT: &str = "wait and try again, or do other work; only a person takes it away";
    /// There is nothing left to do.
    pub const ENDED: &str = "it has ended: stop working on it; other work needs another id";
    /// Its time has not come.
    pub const LATER: &str = "do other work until then";
    /// The next try may work.
    pub const AGAIN: &str = "try again";
}

impl Refusal {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) => ErrorCode::OVER_LIMIT,
            Self::NoReason => ErrorCode::INVALID,
            Self::Illegal { from, .. } if from.is_terminal() => ErrorCode::ENDED,
            Self::Illegal { .. } => ErrorCode::ILLEGAL,
            Self::Held { .. } | Self::StepRunning { .. } => ErrorCode::HELD,
            Self::Fenced { .. } => ErrorCode::FENCED,
            Self::WaitsForPerson { .. } => ErrorCode::WAITS_FOR_PERSON,
            Self::UsedUp { .. } | Self::RetriesUsedUp { .. } => ErrorCode::USED_UP,
            Self::StepsLeftOpen { .. } => ErrorCode::STEPS_LEFT_OPEN,
            Self::StepInDoubt { .. } | Self::StepUnresolved { .. } => ErrorCode::IN_DOUBT,
            Self::OtherAgent { .. }
            | Self::GivenUp { .. }
            | Self::NotBefore { .. }
            | Self::StepNotBegun { .. }
            | Self::StepNotInDoubt { .. }
            | Self::StepFinished { .. }
            | Self::NoSuchStep { .. }
            | Self::OtherInput { .. } => ErrorCode::CONFLICT,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TooLarge(_) => TOO_LARGE_HINT.to_owned(),
            Self::NoReason => NO_REASON_HINT.to_owned(),
            Self::Illegal {
                task,
                is_used_up: true,
                ..
            } => {
                format!("relight task retry {} --force", shell_word(task.as_str()))
            }
            Self::Illegal { task, from, .. } => illegal_hint(&shell_word(task.as_str()), *from),
            Self::Held { task, .. } => {
                format!(
                    "relight task release {} --force takes it away",
                    shell_word(task.as_str())
                )
            }
            Self::OtherAgent { task, starter, .. } => {
                let (task, starter) = (shell_word(task.as_str()), shell_word(starter.as_str()));
                format!("relight task retry {task} --agent {starter} hands it over")
            }
            Self::Fenced { task, ours, newest } => match ours.cmp(newest) {
                Ordering::Less => {
                    "the task was taken away from this lease; stop working on it".to_owned()
                }
                Ordering::Equal => {
                    let task = shell_word(task.as_str());
                    format!(
                        "eval \"$(relight task start {task} --export)\" takes a new lease and sets its \
                         RELIGHT_FENCE, unless the task is finished"
                    )
                }
                Ordering::Greater => NEVER_GIVEN_HINT.to_owned(),
            },
            Self::RetriesUsedUp { task, .. } | Self::GivenUp { task } => {
                format!("relight task retry {} --force", shell_word(task.as_str()))
            }
            Self::WaitsForPerson { task, .. } | Self::UsedUp { task, .. } => format!(
                "relight task show {0} tells why; relight task retry {0} gives it out again, and \
                 relight task start {0} --force starts it now",
                shell_word(task.as_str())
            ),
            Self::StepRunning { .. } => "wait for it to end, then try again".to_owned(),
            Self::StepNotBegun { task, step } => {
                format!("{} first", step_command("begin", task, step))
            }
            Self::StepsLeftOpen { task, steps } => format!(
                "finish them, or relight step skip {1} --task {0} --reason TEXT; \
                 relight task done {0} --force completes it all the same",
                shell_word(task.as_str()),
                shell_word(steps.first().map_or("", |step| step.as_str())),
            ),
            Self::StepInDoubt { task, step } => format!(
                "{}, or {} --happened (or --did-not)",
                step_command("end", task, step),
                step_command("resolve", task, step)
            ),
            Self::StepUnresolved { task, step } => resolve_first(task, step),
            Self::NoSuchStep { task, .. } => {
                format!("relight step list --task {}", shell_word(task.as_str()))
            }
            Self::NotBefore { .. }
            | Self::StepNotInDoubt { .. }
            | Self::StepFinished { .. }
            | Self::OtherInput { .. } => return None,
        })
    }
}

impl Refusal {
    /// What a model does about it.
    pub fn model_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::TooLarge(_) => TOO_LARGE_HINT,
            Self::NoReason => NO_REASON_HINT,
            Self::Illegal { from, .. } if from.is_terminal() => model_hint::ENDED,
            Self::Illegal {
                from: TaskStatus::Created,
                ..
            } => "call task_start first",
            Self::Held { .. } | Self::StepRunning { .. } => model_hint::WAIT,
            Self::OtherAgent { .. } => {
                "it belongs to another agent: leave it; only a person hands it over"
            }
            Self::Fenced { ours, newest, .. } if ours > newest => {
                "give the fence that task_start or checkpoint_resume answered"
            }
            Self::Fenced { .. } => "you do not hold it any more: stop working on it",
            Self::Illegal { .. }
            | Self::RetriesUsedUp { .. }
            | Self::GivenUp { .. }
            | Self::WaitsForPerson { .. }
            | Self::StepUnresolved { .. }
            | Self::UsedUp { .. } => model_hint::ASK,
            Self::StepNotBegun { .. } => "call step_begin first",
            Self::StepsLeftOpen { .. } => "finish them, or close each with step_skip and a reason",
            Self::StepInDoubt { .. } => "it may have happened: step_begin says what to do",
            Self::NoSuchStep { .. } => "give the name that it was begun with",
            Self::NotBefore { .. } => model_hint::LATER,
            Self::StepNotInDoubt { .. } | Self::StepFinished { .. } | Self::OtherInput { .. } => {
                return None;
            }
        })
    }
}

fn illegal_hint(task: &str, from: TaskStatus) -> String {
    match from {
        TaskStatus::Created => format!("it was not started; relight task start {task} does"),
        TaskStatus::Failed => format!("relight task retry {task} gives it out again"),
        TaskStatus::Completed | TaskStatus::Cancelled => {
            "it has ended; new work needs a new id".to_owned()
        }
        _ => format!("relight task states prints the table; relight task show {task}"),
    }
}

impl SessionRefusal {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) | Self::BadOwner(_) => ErrorCode::OVER_LIMIT,
            Self::Unknown(_) => ErrorCode::NOT_FOUND,
            Self::Held { .. } => ErrorCode::HELD,
            Self::Fenced { .. } => ErrorCode::FENCED,
            Self::NothingToResume { .. } => ErrorCode::NOTHING,
            Self::Suspended { .. } | Self::Older { .. } => ErrorCode::CONFLICT,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TooLarge(_) => TOO_LARGE_HINT.to_owned(),
            Self::Unknown(_) => "relight session list shows all sessions".to_owned(),
            Self::Held { key, .. } => format!(
                "wait for its end; relight session suspend {} takes the turn away",
                shell_word(key.as_str())
            ),
            Self::Fenced { key, .. } => {
                let key = shell_word(key.as_str());
                format!("nothing was changed; relight session show {key}")
            }
            Self::Suspended { key, .. } => {
                format!(
                    "relight session resume {} allows new turns",
                    shell_word(key.as_str())
                )
            }
            Self::BadOwner(_) | Self::NothingToResume { .. } | Self::Older { .. } => return None,
        })
    }
}

/// An error with its causes in one line; a cause that the text already names is not repeated.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        cause = error.source();
    }
    text
}
