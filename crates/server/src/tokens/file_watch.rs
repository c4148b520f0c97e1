//! The kernel's word that a file of a folder was written, replaced or removed.
//!
//! It is in the queue before whoever changed the file goes on, so that one cheap question before each
//! use of a file is as good as looking at the file itself.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

const EVENTS_BYTES: usize = 4 << 10;
const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Rings when something in its folder may have changed.
#[derive(Debug)]
pub(super) struct Bell {
    /// None where the kernel does not tell.
    queue: Option<OwnedFd>,
    /// The folder itself was moved or removed: nothing is told any more.
    is_broken: AtomicBool,
}

impl Bell {
    pub(super) fn hang_in(folder: &Path) -> Self {
        Self {
            queue: queue(folder).ok(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Whether something may have changed since it was silenced; always where nobody tells.
    pub(super) fn rings(&self) -> bool {
        let Some(queue) = &self.queue else {
            return true;
        };
        if self.is_broken.load(Ordering::Relaxed) {
            return true;
        }
        // An error is no promise that nothing changed.
        poll(&mut [PollFd::new(queue, PollFlags::IN)], Some(&NO_WAIT))
            .map_or(true, |count| count > 0)
    }

    /// Comes before the look at what changed: a change after it rings again.
    pub(super) fn silence(&self) {
        let Some(queue) = &self.queue else { return };
        let mut space = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = Reader::new(queue, &mut space);
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
        let lost = gone | ReadFlags::IGNORED | ReadFlags::UNMOUNT | ReadFlags::QUEUE_OVERFLOW;
        loop {
            match events.next() {
                Ok(event) if event.events().intersects(lost) => {
                    self.is_broken.store(true, Ordering::Relaxed);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.is_broken.store(true, Ordering::Relaxed),
            }
        }
    }
}

/// Not of every write: the database's log is in the same folder, and is written all the time.
fn queue(folder: &Path) -> io::Result<OwnedFd> {
    let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let wanted = WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    inotify::add_watch(&queue, folder, wanted)?;
    Ok(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_for_a_file_that_is_written_replaced_chmodded_or_removed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("token"), folder.path().join("new"));
        std::fs::write(&file, "a").unwrap();
        let bell = Bell::hang_in(folder.path());
        assert!(!bell.rings());
        let rings_once = |what: &str| {
            assert!(bell.rings(), "{what}");
            bell.silence();
            assert!(!bell.rings(), "{what}");
        };
        std::fs::write(&file, "b").unwrap();
        rings_once("written");
        std::fs::write(&other, "c").unwrap();
        std::fs::rename(&other, &file).unwrap();
        rings_once("replaced");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        rings_once("chmodded");
        std::fs::remove_file(&file).unwrap();
        rings_once("removed");
    }

    #[test]
    fn it_rings_for_ever_when_its_folder_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let bell = Bell::hang_in(&home);
        std::fs::rename(&home, folder.path().join("elsewhere")).unwrap();
        bell.silence();
        assert!(bell.rings());
        assert!(Bell::hang_in(&home).rings());
    }
}
