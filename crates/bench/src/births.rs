//! The pipe on which workers say that they live.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A worker's first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birth {
    pub(crate) pid: u32,
    /// Its first instruction, on the monotonic clock.
    pub(crate) at_ns: u64,
}

/// All births of one contestant, in the order in which they were told.
pub(crate) struct Births {
    path: PathBuf,
    pipe: File,
    read: Vec<u8>,
}

impl Births {
    /// A new pipe of this name, held open so that no worker ever waits for a reader.
    pub(crate) fn in_folder(folder: &Path) -> anyhow::Result<Births> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let path = folder.join("births");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let pipe = OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(Births {
            path,
            pipe,
            read: Vec::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next birth; an error when there is none within the limit.
    pub(crate) fn next(&mut self, limit: Duration) -> anyhow::Result<Birth> {
        let birth = self.next_within(limit)?;
        birth.with_context(|| format!("no worker was born within {limit:?}"))
    }

    /// So many births.
    pub(crate) fn take(&mut self, count: usize, limit: Duration) -> anyhow::Result<Vec<Birth>> {
        let end = Instant::now() + limit;
        let mut births = Vec::with_capacity(count);
        while births.len() < count {
            let birth = self.next_within(end.saturating_duration_since(Instant::now()))?;
            let so_far = births.len();
            births.push(birth.with_context(|| format!("{so_far} of {count} within {limit:?}"))?);
        }
        Ok(births)
    }

    /// The next birth, if there is one within the limit.
    pub(crate) fn next_within(&mut self, limit: Duration) -> anyhow::Result<Option<Birth>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=at).collect();
                return parse(&String::from_utf8_lossy(&line)).map(Some);
            }
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
            if poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&left))? == 0 {
                return Ok(None);
            }
            let mut chunk = [0; 4096];
            let count = self.pipe.read(&mut chunk)?;
            ensure!(count > 0, "the pipe is held open");
            self.read.extend_from_slice(&chunk[..count]);
        }
    }
}

fn parse(line: &str) -> anyhow::Result<Birth> {
    let (pid, ns) = line
        .trim()
        .split_once(' ')
        .with_context(|| format!("birth {line:?}"))?;
    Ok(Birth {
        pid: pid.parse()?,
        at_ns: ns.parse()?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn births_come_in_their_order_and_none_is_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut births = Births::in_folder(folder.path()).unwrap();
        let mut worker = OpenOptions::new().write(true).open(births.path()).unwrap();
        worker.write_all(b"7 100\n8 200\n9").unwrap();
        let limit = Duration::from_secs(5);
        let expected = [Birth { pid: 7, at_ns: 100 }, Birth { pid: 8, at_ns: 200 }];
        assert_eq!(births.take(2, limit).unwrap(), expected);
        assert_eq!(births.next_within(Duration::ZERO).unwrap(), None);
    }
}
