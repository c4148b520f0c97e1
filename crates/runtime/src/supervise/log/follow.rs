//! Output as it comes, for people who watch it.

use std::io::{self, Read};

use rustix::fs::inotify::WatchFlags;

use super::inotify::Inotify;
use super::{AgentLog, LogPosition, LogReader};

const CHUNK_BYTES: usize = 64 * 1024;

/// Follows the output from a place on, from file to file. It never ends by itself: whether the agent
/// still lives is for others to say.
#[derive(Debug)]
pub struct Follow {
    reader: LogReader,
    inotify: Inotify,
    chunk: Vec<u8>,
}

impl AgentLog {
    /// Follows from that place on; the folder must be there. Called inside a runtime.
    pub fn follow(&self, from: LogPosition) -> io::Result<Follow> {
        let inotify = Inotify::new()?;
        // The folder and not the file, so that the next file is noticed as well.
        inotify.add(&self.folder, WatchFlags::MODIFY | WatchFlags::CREATE)?;
        Ok(Follow { reader: self.reader(from), inotify, chunk: vec![0; CHUNK_BYTES] })
    }
}

impl Follow {
    /// The next bytes, at least one, as soon as they are written. May be given up at any time.
    pub async fn next(&mut self) -> io::Result<&[u8]> {
        let mut count = self.reader.read(&mut self.chunk)?;
        while count == 0 {
            // What was written since the last read has its event in the queue already.
            self.inotify.heard(|_| {}).await?;
            count = self.reader.read(&mut self.chunk)?;
        }
        Ok(&self.chunk[..count])
    }

    /// The next bytes of what is there already; none when all was given. For the end, when the agent
    /// is gone.
    pub fn next_now(&mut self) -> io::Result<&[u8]> {
        let count = self.reader.read(&mut self.chunk)?;
        Ok(&self.chunk[..count])
    }

    /// The place of the next byte.
    pub fn position(&self) -> LogPosition {
        self.reader.position()
    }
}
