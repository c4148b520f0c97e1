//! Sets damaged files aside, with the reason beside them.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::shortened;
use super::temporary::create_new;

/// The folder inside the checkpoint folder that takes damaged files.
pub const QUARANTINE: &str = "quarantine";

const NUMBER_MAX: u32 = 10_000;

impl CheckpointFolder {
    /// Moves an entry of the folder, whatever it is, into quarantine; answers where it is now.
    ///
    /// Its new name is `<name>.<time>.<n>`, with the reason in `<name>.<time>.<n>.reason.txt`. A
    /// link is moved itself, not what it leads to. Nothing set aside earlier is ever overwritten.
    pub fn quarantine(
        &self,
        path: &Path,
        reason: impl Display,
        now: Timestamp,
    ) -> io::Result<PathBuf> {
        let name = self.name_inside(path)?;
        let directory = Directory::open(self.path())?.ok_or(Errno::NOENT)?;
        statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let quarantine = directory.open_inside(QUARANTINE).map_err(|error| {
            let place = self.path().join(QUARANTINE);
            let why = match place.is_symlink() {
                true => "it is a symbolic link, which is not followed".to_owned(),
                false => error.to_string(),
            };
            io::Error::new(
                error.kind(),
                format!("cannot use {}: {why}", place.display()),
            )
        })?;
        let text = format!("{reason}\n");
        let new_name = write_reason(&quarantine, name, &text, now)?;
        if let Err(error) = renameat(&directory, name, &quarantine, new_name.as_os_str()) {
            discard_reason(&quarantine, &new_name);
            return Err(error.into());
        }
        quarantine.sync()?;
        directory.sync()?;
        Ok(self.path().join(QUARANTINE).join(new_name))
    }

    fn name_inside<'a>(&self, path: &'a Path) -> io::Result<&'a OsStr> {
        let is_inside = path.parent() == Some(self.path());
        path.file_name().filter(|_| is_inside).ok_or_else(|| {
            let text = format!("{} is not in {}", path.display(), self.path().display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }
}

/// Writes the reason, which also reserves the name before the file itself comes.
fn write_reason(
    quarantine: &Directory,
    name: &OsStr,
    text: &str,
    now: Timestamp,
) -> io::Result<OsString> {
    for number in 0..NUMBER_MAX {
        let tail = format!(".{}.{number}", now.strftime("%Y%m%dT%H%M%SZ"));
        let new_name = OsString::from_vec([shortened(name.as_bytes()), tail.as_bytes()].concat());
        if exists(quarantine, &new_name)? {
            continue;
        }
        let mut file = match create_new(quarantine, &reason_name(&new_name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        return written
            .inspect_err(|_| discard_reason(quarantine, &new_name))
            .map(|()| new_name);
    }
    Err(Errno::EXIST.into())
}

/// Takes back a reason whose file did not come; failing that, a reason without a file does no harm.
fn discard_reason(quarantine: &Directory, new_name: &OsStr) {
    let _ = unlinkat(quarantine, reason_name(new_name), AtFlags::empty());
}

fn exists(directory: &Directory, name: &OsStr) -> io::Result<bool> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn reason_name(new_name: &OsStr) -> OsString {
    let mut name = new_name.to_owned();
    name.push(".reason.txt");
    name
}
