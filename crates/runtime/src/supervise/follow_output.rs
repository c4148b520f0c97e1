//! Follows an attempt's output for its preset: the session id, what is open, and what the agent says of
//! its end.

use std::io::Read as _;

use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::time::Time;

use super::folder::AgentFolder;
use super::log::{AgentLog, LogPosition, LogReader};
use crate::os::clock;
use crate::presets::{Fact, Preset, StreamReader};

/// Most bytes of one line; what is longer is no event of ours.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Most bytes read at one go, so that a fast writer holds up nobody.
const READ_BYTES_MAX: usize = 4 << 20;
/// So often at the end, when all of it counts: more than a log keeps.
const READS_MAX: usize = 1_000;
const CHUNK_BYTES: usize = 16 << 10;

/// What was read since the last time.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// An id, or that it is gone.
    pub(super) session: Option<Option<String>>,
    /// It was too much for one go.
    pub(super) there_is_more: bool,
}

/// The output of one attempt, from its beginning.
pub(super) struct AttemptStream {
    reader: StreamReader,
    log: LogReader,
    line: Vec<u8>,
    overlong: bool,
}

impl AttemptStream {
    pub(super) fn new(preset: &Preset, from: LogPosition, folder: &AgentFolder) -> Self {
        Self {
            reader: preset.reader(),
            log: AgentLog::of(folder).reader(from),
            line: Vec::new(),
            overlong: false,
        }
    }

    /// Reads all that there is, for an attempt that is over; what it said of its session. Others have
    /// their turn in between.
    pub(super) async fn read_all(&mut self) -> Option<Option<String>> {
        let mut session = None;
        for _ in 0..READS_MAX {
            let facts = self.read(clock::now());
            session = facts.session.or(session);
            if !facts.there_is_more {
                break;
            }
            tokio::task::yield_now().await;
        }
        // Nothing more will come: the end is the end of a line.
        let mut rest = Facts::default();
        if !self.line.is_empty() {
            self.take(b"\n", clock::now(), &mut rest);
        }
        rest.session.or(session)
    }

    /// Reads what has come, whole lines only.
    pub(super) fn read(&mut self, now: Time) -> Facts {
        let mut facts = Facts::default();
        let mut read = 0;
        let mut buffer = vec![0; CHUNK_BYTES];
        while read < READ_BYTES_MAX {
            let count = match self.log.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            read += count;
            for part in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                self.take(part, now, &mut facts);
            }
        }
        facts.there_is_more = read >= READ_BYTES_MAX;
        facts
    }

    /// What the agent said of its end, by all that was read and how it ended.
    pub(super) fn ended(&self, preset: &Preset, how: HowEnded) -> Option<ReportedEnd> {
        self.reader.ended(preset, how)
    }

    /// What is open by what was read: since when, and until when where that is known.
    pub(super) fn open_work(&self) -> impl Iterator<Item = (Time, Option<Time>)> {
        self.reader.open_work()
    }

    fn take(&mut self, part: &[u8], now: Time, facts: &mut Facts) {
        let is_whole = part.ends_with(b"\n");
        if self.line.len() + part.len() <= LINE_BYTES_MAX {
            self.line.extend_from_slice(part);
        } else {
            self.overlong = true;
        }
        if !is_whole {
            return;
        }
        if !self.overlong {
            for fact in self.reader.line(&self.line, now) {
                match fact {
                    Fact::Session(id) => facts.session = Some(Some(id)),
                    Fact::SessionGone => facts.session = Some(None),
                    // The reader remembers it.
                    Fact::Said(_) => {}
                }
            }
        }
        self.line.clear();
        self.overlong = false;
    }
}
