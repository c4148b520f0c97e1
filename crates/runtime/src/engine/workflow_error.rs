//! Why a checkpoint verb did nothing, where the reason is not one of tasks in general.

use std::path::{Path, PathBuf};

use relight_core::decide::{Refusal, held_text};
use relight_core::error_code::{ErrorCode, model_hint};
use relight_core::ids::{AgentName, IdError, TaskId};
use relight_core::lease::HeldLease;
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Time;

use crate::checkpoint_files::ReadError;

/// Why a checkpoint verb did nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WorkflowError {
    /// There is no such workflow.
    #[error("there is no workflow {0}")]
    NotFound(TaskId),
    /// An unfinished workflow of this id is there under another key.
    #[error("workflow {id} is unfinished ({status}) in {place}")]
    Unfinished {
        /// Which.
        id: TaskId,
        /// The dialect's word for where it stands.
        status: &'static str,
        /// The folder of its file, if it has one.
        place: String,
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
        reason: String,
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
    /// The file that was to be taken in is not there.
    #[error("there is no file {}; nothing was imported", .file.display())]
    NoFile {
        /// The file.
        file: PathBuf,
    },
    /// The folder or a file in it cannot be used.
    #[error("cannot use {}: {reason}", .place.display())]
    Io {
        /// What.
        place: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// There is nothing unfinished to resume.
    #[error("nothing to resume in {folder}")]
    Nothing {
        /// Where.
        folder: String,
    },
    /// It is not finished, and is not resumed before a person, or a time, lets it.
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
    #[error("task {task} has been {}", held_text(.held, .agent.as_ref(), *.now))]
    Held {
        /// Which.
        task: TaskId,
        /// Whose it is.
        agent: Option<AgentName>,
        /// By whom.
        held: Box<HeldLease>,
        /// The current time.
        now: Time,
    },
    /// It ended, or its time is over, and is not resumed.
    #[error("workflow {task} is {why}")]
    Over {
        /// Which.
        task: TaskId,
        /// `done`, `cancelled` or `expired`.
        why: &'static str,
    },
}

impl From<ReadError> for WorkflowError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io { path, source } => Self::Io {
                place: path,
                reason: source.to_string(),
            },
            ReadError::Damaged { path, reason } => Self::Damaged {
                file: path,
                reason: reason.to_string(),
            },
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

impl WorkflowError {
    /// The same for callers on other machines, who are told no folder.
    pub fn without_folders(mut self) -> Self {
        let last = |path: &Path| PathBuf::from(path.file_name().unwrap_or_default());
        match &mut self {
            Self::Damaged { file, .. }
            | Self::BadName { file, .. }
            | Self::NoFile { file }
            | Self::Io { place: file, .. } => *file = last(file),
            Self::Unfinished { place: folder, .. } | Self::Nothing { folder } => {
                *folder = last(Path::new(folder)).display().to_string();
            }
            _ => {}
        }
        self
    }

    /// What it is for programs. Work that waits is not "nothing to resume": a caller must not start over.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) | Self::NoFile { .. } => ErrorCode::NOT_FOUND,
            Self::Unfinished { .. } | Self::Older(_) => ErrorCode::CONFLICT,
            Self::Ended { .. } | Self::Over { .. } => ErrorCode::ENDED,
            Self::Damaged { .. } | Self::BadName { .. } => ErrorCode::DAMAGED,
            Self::Io { .. } => ErrorCode::IO,
            Self::Nothing { .. } => ErrorCode::NOTHING,
            Self::Waits { why, .. } => ErrorCode {
                exit: ErrorCode::HELD.exit,
                ..why.code()
            },
            Self::Held { .. } => ErrorCode::HELD,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        let resume = |id: &TaskId| {
            format!(
                "relight checkpoint resume --workflow {}",
                shell_word(id.as_str())
            )
        };
        Some(match self {
            Self::NotFound(_) => "relight checkpoint list --all".to_owned(),
            Self::Unfinished { id, .. } => {
                format!("{}, or start --force to begin anew", resume(id))
            }
            Self::Ended { .. } => {
                "start --force begins a new run of it; new work needs a new id".to_owned()
            }
            Self::Older(_) => "--force takes the file all the same".to_owned(),
            Self::Waits {
                task,
                why: Refusal::NotBefore { .. },
                ..
            } => {
                format!("{} takes it now", resume(&task.id))
            }
            Self::Waits {
                task,
                why: Refusal::WaitsForPerson { status, .. },
                ..
            } if *status == TaskStatus::Failed && task.has_retry_left() => {
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
            Self::Damaged { .. }
            | Self::BadName { .. }
            | Self::NoFile { .. }
            | Self::Io { .. }
            | Self::Nothing { .. } => return None,
        })
    }

    /// What a model does about it.
    pub fn model_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound(_) => "check the id; checkpoint_save with step begins a new workflow",
            Self::Unfinished { .. } => "checkpoint_resume continues it",
            Self::Ended { .. } | Self::Over { .. } => model_hint::ENDED,
            Self::Waits {
                task,
                why: Refusal::WaitsForPerson { status, .. },
                ..
            } if *status == TaskStatus::Failed && task.has_retry_left() => {
                "checkpoint_resume with its id tries it once more"
            }
            Self::Waits { why, .. } => return why.model_hint(),
            Self::Held { .. } => model_hint::WAIT,
            Self::Older(_)
            | Self::Damaged { .. }
            | Self::BadName { .. }
            | Self::NoFile { .. }
            | Self::Io { .. }
            | Self::Nothing { .. } => return None,
        })
    }
}
