//! Why a verb of the checkpoint dialect did nothing.

use std::path::PathBuf;

use relight_core::decide::{Refusal, who_holds};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, IdError, TaskId};
use relight_core::lease::HeldLease;
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_core::task::Task;

use crate::checkpoint_files::FileDamage;
use crate::engine::ActError;

/// Why a verb of the dialect did nothing.
#[derive(Debug, thiserror::Error)]
pub enum DialectError {
    /// The rules or the store.
    #[error(transparent)]
    Act(#[from] ActError),
    /// There is no such workflow.
    #[error("there is no workflow {0}")]
    NoSuchWorkflow(TaskId),
    /// An unfinished workflow of this id is there under another key.
    #[error("workflow {id} is unfinished ({status}) in {folder}")]
    Unfinished {
        /// Which.
        id: TaskId,
        /// The dialect's word for where it stands.
        status: &'static str,
        /// Where its file is.
        folder: String,
    },
    /// It has ended, and is not begun anew by itself.
    #[error("workflow {id} is {status}; nothing was started")]
    Ended {
        /// Which.
        id: TaskId,
        /// How.
        status: TaskStatus,
    },
    /// The file is no good and nothing else knows of the workflow.
    #[error("checkpoint file {} is damaged: {reason}", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: FileDamage,
    },
    /// The file holds a name that cannot be one.
    #[error("checkpoint file {} cannot be used: {source}", .file.display())]
    BadName {
        /// The file.
        file: PathBuf,
        /// Which.
        source: IdError,
    },
    /// The store has a newer state.
    #[error("the store has a newer state of workflow {0}")]
    Older(TaskId),
    /// The folder cannot be used.
    #[error("cannot use {}: {source}", .place.display())]
    Io {
        /// What.
        place: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl DialectError {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Act(error) => error.code(),
            Self::NoSuchWorkflow(_) => ErrorCode::NOT_FOUND,
            Self::Unfinished { .. } | Self::Older(_) => ErrorCode::CONFLICT,
            Self::Ended { .. } => ErrorCode::ENDED,
            Self::Damaged { .. } | Self::BadName { .. } => ErrorCode::DAMAGED,
            Self::Io { .. } => ErrorCode::IO,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Act(error) => return error.hint(),
            Self::NoSuchWorkflow(_) => "relight checkpoint list --all".to_owned(),
            Self::Unfinished { id, .. } => format!(
                "relight checkpoint resume --workflow {}, or start --force to begin anew",
                shell_word(id.as_str())
            ),
            Self::Ended { .. } => {
                "start --force begins a new run of it; new work needs a new id".to_owned()
            }
            Self::Older(_) => "--force takes the file all the same".to_owned(),
            Self::Damaged { .. } | Self::BadName { .. } | Self::Io { .. } => return None,
        })
    }
}

/// Why nothing was resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is nothing unfinished.
    #[error("nothing to resume in {folder}")]
    Nothing {
        /// Where.
        folder: String,
    },
    /// It is not finished, and does not continue before a person, or a time, lets it.
    #[error("{}", waits_text(.task, .why, *.others))]
    Waits {
        /// Which.
        task: Box<Task>,
        /// What it waits for.
        why: Refusal,
        /// How many more of the folder wait.
        others: usize,
    },
    /// Somebody else has it.
    #[error("workflow {task} is held by {}", who_holds(.held, .agent.as_ref()))]
    Held {
        /// Which.
        task: TaskId,
        /// Whose it is.
        agent: Option<AgentName>,
        /// By whom.
        held: Box<HeldLease>,
    },
    /// It ended, or its time is over.
    #[error("workflow {task} is {why}")]
    Over {
        /// Which.
        task: TaskId,
        /// `done`, `cancelled` or `expired`.
        why: &'static str,
    },
    /// Anything else.
    #[error(transparent)]
    Dialect(#[from] DialectError),
}

impl From<ActError> for ResumeError {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Refused(Refusal::Held { task, agent, held }) => {
                Self::Held { task, agent, held }
            }
            other => Self::Dialect(other.into()),
        }
    }
}

fn waits_text(task: &Task, why: &Refusal, others: usize) -> String {
    let mut text = why.to_string();
    if let Some(reason) = &task.reason {
        text += &format!(": {reason}");
    }
    if others > 0 {
        text += &format!(" ({others} more wait)");
    }
    text
}

impl ResumeError {
    /// What it is for programs. Work that waits is not "nothing to resume": a caller must not start over.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Nothing { .. } => ErrorCode::NOTHING,
            Self::Waits { why, .. } => ErrorCode { exit: ErrorCode::HELD.exit, ..why.code() },
            Self::Held { .. } => ErrorCode::HELD,
            Self::Over { .. } => ErrorCode::ILLEGAL,
            Self::Dialect(error) => error.code(),
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        let resume = |id: &TaskId| {
            format!("relight checkpoint resume --workflow {}", shell_word(id.as_str()))
        };
        Some(match self {
            Self::Waits { task, why: Refusal::NotBefore { .. }, .. } => {
                format!("{} takes it now", resume(&task.id))
            }
            Self::Waits { task, why: Refusal::WaitsForPerson { status, .. }, .. }
                if *status == TaskStatus::Failed && task.has_retry_left() =>
            {
                format!("{} tries it once more", resume(&task.id))
            }
            Self::Waits { task, .. } => format!(
                "relight task show {0} tells why; relight task retry {0} lets it continue, {1} \
                 --force takes it now",
                shell_word(task.id.as_str()),
                resume(&task.id)
            ),
            Self::Held { task, .. } => format!("{} --steal-lock takes it over", resume(task)),
            Self::Over { .. } => "it has ended; new work needs a new id".to_owned(),
            Self::Nothing { .. } => return None,
            Self::Dialect(error) => return error.hint(),
        })
    }

    /// Whether another workflow may be resumed all the same: one that the caller holds already, perhaps.
    pub(super) fn is_of_this_one(&self) -> bool {
        let draining = matches!(self, Self::Dialect(DialectError::Act(ActError::Draining { .. })));
        let running = matches!(
            self,
            Self::Dialect(DialectError::Act(ActError::Refused(Refusal::StepRunning { .. })))
        );
        draining || running || matches!(self, Self::Held { .. })
    }
}
