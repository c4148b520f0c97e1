//! The folder of checkpoint files: durable writes, distrustful reads, damage set aside.
//!
//! The store is the truth and these files are its verified copies, so nothing here decides what
//! becomes of a task. What a file must hold is `relight_core::checkpoint`'s business. Workflow ids
//! come in validated; whatever they hold, no name made here leaves the folder.

mod directory;
mod file_name;
mod quarantine;
mod read;
mod scan;
mod temporary;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};

pub use file_name::{encoded_name, file_name};
pub use quarantine::QUARANTINE;
pub use read::{FileDamage, ReadError};
pub use scan::Found;

/// A folder with one file for each workflow.
///
/// It need not exist: reading an absent folder finds nothing, writing creates it. Several
/// processes may use the same folder at the same time; the last whole write of a file wins.
#[derive(Debug)]
pub struct CheckpointFolder {
    path: PathBuf,
}

impl CheckpointFolder {
    /// The folder at that path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        CheckpointFolder { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file of a workflow is, or would be.
    pub fn path_of(&self, workflow_id: &str) -> PathBuf {
        self.path.join(file_name(workflow_id))
    }
}
