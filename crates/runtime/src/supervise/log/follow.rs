//! Follows a log as it grows.

use std::io::{self, Read};

use rustix::fs::inotify::WatchFlags;

use super::inotify::Inotify;
use super::{AgentLog, LogPosition, LogReader};

const CHUNK_BYTES: usize = 64 * 1024;

/// Follows the log from a position on, across files. Never ends by itself, because it does not know
/// whether the agent lives.
#[derive(Debug)]
pub struct Follow {
    reader: LogReader,
    inotify: Inotify,
    chunk: Vec<u8>,
}

impl AgentLog {
    /// Follows from this position on; the folder must exist. Needs a Tokio runtime.
    pub fn follow(&self, from: LogPosition) -> io::Result<Follow> {
        let inotify = Inotify::new()?;
        // Watch the folder, so that the next file is noticed too.
        inotify.add(&self.folder, WatchFlags::MODIFY | WatchFlags::CREATE)?;
        Ok(Follow {
            reader: self.reader(from),
            inotify,
            chunk: vec![0; CHUNK_BYTES],
        })
    }
}

impl Follow {
    /// The next bytes, at least one, once they are written. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<&[u8]> {
        let mut count = self.reader.read(&mut self.chunk)?;
        while count == 0 {
            // Writes since the last read are already queued as events.
            self.inotify.heard(|_| {}).await?;
            count = self.reader.read(&mut self.chunk)?;
        }
        Ok(&self.chunk[..count])
    }

    /// The next bytes that are already written; empty at the end. For the rest, when the agent is
    /// gone.
    pub fn next_now(&mut self) -> io::Result<&[u8]> {
        let count = self.reader.read(&mut self.chunk)?;
        Ok(&self.chunk[..count])
    }

    /// The position of the next byte.
    pub fn position(&self) -> LogPosition {
        self.reader.position()
    }
}
