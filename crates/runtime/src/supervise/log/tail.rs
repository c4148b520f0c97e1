//! The end of the output, read backwards: the cost is that of what is asked for, not of the log.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::{AgentLog, LogLine, LogPosition, data_from};

const BLOCK_BYTES: u64 = 64 * 1024;

impl AgentLog {
    /// The last lines since that place, each cut at [`super::LINE_BYTES_MAX`]; one that is not ended
    /// counts.
    pub fn last_lines(&self, count: usize, since: LogPosition) -> io::Result<Vec<LogLine>> {
        let mut lines = self.lines(self.last_lines_from(count, since)?);
        let mut last = Vec::new();
        while last.len() < count {
            let Some(line) = lines.next_line()? else {
                last.extend(lines.take_rest());
                break;
            };
            last.push(line);
        }
        Ok(last)
    }

    /// Where the last lines since that place begin; a reader from there gives them as they are,
    /// however long.
    pub fn last_lines_from(&self, count: usize, since: LogPosition) -> io::Result<LogPosition> {
        let mut missing = count;
        if missing == 0 {
            return self.end();
        }
        for part in self.parts_backwards(since)? {
            if let Some(offset) = part.line_start_backwards(&mut missing)? {
                return Ok(LogPosition {
                    number: part.number,
                    offset,
                });
            }
        }
        Ok(since)
    }

    /// The last bytes since that place, in memory: ask for no more than you want to hold.
    pub fn last_bytes(&self, count: usize, since: LogPosition) -> io::Result<Vec<u8>> {
        let mut missing = count as u64;
        let mut from = since;
        for part in self.parts_backwards(since)? {
            from = LogPosition {
                number: part.number,
                offset: part.end - part.len().min(missing),
            };
            missing -= part.len().min(missing);
            if missing == 0 {
                break;
            }
        }
        let mut bytes = Vec::new();
        self.reader(from)
            .take(count as u64)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The files with output since that place, newest first, without what was freed.
    fn parts_backwards(&self, since: LogPosition) -> io::Result<Vec<LogSegment>> {
        let mut parts = Vec::new();
        for number in self
            .numbers()?
            .into_iter()
            .rev()
            .filter(|number| *number >= since.number)
        {
            let Some(file) = self.open(number)? else {
                continue;
            };
            let lowest = if number == since.number {
                since.offset
            } else {
                0
            };
            let from = data_from(&file, lowest)?;
            let end = file.metadata()?.len().max(from);
            parts.push(LogSegment {
                number,
                file,
                from,
                end,
            });
        }
        Ok(parts)
    }
}

/// What is kept of one file.
struct LogSegment {
    number: u64,
    file: File,
    from: u64,
    end: u64,
}

impl LogSegment {
    fn len(&self) -> u64 {
        self.end - self.from
    }

    /// Where the line begins with which nothing is missing any more; none when it is further back.
    fn line_start_backwards(&self, missing: &mut usize) -> io::Result<Option<u64>> {
        let mut block = vec![0; self.len().min(BLOCK_BYTES) as usize];
        let mut upper = self.end;
        while upper > self.from {
            let lower = upper.saturating_sub(BLOCK_BYTES).max(self.from);
            let block = &mut block[..(upper - lower) as usize];
            match self.file.read_exact_at(block, lower) {
                // The agent truncated its output meanwhile: there are no lines here.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => block.fill(0),
                read => read?,
            }
            for index in memchr::memrchr_iter(b'\n', block) {
                let line_start = lower + index as u64 + 1;
                let is_last_newline = line_start == self.end;
                *missing -= usize::from(!is_last_newline);
                if *missing == 0 {
                    return Ok(Some(line_start));
                }
            }
            upper = lower;
        }
        *missing -= usize::from(self.len() > 0);
        Ok((*missing == 0).then_some(self.from))
    }
}
