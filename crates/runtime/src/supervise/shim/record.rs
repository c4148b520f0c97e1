//! The file that tells a later supervisor how an attempt ended.
//!
//! Two files take turns and are written in place, whole in one write: making and removing a file for
//! each death would make the file system search for a free inode every time, for longer than all the
//! rest of a restart takes.

use std::io;
use std::os::unix::fs::FileExt;

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::wire::ExitRecord;
use crate::os::file;
use crate::supervise::folder::AgentFolder;

/// More than any record has.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Written over the record of the attempt before the last, whose end is in the store by then. Not
/// synced: after a power cut the attempt is over anyway, and a restart must not wait for the disk.
pub(super) fn write(folder: &AgentFolder, record: &ExitRecord) -> io::Result<()> {
    put(folder, record.number, record)
}

/// Says that an attempt was begun, before it is: should everything die before anybody else can say so,
/// its tag is not used again.
pub(super) fn write_begun(folder: &AgentFolder, number: u32, tag: &AttemptTag) -> io::Result<()> {
    let begun = StartRecord {
        tag: tag.clone(),
        process: None,
    };
    put(folder, number, &begun)
}

/// Says which process it is: should shim and supervisor die before the store says so, the next
/// supervisor still finds the agent.
pub(super) fn write_started(
    folder: &AgentFolder,
    number: u32,
    (tag, process): (AttemptTag, ProcessIdentity),
) -> io::Result<()> {
    let started = StartRecord {
        tag,
        process: Some(process),
    };
    put(folder, number, &started)
}

/// What there is before the end, and all of the end that `was_begun` and `process` need.
#[derive(Debug, Serialize, Deserialize)]
struct StartRecord {
    tag: AttemptTag,
    #[serde(default)]
    process: Option<ProcessIdentity>,
}

fn put(folder: &AgentFolder, number: u32, content: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    file::open_to_overwrite(&folder.exit_record(number))?.write_all_at(&line, 0)
}

/// What was left about this very attempt. Behind the first line is what a longer record left.
pub fn read(folder: &AgentFolder, number: u32, tag: &AttemptTag) -> Option<ExitRecord> {
    let record: ExitRecord = get(folder, number)?;
    (record.tag == *tag).then_some(record)
}

/// Whether this very attempt was begun, as far as its shim could say.
pub fn was_begun(folder: &AgentFolder, number: u32, tag: &AttemptTag) -> bool {
    get(folder, number).is_some_and(|begun: StartRecord| begun.tag == *tag)
}

/// The main process of this very attempt, as far as its shim could say.
pub fn process(folder: &AgentFolder, number: u32, tag: &AttemptTag) -> Option<ProcessIdentity> {
    let begun: StartRecord = get(folder, number)?;
    begun.process.filter(|_| begun.tag == *tag)
}

fn get<T: DeserializeOwned>(folder: &AgentFolder, number: u32) -> Option<T> {
    parse(&file::read_regular(
        &folder.exit_record(number),
        RECORD_BYTES_MAX,
    )?)
}

/// What the first line of a file says; none when it is not whole.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let end = memchr::memchr(b'\n', text)?;
    serde_json::from_slice(&text[..end]).ok()
}
