//! The kernel's word that files changed, as something to wait for.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::os::descriptor;

const EVENTS_BYTES: usize = 8 * 1024;

/// One event queue of the kernel.
#[derive(Debug)]
pub(super) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    pub(super) fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self(descriptor::readable(queue)?))
    }

    /// Watches a file or folder; the number of the watch is in its events.
    pub(super) fn add(&self, path: &Path, wanted: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.0, path, wanted)?)
    }

    /// Ends a watch; one that ended by itself is no error.
    pub(super) fn remove(&self, watch: i32) -> io::Result<()> {
        match inotify::remove_watch(&self.0, watch) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for events and hands on the watches of one buffer of them, so that a source that never
    /// rests cannot hold the caller. Nothing is lost when the wait is given up.
    pub(super) async fn heard(&self, mut each: impl FnMut(i32)) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut space = [MaybeUninit::uninit(); EVENTS_BYTES];
            let mut events = Reader::new(&self.0, &mut space);
            match events.next() {
                Ok(event) => each(event.wd()),
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            while !events.is_buffer_empty() {
                each(events.next()?.wd());
            }
            return Ok(());
        }
    }
}
