//! Reads the output from a place on, across the borders of files, past what was freed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::{AgentLog, LogPosition, data_from};

/// Reads the output from a place to where it ends now; what is written later is there at the next read.
///
/// No read mixes the bytes of two files. It holds the file it reads open, so that trimming takes nothing
/// away from under it but the head.
#[derive(Debug)]
pub struct LogReader {
    log: AgentLog,
    at: LogPosition,
    file: Option<File>,
    passed_a_hole: bool,
}

impl AgentLog {
    /// A reader from that place on; from what is kept, when the place was freed or removed.
    pub fn reader(&self, from: LogPosition) -> LogReader {
        LogReader {
            log: self.clone(),
            at: from,
            file: None,
            passed_a_hole: false,
        }
    }
}

impl LogReader {
    /// The place of the next byte.
    pub fn position(&self) -> LogPosition {
        self.at
    }

    /// Whether freed output was passed since the last time this was asked: the next byte may then be
    /// in the middle of a line.
    pub fn take_passed_a_hole(&mut self) -> bool {
        std::mem::take(&mut self.passed_a_hole)
    }

    /// Opens the file of the place, or the oldest after it; none when there is none.
    fn open(&mut self) -> io::Result<bool> {
        while self.file.is_none() {
            let numbers = self.log.numbers()?;
            let Some(&number) = numbers.iter().find(|number| **number >= self.at.number) else {
                return Ok(false);
            };
            let Some(file) = self.log.open(number)? else {
                continue;
            };
            // A power cut may have left less than what was written.
            let offset = if number == self.at.number {
                self.at.offset
            } else {
                0
            };
            self.at = LogPosition {
                number,
                offset: offset.min(file.metadata()?.len()),
            };
            self.file = Some(file);
        }
        Ok(true)
    }

    /// Reads from the open file; 0 at its end.
    fn read_here(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file.as_ref().expect("a file is open");
        loop {
            let count = match file.read_at(buffer, self.at.offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            // A hole reads as zeros. It is only ever at the head, so when there is none at the offset
            // after the read, there was none during it.
            let may_be_hole = memchr::memchr(0, &buffer[..count]).is_some();
            let data = if may_be_hole {
                data_from(file, self.at.offset)?
            } else {
                self.at.offset
            };
            if data == self.at.offset {
                self.at.offset += count as u64;
                return Ok(count);
            }
            self.at.offset = data;
            self.passed_a_hole = true;
        }
    }

    /// An agent may truncate its own output, as `> /dev/stderr` does in a shell.
    fn was_truncated(&mut self) -> io::Result<bool> {
        let file = self.file.as_ref().expect("a file is open");
        let was_truncated = file.metadata()?.len() < self.at.offset;
        if was_truncated {
            self.at.offset = 0;
        }
        Ok(was_truncated)
    }
}

impl Read for LogReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.open()? {
            let count = self.read_here(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            let mut numbers = self.log.numbers()?.into_iter();
            let next = numbers.find(|number| *number > self.at.number);
            // The last writer of this file was gone before the next one was made, so once that is
            // seen, another read gets all there will ever be.
            let count = if next.is_some() {
                self.read_here(buffer)?
            } else {
                0
            };
            if count > 0 {
                return Ok(count);
            }
            if self.was_truncated()? {
                continue;
            }
            let Some(number) = next else { break };
            self.at = LogPosition { number, offset: 0 };
            self.file = None;
        }
        Ok(0)
    }
}
