//! The file that tells a later supervisor how an attempt ended.
//!
//! Two files take turns and are written in place, whole in one write: making and removing a file for
//! each death would make the file system search for a free inode every time, for longer than all the
//! rest of a restart takes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use relight_core::agent::AttemptTag;

use super::wire::ExitRecord;
use crate::supervise::folder::AgentFolder;

/// Written over the record of the attempt before the last, whose end is in the store by then. Not
/// synced: after a power cut the attempt is over anyway, and a restart must not wait for the disk.
pub(super) fn write(folder: &AgentFolder, record: &ExitRecord) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600);
    open.open(folder.exit_record(record.number))?.write_all_at(&line, 0)
}

/// What was left about this very attempt. Behind the first line is what a longer record left.
pub fn read(folder: &AgentFolder, number: u32, tag: &AttemptTag) -> Option<ExitRecord> {
    let text = std::fs::read(folder.exit_record(number)).ok()?;
    let end = memchr::memchr(b'\n', &text)?;
    let record: ExitRecord = serde_json::from_slice(&text[..end]).ok()?;
    (record.tag == *tag).then_some(record)
}
