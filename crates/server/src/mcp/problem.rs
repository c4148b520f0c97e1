//! Why a tool did not do what was asked, in words that tell an agent what to do now.
//!
//! Codes and messages are those of the API; the hints are other ones, for whoever reads them types no
//! command and sends no request.

use relight::dialect::{DialectError, ResumeError};
use relight::engine::ActError;
use relight_core::decide::Refusal;
use relight_core::error_code::ErrorCode;
use relight_core::ids::IdError;
use relight_core::status::TaskStatus;
use relight_core::time::TimeError;
use relight_store::StoreError;
use serde_json::json;

use super::reply::Reply;
use crate::error::ApiError;
use crate::wire;
use crate::wire::problem::ProblemBody;

/// Why not. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    /// What only whoever keeps the log is told.
    pub(super) inside: Option<String>,
}

const HELD: &str = "somebody else works on it: leave it, or try later; a person can take it away \
                    with `relight task release`";
const FENCED: &str = "you lost this task: stop working on it, and do nothing more for it";

impl Problem {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, inside: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As an agent reads it.
    pub(super) fn into_reply(self) -> Reply {
        let Self { code, message, hint, .. } = self;
        let mut text = format!("{}: {message}", code.name);
        if let Some(hint) = &hint {
            text += &format!("\n{hint}");
        }
        let body = ProblemBody { error: wire::problem::Problem::new(code, message, hint) };
        Reply { text, data: Some(json!(body)), is_error: true }
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let ApiError { code, message, hint, inside } = error;
        Self { code, message, hint, inside }
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<TimeError> for Problem {
    fn from(error: TimeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        let hint = hint_of(&error);
        let problem = Self::from(ApiError::from(error));
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// What to do now; none where the API's own word is good here too.
fn hint_of(error: &ActError) -> Option<&'static str> {
    Some(match error {
        ActError::NoSuchTask(_) => "task_start begins it; inflight lists what there is",
        ActError::Exists { .. } => "it is there already: call task_start with its id alone",
        ActError::Refused(refusal) => match refusal {
            Refusal::Held { .. } => HELD,
            Refusal::OtherAgent { .. } => {
                "stop: a person hands it over with `relight task retry TASK --agent YOU`"
            }
            Refusal::Fenced { ours, newest, .. } if ours == newest => {
                "your lease has ended; task_start takes a new one where the task is not finished"
            }
            Refusal::Fenced { ours, newest, .. } if ours > newest => {
                "that fence was never given out; use the one that task_start answered"
            }
            Refusal::Fenced { .. } => FENCED,
            Refusal::Illegal { from, .. } => match from {
                TaskStatus::Completed | TaskStatus::Cancelled => {
                    "it has ended, there is nothing to do; new work needs a new id"
                }
                TaskStatus::Blocked | TaskStatus::Suspended => "stop: it waits for a person",
                TaskStatus::Failed => "stop: a person gives it out again with `relight task retry`",
                _ => "task_start takes it up first",
            },
            Refusal::StepNotBegun { .. } => "call step_begin first",
            Refusal::StepRunning { .. } => "wait for it to end, then try again",
            Refusal::RetriesUsedUp { .. } | Refusal::GivenUp { .. } | Refusal::UsedUp { .. } => {
                "stop: a person decides"
            }
            Refusal::WaitsForPerson { .. } => "stop: it waits for a person",
            Refusal::NotBefore { .. } => "later",
            Refusal::StepFinished { .. } => "nothing to do: it was finished or skipped before",
            Refusal::StepsLeftOpen { .. } => {
                "finish them, or step_skip each with a reason, then task_done"
            }
            Refusal::StepInDoubt { .. } => "step_begin tells what to do with it",
            Refusal::NoSuchStep { .. } => "check the name of the step",
            Refusal::StepNotInDoubt { .. } | Refusal::OtherInput { .. } | Refusal::TooLarge(_) => {
                return None;
            }
        },
        ActError::Draining { .. } => {
            "stop: a person lets work begin again with `relight drain --cancel`"
        }
        ActError::Contended(_)
        | ActError::SecretName(_)
        | ActError::BadName(_)
        | ActError::Store(_) => return None,
    })
}

impl From<DialectError> for Problem {
    fn from(error: DialectError) -> Self {
        let text = error.to_string();
        match error {
            DialectError::Act(error) => error.into(),
            DialectError::NoSuchWorkflow(_) => {
                Self::new(ErrorCode::NOT_FOUND, text).hint("checkpoint_save begins it")
            }
            DialectError::Unfinished { .. } => {
                Self::new(ErrorCode::CONFLICT, text).hint("checkpoint_resume goes on with it")
            }
            DialectError::Ended { .. } => Self::new(ErrorCode::ENDED, text)
                .hint("there is nothing to do; new work needs a new id"),
            DialectError::Damaged { .. } | DialectError::BadName { .. } => {
                Self::new(ErrorCode::DAMAGED, text).hint("a person has to look at the file")
            }
            DialectError::Older(_) => Self::new(ErrorCode::CONFLICT, text),
            DialectError::Io { ref source, .. } => {
                let text = format!("{text}: {source}");
                Self::new(ErrorCode::IO, text).hint("nothing was saved; try again")
            }
        }
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Self {
        let text = error.to_string();
        match error {
            ResumeError::Nothing { .. } => {
                Self::new(ErrorCode::NOTHING, text).hint("nothing was interrupted: begin new work")
            }
            ResumeError::Waits { why, .. } => Self { message: text, ..ActError::from(why).into() },
            ResumeError::Held { .. } => Self::new(ErrorCode::HELD, text).hint(HELD),
            ResumeError::Over { .. } => Self::new(ErrorCode::ILLEGAL, text)
                .hint("there is nothing to do; new work needs a new id"),
            ResumeError::Dialect(error) => error.into(),
        }
    }
}
