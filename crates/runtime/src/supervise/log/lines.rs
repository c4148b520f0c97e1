//! Output by lines, with bounded memory whatever an agent writes.

use std::io::{self, Read};

use super::{AgentLog, LogPosition, LogReader};

/// The most that is kept of one line.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

const AHEAD_BYTES: usize = 16 * 1024;

/// One line of output: any bytes, without the newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// At most [`LINE_BYTES_MAX`] of it.
    pub bytes: Vec<u8>,
    /// Nothing of it is missing: neither was it too long, nor was a part of it freed.
    pub is_whole: bool,
}

/// Reads line by line; what is written later is there at the next call. Keeps no buffer while there is
/// nothing to read, so that a thousand quiet agents cost nothing.
#[derive(Debug)]
pub struct LogLines {
    reader: LogReader,
    ahead: Vec<u8>,
    ahead_at: LogPosition,
    taken: usize,
    line: Vec<u8>,
    line_at: LogPosition,
    is_whole: bool,
}

impl AgentLog {
    /// The lines from that place on.
    pub fn lines(&self, from: LogPosition) -> LogLines {
        LogLines {
            reader: self.reader(from),
            ahead: Vec::new(),
            ahead_at: from,
            taken: 0,
            line: Vec::new(),
            line_at: from,
            is_whole: true,
        }
    }
}

impl LogLines {
    /// The next line that is ended: by a newline, or by the end of its file when there is a next one.
    /// None when there is no such line yet.
    pub fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        loop {
            if let Some(line) = self.line_from_ahead() {
                return Ok(Some(line));
            }
            if !self.fill()? {
                return Ok(None);
            }
            let passed_a_hole = self.reader.take_passed_a_hole();
            let is_apart = passed_a_hole || self.ahead_at.number != self.line_at.number;
            if !is_apart {
                continue;
            }
            self.is_whole &= !passed_a_hole;
            let broken_off = self.take_rest();
            self.line_at = self.ahead_at;
            self.is_whole = !passed_a_hole;
            if broken_off.is_some() {
                return Ok(broken_off);
            }
        }
    }

    /// What there is of a line that is not ended.
    pub fn take_rest(&mut self) -> Option<LogLine> {
        (!self.line.is_empty()).then(|| self.end_line())
    }

    /// Where the line begins that comes next: a reader from there on misses nothing and repeats nothing.
    pub fn position(&self) -> LogPosition {
        self.line_at
    }

    fn line_from_ahead(&mut self) -> Option<LogLine> {
        let rest = &self.ahead[self.taken..];
        let newline = memchr::memchr(b'\n', rest);
        let part = &rest[..newline.unwrap_or(rest.len())];
        let room = LINE_BYTES_MAX - self.line.len();
        self.is_whole &= part.len() <= room;
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.taken += part.len() + usize::from(newline.is_some());
        newline.map(|_| self.end_line())
    }

    fn end_line(&mut self) -> LogLine {
        let offset = self.ahead_at.offset + self.taken as u64;
        self.line_at = LogPosition {
            offset,
            ..self.ahead_at
        };
        let is_whole = std::mem::replace(&mut self.is_whole, true);
        LogLine {
            bytes: std::mem::take(&mut self.line),
            is_whole,
        }
    }

    /// Reads ahead; no memory is held when nothing came.
    fn fill(&mut self) -> io::Result<bool> {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.resize(AHEAD_BYTES, 0);
        let read = self.reader.read(&mut ahead);
        let count = *read.as_ref().unwrap_or(&0);
        ahead.truncate(count);
        let at = self.reader.position();
        self.ahead_at = LogPosition {
            offset: at.offset - count as u64,
            ..at
        };
        self.taken = 0;
        if count > 0 {
            self.ahead = ahead;
        }
        read.map(|count| count > 0)
    }
}
