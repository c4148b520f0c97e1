//! Safe access to small files that others may have placed.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use relight_core::time::Time;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// The content of a regular file up to a limit; none when it is absent or unreadable. Never blocks
/// on pipes or other special files.
pub fn read_regular(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)
        .ok()?
        .take(bytes_max)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// Opens a regular file for reading. Anything else, such as a pipe or a device, is an error and
/// never blocks.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    regular(
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?,
    )
}

/// Opens a regular file that this user or root owns, for reading. A link, a pipe, a device or a file of
/// another user is an error and never blocks.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW)
        .bits()
        .cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a link, not a regular file"));
        }
        opened => regular(opened?)?,
    };
    let owner = file.metadata()?.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(Stranger::Owner(owner).to_string()));
    }
    Ok(file)
}

/// The name of a user in `/etc/passwd`.
pub fn login_name(uid: u32) -> Option<String> {
    let accounts = read_regular(Path::new("/etc/passwd"), ACCOUNTS_BYTES_MAX)?;
    let uid = uid.to_string();
    String::from_utf8_lossy(&accounts).lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// All of a regular file as text; an error when it is longer than `bytes_max`.
pub fn read_text(file: File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other("it is too large"));
    }
    Ok(text)
}

/// Who can change a file or folder, besides this user and root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    /// Its owner, another user.
    Owner(u32),
    /// The members of this group.
    Group(u32),
    /// Everyone.
    Everybody,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(user) => write!(f, "it belongs to another user (uid {user})"),
            Self::Group(group) => write!(f, "a group of users can write it (gid {group})"),
            Self::Everybody => f.write_str("everybody can write it"),
        }
    }
}

/// Who else can change it; none when only this user and root can. A private group of this user is
/// not a stranger.
pub fn stranger(found: &Metadata) -> Option<Stranger> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        return Some(Stranger::Owner(found.uid()));
    }
    if found.mode() & 0o002 != 0 {
        return Some(Stranger::Everybody);
    }
    let is_shared = found.mode() & 0o020 != 0 && !is_private_group(found.gid(), own);
    is_shared.then_some(Stranger::Group(found.gid()))
}

/// Maximum size of `/etc/passwd` and `/etc/group`.
const ACCOUNTS_BYTES_MAX: u64 = 16 << 20;

/// Whether this group contains only this user.
fn is_private_group(group: u32, user: u32) -> bool {
    let text = |path| {
        let bytes = read_regular(Path::new(path), ACCOUNTS_BYTES_MAX)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    match (text("/etc/passwd"), text("/etc/group")) {
        (Some(accounts), Some(groups)) => holds_only(group, user, &accounts, &groups),
        _ => false,
    }
}

fn holds_only(group: u32, user: u32, accounts: &str, groups: &str) -> bool {
    let (group, user) = (group.to_string(), user.to_string());
    let fields = |line: &'_ str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for line in accounts.lines() {
        if fields(line, 2) == user {
            names.push(fields(line, 0));
        } else if fields(line, 3) == group {
            return false;
        }
    }
    let mut known = groups
        .lines()
        .filter(|line| fields(line, 2) == group)
        .peekable();
    known.peek().is_some()
        && known.all(|line| {
            fields(line, 3)
                .split(',')
                .all(|name| name.is_empty() || names.iter().any(|it| it == name))
        })
}

/// Opens a file for overwriting and creates it with mode 0600 if needed. Special files are refused
/// and never block.
pub fn open_to_overwrite(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let mut open = OpenOptions::new();
    open.write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags);
    let file = open.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Opens a regular file for appending and creates it if needed, for its owner alone. Anything else, such as a pipe or a
/// device, is an error and never blocks.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    match OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
    {
        // A pipe without a reader.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Err(irregular()),
        opened => regular(opened?),
    }
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(irregular()),
    }
}

fn irregular() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// When a file was last written, by the wall clock.
pub fn modified_at(path: &Path) -> Option<Time> {
    let at: jiff::Timestamp = std::fs::metadata(path)
        .ok()?
        .modified()
        .ok()?
        .try_into()
        .ok()?;
    Some(at.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_writes_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        assert_eq!(read_regular(&pipe, 10), None);
        std::fs::write(folder.path().join("file"), "0123456789abc").unwrap();
        assert_eq!(
            read_regular(&folder.path().join("file"), 10).unwrap(),
            b"0123456789"
        );
    }

    #[test]
    fn only_a_regular_file_of_our_own_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("link")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        assert!(open_own(&at("file")).is_ok());
        for other in ["pipe", "link", "."] {
            let error = open_own(&at(other)).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{other}: {error}");
        }
    }

    #[test]
    fn a_group_is_private_when_nobody_else_is_in_it() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/a:/bin/sh\nbob:x:1001:50::/b:\n";
        let groups = "root:x:0:\nann:x:1000:\nstaff:x:50:\nboth:x:60:ann,bob\nown:x:61:ann\n";
        let is_private = |group| holds_only(group, 1000, accounts, groups);
        assert!(is_private(1000) && is_private(61));
        assert!(!is_private(50), "it is another user's first group");
        assert!(!is_private(60), "it has another member");
        assert!(!is_private(99), "nobody knows who is in it");
    }
}
