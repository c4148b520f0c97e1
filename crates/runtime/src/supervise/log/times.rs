//! When output was written: `000001.times` beside each file of a log.
//!
//! Agents write their log themselves, so nothing stands beside a line. Their supervisor notices growth
//! within a moment and writes down how far the file was then, at most about once a second. A line was
//! written at the latest at the first such mark behind it. The marks are only read by people, and are not
//! synced; where there are none, the time of the file's last write stands for all of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use relight_core::time::{Span, Time};

use super::{AgentLog, LogPosition, LogStart};

/// No two marks are closer, so that they stay small beside the output.
const SPACING: Span = Span::from_secs(1);
/// A little output is marked less often.
const LITTLE_BYTES: u64 = 64;
const LITTLE_SPACING: Span = Span::from_secs(5);
const MARK_BYTES: usize = 16;
/// No file of marks is longer.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How far a file was at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeMark {
    offset: u64,
    at: Time,
}

/// Writes the marks of one attempt's output.
#[derive(Debug)]
pub struct TimeMarks {
    path: PathBuf,
    written: Option<TimeMark>,
    /// Seen since, and not written.
    pending: Option<TimeMark>,
}

impl TimeMarks {
    /// For output that begins there.
    pub fn of(start: &LogStart) -> Self {
        Self {
            path: start.path.with_extension("times"),
            written: None,
            pending: None,
        }
    }

    /// The file is so long now.
    pub fn grew(&mut self, offset: u64, now: Time) {
        if self.pending.is_some_and(|it| now.since(it.at) >= SPACING) {
            self.flush();
        }
        self.pending = Some(TimeMark { offset, at: now });
        let is_due = self.written.is_none_or(|last| {
            let spacing = match offset - last.offset.min(offset) < LITTLE_BYTES {
                true => LITTLE_SPACING,
                false => SPACING,
            };
            now.since(last.at) >= spacing
        });
        if is_due {
            self.flush();
        }
    }

    /// A mark that cannot be written is one that people do not see.
    fn flush(&mut self) {
        let Some(mark) = self.pending.take() else {
            return;
        };
        self.written = Some(mark);
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&mark.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&mark.at.as_ms().to_le_bytes());
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(&bytes));
    }
}

impl Drop for TimeMarks {
    fn drop(&mut self) {
        self.flush();
    }
}

/// When the output of one file was written.
#[derive(Debug, Default)]
pub struct LogTimes {
    number: u64,
    marks: Vec<TimeMark>,
    last: Option<Time>,
}

impl LogTimes {
    /// When the bytes before this place were written, at the latest; none when nobody knows.
    pub fn at(&mut self, log: &AgentLog, end: LogPosition) -> Option<Time> {
        if self.number != end.number {
            *self = log.times(end.number).unwrap_or_default();
            self.number = end.number;
        }
        let behind = self.marks.partition_point(|mark| mark.offset < end.offset);
        self.marks.get(behind).map(|mark| mark.at).or(self.last)
    }
}

impl AgentLog {
    fn times(&self, number: u64) -> io::Result<LogTimes> {
        let last = fs::metadata(self.path(number))?.modified()?;
        let last = last.duration_since(std::time::UNIX_EPOCH).ok();
        let last = last.and_then(|last| i64::try_from(last.as_millis()).ok());
        let mut bytes = Vec::new();
        match File::open(self.times_path(number)) {
            Ok(file) => _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (marks, _) = bytes.as_chunks::<MARK_BYTES>();
        let mark = |bytes: &[u8; MARK_BYTES]| {
            let (offset, at) = bytes.split_at(8);
            Some(TimeMark {
                offset: u64::from_le_bytes(offset.try_into().ok()?),
                at: Time::from_ms(i64::from_le_bytes(at.try_into().ok()?)),
            })
        };
        Ok(LogTimes {
            number,
            marks: marks.iter().filter_map(mark).collect(),
            last: last.map(Time::from_ms),
        })
    }

    pub(super) fn times_path(&self, number: u64) -> PathBuf {
        self.path(number).with_extension("times")
    }

    /// Where the output begins that was written since then: no later, and at most a mark earlier.
    pub fn position_at(&self, since: Time) -> io::Result<LogPosition> {
        for number in self.numbers()? {
            let times = self.times(number)?;
            if times.last.is_some_and(|last| last < since) {
                continue;
            }
            let before = times.marks.partition_point(|mark| mark.at < since);
            let offset = before
                .checked_sub(1)
                .and_then(|at| times.marks.get(at))
                .map_or(0, |mark| mark.offset);
            return Ok(LogPosition { number, offset });
        }
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_ms(1_000_000_000 + seconds * 1_000)
    }

    #[test]
    fn a_line_was_written_at_the_first_mark_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = AgentLog {
            folder: folder.path().to_owned(),
        };
        let start = log
            .for_attempt(&super::super::LogLimits::default())
            .unwrap();
        fs::write(&start.path, vec![b'x'; 1_000]).unwrap();
        let mut marks = TimeMarks::of(&start);
        marks.grew(100, at(0));
        marks.grew(300, at(0)); // Too soon for a mark of its own, but not forgotten:
        marks.grew(500, at(60));
        marks.grew(510, at(62));
        drop(marks);
        let mut times = LogTimes::default();
        let number = start.number;
        let mut time_of = |offset| times.at(&log, LogPosition { number, offset });
        assert_eq!(time_of(50), Some(at(0)));
        assert_eq!(time_of(300), Some(at(0)));
        assert_eq!(time_of(301), Some(at(60)));
        assert_eq!(time_of(510), Some(at(62)));
        assert!(time_of(600) > Some(at(62)), "the file's own time");
        let since = |seconds| log.position_at(at(seconds)).unwrap().offset;
        assert_eq!((since(-5), since(30), since(61)), (0, 300, 500));
        let later = at(0).plus(Span::from_secs(100 * 365 * 86_400));
        assert_eq!(log.position_at(later).unwrap(), log.end().unwrap());
    }

    #[test]
    fn marks_stay_small_beside_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let log = AgentLog {
            folder: folder.path().to_owned(),
        };
        let start = log
            .for_attempt(&super::super::LogLimits::default())
            .unwrap();
        let mut marks = TimeMarks::of(&start);
        for tick in 0..4_000 {
            marks.grew(tick as u64 * 1_000, Time::from_ms(tick * 250));
        }
        drop(marks);
        let size = fs::metadata(log.times_path(1)).unwrap().len();
        assert!(size <= 1_001 * MARK_BYTES as u64, "{size}");
    }
}
