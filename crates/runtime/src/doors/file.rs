//! Small files that others may have put there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use relight_core::time::Time;
use rustix::fs::OFlags;

/// What is in a regular file, up to a limit; none when it is absent or cannot be read. Whatever else
/// lies there, a pipe above all, is never waited for.
pub fn read_regular(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Opens a file to be written over from its beginning, making it when it is not there; 0600. Whatever
/// else lies there is refused, not waited for.
pub fn open_to_overwrite(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = open.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// When a file was last written, by the wall clock.
pub fn modified_at(path: &Path) -> Option<Time> {
    let at: jiff::Timestamp = std::fs::metadata(path).ok()?.modified().ok()?.try_into().ok()?;
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
        assert_eq!(read_regular(&folder.path().join("file"), 10).unwrap(), b"0123456789");
    }
}
