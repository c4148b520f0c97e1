//! The file that tells a later supervisor how an attempt ended.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use super::wire::ExitRecord;
use crate::supervise::folder::AgentFolder;

/// Written beside and renamed, so that it is whole or not there. Not synced: after a power cut the
/// attempt is over anyway, and a restart must not wait for the disk.
pub(super) fn write(folder: &AgentFolder, record: &ExitRecord) -> io::Result<()> {
    let place = folder.exit_record(record.number);
    let beside = place.with_extension("json.new");
    // Whatever lies there, a pipe above all, is not opened.
    let _ = std::fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    std::fs::rename(beside, place)
}
