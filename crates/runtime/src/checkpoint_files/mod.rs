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

use std::io;
use std::path::{Path, PathBuf};

pub use file_name::{encoded_name, file_name, is_name_of};
pub use quarantine::QUARANTINE;
pub use read::{FileDamage, ReadError, read_file};
pub use scan::ScannedFile;

/// Where a workspace keeps its checkpoint files.
const USUAL: &str = "memory/checkpoints";

/// The usual folder of a workspace. A link to a place outside the workspace is refused: the user did
/// not name that place, and it may belong to another user.
pub fn usual_folder(workspace: &Path) -> io::Result<PathBuf> {
    let folder = workspace.join(USUAL);
    for path in [workspace.join("memory"), folder.clone()] {
        let is_link = path
            .symlink_metadata()
            .is_ok_and(|found| found.is_symlink());
        if is_link && !path.canonicalize()?.starts_with(workspace.canonicalize()?) {
            let text = format!(
                "{} is a link that leads out of the workspace",
                path.display()
            );
            return Err(io::Error::other(text));
        }
    }
    Ok(folder)
}

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

    /// Refuses the usual folder of a workspace that was replaced by a link.
    pub(crate) fn check_links(&self) -> io::Result<()> {
        match self
            .path
            .ends_with(USUAL)
            .then(|| self.path.ancestors().nth(2))
            .flatten()
        {
            Some(workspace) => usual_folder(workspace).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Where the original script has the file of a workflow, when that is another place.
    pub(crate) fn plain_path_of(&self, workflow_id: &str) -> Option<PathBuf> {
        file_name::plain_name(workflow_id).map(|name| self.path.join(name))
    }

    /// Where the file of a workflow is, or would be.
    pub fn path_of(&self, workflow_id: &str) -> PathBuf {
        self.path.join(file_name(workflow_id))
    }
}
