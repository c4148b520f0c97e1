//! Writes brief and state so that a reader always finds a whole one.
//!
//! Nothing here is synced to disk: the store holds the truth, both files are written anew before each
//! start, and a restart must not wait for the disk.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use relight_core::agent::active_state::ActiveState;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::os::{clock, file, random};
use crate::supervise::folder::AgentFolder;

/// More than either file can have; whatever is longer is not ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
const CREATE_TRIES_MAX: usize = 100;
/// A writer is done long before.
const LEFT_AFTER_MS: i64 = 60_000;
/// So many files of a folder are looked at.
const ENTRIES_MAX: usize = 10_000;

/// Writes what the next attempt is told; whether anything changed.
pub fn write_brief(folder: &AgentFolder, text: &str) -> io::Result<bool> {
    if read(&folder.brief()).as_deref() == Some(text) {
        return Ok(false);
    }
    replace(&folder.brief(), text).map(|()| true)
}

/// Writes both anew without looking at what is there: for a start, where they always differ.
///
/// By exchange with a file that is kept for it: making and removing files costs more than all the rest
/// of a restart. Only for the supervisor: there is one such file.
pub fn write_anew(
    folder: &AgentFolder,
    brief: Option<&str>,
    state: &ActiveState,
) -> io::Result<()> {
    exchange(&folder.state(), &state.to_text())?;
    brief.map_or(Ok(()), |text| exchange(&folder.brief(), text))
}

/// Puts a fuller brief in the place of a shorter one; whether it did. Whatever else is there by now is
/// another attempt's, and stays. Only for the supervisor, as `write_anew`.
pub fn complete_brief(folder: &AgentFolder, there: &str, text: &str) -> io::Result<bool> {
    if there == text || read(&folder.brief()).as_deref() != Some(there) {
        return Ok(false);
    }
    exchange(&folder.brief(), text).map(|()| true)
}

/// Writes `active_state.json`; whether anything but its time changed.
pub fn write_state(path: &Path, state: &ActiveState) -> io::Result<bool> {
    if read_state(path).is_some_and(|there| there.says_the_same(state)) {
        return Ok(false);
    }
    replace(path, &state.to_text()).map(|()| true)
}

/// What `active_state.json` says; none when it is absent, or not whole.
pub(super) fn read_state(path: &Path) -> Option<ActiveState> {
    ActiveState::from_text(&read(path)?)
}

/// Removes what killed writers left beside the two: a file that is not in its place after so long will
/// not come there any more. What cannot be removed stays until the next time.
pub fn sweep(folder: &AgentFolder) {
    let Ok(entries) = std::fs::read_dir(folder.path()) else {
        return;
    };
    let now_ms = clock::now().as_ms();
    for entry in entries.take(ENTRIES_MAX).filter_map(Result::ok) {
        let written_ms = entry
            .metadata()
            .and_then(|file| file.modified())
            .ok()
            .and_then(ms_of);
        let is_old = written_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) > LEFT_AFTER_MS);
        let name = entry.file_name();
        if is_old && is_beside(&name, &["brief", "active_state"]) {
            let _ = std::fs::remove_file(entry.path());
        } else if is_old && is_beside(&name, &[super::dirty::PRIVATE]) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether it was made beside one of these, and left there.
fn is_beside(name: &OsStr, stems: &[&str]) -> bool {
    let Some((stem, rest)) = name.to_str().and_then(|name| name.split_once(".tmp-")) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_numbered = rest
        .split_once('-')
        .is_some_and(|(pid, n)| is_number(pid) && is_number(n));
    is_numbered && stems.contains(&stem)
}

fn ms_of(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

pub(super) fn read(path: &Path) -> Option<String> {
    String::from_utf8(file::read_regular(path, FILE_BYTES_MAX)?).ok()
}

/// Into the spare file, which then takes the other's place; 0600. Never cut to nothing first: some file
/// systems write such a file down to the disk when it is closed.
fn exchange(path: &Path, text: &str) -> io::Result<()> {
    let spare = path.with_extension("spare");
    let file = file::open_to_overwrite(&spare)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    put_in_place(&spare, path)
}

/// Beside, then put in its place; 0600.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (beside, mut file) = create_beside(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| put_in_place(&beside, path));
    // Here is now the old file, or what could not be put in place; the caller hears of that.
    let _ = std::fs::remove_file(&beside);
    written
}

/// Exchanged with the old file where there is one, for some file systems write a file down to the disk
/// when it is renamed over another: a millisecond and more that a restart would wait for.
fn put_in_place(beside: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, beside, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(_) => std::fs::rename(beside, path),
    }
}

/// Removes a file if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..CREATE_TRIES_MAX {
        let number = random::number();
        let beside = path.with_extension(format!("tmp-{}-{number}", std::process::id()));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
        {
            Ok(file) => return Ok((beside, file)),
            // Left by a dead process that had our pid.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
