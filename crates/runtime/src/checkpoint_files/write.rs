//! Replaces a checkpoint file so that a crash at any point leaves the old one or the new one.

use std::io;

use relight_core::checkpoint::Limits;
use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::io::Errno;

use super::CheckpointFolder;
use super::directory::{Directory, create_durably};
use super::file_name::{file_name, plain_name};
use super::temporary::TemporaryFile;

impl CheckpointFolder {
    /// Writes the file of a workflow; when this returns `Ok`, it survives a power cut.
    ///
    /// On an error before the rename the old file is untouched. When only the last sync failed,
    /// the new file is whole and in place, but a power cut may bring the old one back.
    pub fn write(&self, workflow_id: &str, sealed: &[u8]) -> io::Result<()> {
        if sealed.len() > Limits::CHECKPOINT.bytes_max {
            let text = format!("checkpoint of {} bytes: no reader accepts it", sealed.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let name = file_name(workflow_id);
        let directory = self.open_for(&name)?;
        let mut temporary = TemporaryFile::create(&directory, &name)?;
        temporary.fill(sealed)?;
        temporary.put_in_place(&name)?;
        directory.sync()
    }

    /// Removes the file of a workflow for good, also one that the original script made; whether
    /// there was one.
    pub fn remove(&self, workflow_id: &str) -> io::Result<bool> {
        let plain = self.remove_plain(workflow_id)?;
        Ok(self.remove_name(&file_name(workflow_id))? || plain)
    }

    /// Removes the file that the original script made for a workflow.
    pub(crate) fn remove_plain(&self, workflow_id: &str) -> io::Result<bool> {
        match (plain_name(workflow_id), self.read_plain(workflow_id)) {
            (Some(name), Ok(Some(_))) => self.remove_name(&name),
            _ => Ok(false),
        }
    }

    fn remove_name(&self, name: &str) -> io::Result<bool> {
        let Some(directory) = Directory::open(self.path())? else {
            return Ok(false);
        };
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) => directory.sync().map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the folder, so that it survives a power cut, when it is absent.
    pub fn make(&self) -> io::Result<()> {
        create_durably(self.path())
    }

    /// A file that was written before is proof that its folder is durable; else that is made sure.
    fn open_for(&self, name: &str) -> io::Result<Directory> {
        if let Some(directory) = Directory::open(self.path())?
            && statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        {
            return Ok(directory);
        }
        self.make()?;
        Ok(Directory::open(self.path())?.ok_or(Errno::NOENT)?)
    }
}
