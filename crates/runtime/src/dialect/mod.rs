//! The checkpoint dialect: doors to tasks, with a verified file copy of each.
//!
//! A workflow is a task. The store is the truth; a file is written after the commit and never
//! decides anything that the store knows better.

mod copy;
mod import;
mod resume;
mod start;
mod survey;
mod take_up;
mod update;

use std::path::PathBuf;

use relight_core::decide::TaskEvent;
use relight_core::ids::{IdError, TaskId};
use relight_core::progress::left_open;
use relight_core::status::TaskStatus;
use relight_core::task::{CheckpointDoor, Task};

use crate::checkpoint_files::{CheckpointFolder, FileDamage};
use crate::engine::{ActError, Engine, TaskView};

pub use copy::{document, remove, sweep};
pub use import::Imported;
pub use resume::{ResumeError, ResumeRequest, Resumed};
pub use start::{StartOutcome, StartRequest};
pub use survey::{Survey, Workflow};
pub use update::UpdateRequest;

/// The workflows of one folder.
#[derive(Debug)]
pub struct Dialect {
    engine: Engine,
    folder: CheckpointFolder,
}

/// What was committed, and what became of its file copy.
#[derive(Debug)]
pub struct Saved {
    /// The workflow as it is now.
    pub view: TaskView,
    /// Its file.
    pub file: PathBuf,
    /// Why the file could not be written. The store has everything.
    pub copy_error: Option<std::io::Error>,
    /// Damaged files that were set aside on the way.
    pub set_aside: Vec<SetAside>,
}

impl Saved {
    /// The declared steps that a finished workflow left open.
    pub fn left_open(&self) -> Vec<String> {
        let TaskView { task, steps, .. } = &self.view;
        if task.status != TaskStatus::Completed {
            return Vec::new();
        }
        left_open(&task.spec.steps, steps).into_iter().map(ToString::to_string).collect()
    }
}

/// A file that is damaged or cannot be used, and what became of it.
#[derive(Debug)]
pub struct SetAside {
    /// The file.
    pub file: PathBuf,
    /// What was wrong with it.
    pub reason: String,
    /// It is damaged; else it is a good file that could not be used.
    pub is_damaged: bool,
    /// Where it is now; none when it was left in place, for nothing else knows of its workflow.
    pub now_at: Option<PathBuf>,
}

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
    #[error("cannot use {}", .place.display())]
    Io {
        /// What.
        place: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Dialect {
    /// The workflows whose files are in this folder.
    pub fn new(engine: Engine, folder: PathBuf) -> Self {
        Self { engine: engine.without_files(), folder: CheckpointFolder::at(folder) }
    }

    /// One workflow as the store has it.
    pub async fn view(&self, id: &TaskId) -> Result<TaskView, DialectError> {
        match self.engine.view(id).await {
            Err(ActError::NoSuchTask(id)) => Err(DialectError::NoSuchWorkflow(id)),
            other => Ok(other?),
        }
    }

    fn door_of(&self, task: &Task) -> CheckpointDoor {
        let mut door = task.checkpoint.clone().unwrap_or_default();
        if door.folder.is_empty() {
            door.folder = self.folder_text();
        }
        door
    }

    /// A task that comes to the dialect for the first time has its file here from now on, and the
    /// store knows where: whoever removes the task removes the file.
    fn first_door(&self, task: &Task) -> Option<TaskEvent> {
        let is_first = task.checkpoint.is_none() && !task.status.is_terminal();
        is_first.then(|| TaskEvent::Door(self.door_of(task)))
    }

    fn folder_text(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn io_error(&self, source: std::io::Error) -> DialectError {
        DialectError::Io { place: self.folder.path().to_path_buf(), source }
    }
}
