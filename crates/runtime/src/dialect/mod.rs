//! The checkpoint dialect: doors to tasks, with a verified file copy of each.
//!
//! A workflow is a task. The store is the truth; a file is written after the commit and never
//! decides anything that the store knows better.

mod copy;
mod import;
mod reconcile;
mod resume;
mod start;
mod survey;
mod update;

use std::path::PathBuf;

use relight_core::decide::TaskEvent;
use relight_core::ids::TaskId;
use relight_core::progress::left_open;
use relight_core::status::TaskStatus;
use relight_core::task::{CheckpointSettings, Task};

use crate::boxed::boxed;
use crate::checkpoint_files::{CheckpointFolder, ScannedFile};
use crate::engine::{ActError, Engine, TaskSnapshot, WorkflowError};

pub use copy::{document, remove, sweep};
pub use import::Imported;
pub(crate) use reconcile::newer_file;
pub use reconcile::take_in_file;
pub use resume::{ResumeRequest, Resumed};
pub use start::StartOutcome;
pub use survey::Survey;
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
    pub view: TaskSnapshot,
    /// Its file.
    pub file: PathBuf,
    /// Why the file could not be written. The store has everything.
    pub copy_error: Option<std::io::Error>,
    /// Damaged files that were set aside on the way.
    pub set_aside: Vec<SetAside>,
}

impl Saved {
    /// Why the file could not be written, for answers.
    pub fn file_error(&self) -> Option<FileCopyError> {
        let path = self.file.display().to_string();
        self.copy_error.as_ref().map(|error| FileCopyError {
            path,
            reason: error.to_string(),
        })
    }

    /// The declared steps that a finished workflow left open.
    pub fn left_open(&self) -> Vec<String> {
        let TaskSnapshot { task, steps, .. } = &self.view;
        if task.status != TaskStatus::Completed {
            return Vec::new();
        }
        left_open(&task.spec.steps, steps)
            .into_iter()
            .map(ToString::to_string)
            .collect()
    }
}

/// A file beside the store that could not be written.
#[derive(Debug)]
pub struct FileCopyError {
    /// Which; callers on other machines are not told.
    pub path: String,
    /// What the system said.
    pub reason: String,
}

impl serde::Serialize for FileCopyError {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.reason)
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

impl Dialect {
    /// The workflows whose files are in this folder.
    pub fn new(engine: Engine, folder: PathBuf) -> Self {
        Self {
            engine: engine.without_files(),
            folder: CheckpointFolder::at(folder),
        }
    }

    /// What they are kept in.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// One workflow as the store has it.
    #[boxed]
    pub async fn view(&self, id: &TaskId) -> Result<TaskSnapshot, ActError> {
        match self.engine.view(id).await {
            Err(ActError::NoSuchTask(id)) => Err(WorkflowError::NotFound(id).into()),
            other => other,
        }
    }

    fn settings_of(&self, task: &Task) -> CheckpointSettings {
        let mut settings = task.checkpoint.clone().unwrap_or_default();
        if settings.folder.is_empty() {
            settings.folder = self.folder_text();
        }
        settings
    }

    /// A task that comes to the dialect for the first time has its file here from now on, and the
    /// store knows where: whoever removes the task removes the file.
    fn first_door(&self, task: &Task) -> Option<TaskEvent> {
        let is_first = task.checkpoint.is_none() && !task.status.is_terminal();
        is_first.then(|| TaskEvent::SetCheckpoint(self.settings_of(task)))
    }

    /// The folder as it is recorded.
    pub(crate) fn folder_text(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// All files of the folder.
    pub(crate) fn scan(&self) -> Result<Vec<ScannedFile>, WorkflowError> {
        self.folder.scan().map_err(|error| WorkflowError::Io {
            place: self.folder.path().to_path_buf(),
            reason: error.to_string(),
        })
    }
}
