//! The file beside the real one while it is being written: `.W.json.tmp-<pid>-<n>`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::shortened;
use crate::os::random;

const CREATE_TRIES_MAX: u32 = 100;

/// A new file under a name of its own; removed again unless it is put in place.
pub(super) struct TemporaryFile<'a> {
    directory: &'a Directory,
    name: OsString,
    file: File,
    is_in_place: bool,
}

impl<'a> TemporaryFile<'a> {
    /// Creates a new empty file (0600) in the folder of the file that it will replace.
    pub(super) fn create(directory: &'a Directory, beside: &str) -> io::Result<Self> {
        for _ in 0..CREATE_TRIES_MAX {
            let name = next_name(beside);
            match create_new(directory, &name) {
                Ok(file) => {
                    return Ok(TemporaryFile {
                        directory,
                        name,
                        file,
                        is_in_place: false,
                    });
                }
                // Left by a dead process that had our pid.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Writes the whole content down to the disk.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Takes the place of the real file; durable after the directory's next sync.
    pub(super) fn put_in_place(mut self, name: &str) -> io::Result<()> {
        renameat(self.directory, self.name.as_os_str(), self.directory, name)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            // The caller hears of the failure that led here; the sweep takes what stays.
            let _ = unlinkat(self.directory, self.name.as_os_str(), AtFlags::empty());
        }
    }
}

/// Creates a file (0600) that must not exist.
pub(super) fn create_new(directory: &Directory, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(
        directory,
        name,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?))
}

fn next_name(beside: &str) -> OsString {
    let number = random::number();
    let stem = shortened(beside.trim_end_matches(".json").as_bytes());
    let tail = format!(".json.tmp-{}-{number}", std::process::id());
    OsString::from_vec([b".", stem, tail.as_bytes()].concat())
}

/// Whether a name is one of [`next_name`]'s, of any process.
fn is_temporary_name(name: &[u8]) -> bool {
    let Some((stem, numbers)) = std::str::from_utf8(name)
        .ok()
        .and_then(|name| name.strip_prefix('.'))
        .and_then(|name| name.rsplit_once(".json.tmp-"))
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let are_numbers = numbers
        .split_once('-')
        .is_some_and(|(pid, count)| is_number(pid) && is_number(count));
    !stem.is_empty() && are_numbers
}

impl CheckpointFolder {
    /// Removes temporary files that dead writers left behind, or only counts them; answers how many.
    ///
    /// The caller holds the folder's lock, so no writer is at work. A file that cannot be removed is
    /// left for the next time.
    pub(crate) fn sweep_temporary_files(&self, dry_run: bool) -> io::Result<usize> {
        let Some(directory) = Directory::open(self.path())? else {
            return Ok(0);
        };
        let names = directory.names(is_temporary_name)?;
        let removed = names.iter().filter(|name| {
            statat(&directory, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
                && (dry_run || unlinkat(&directory, name.as_c_str(), AtFlags::empty()).is_ok())
        });
        Ok(removed.count())
    }
}
