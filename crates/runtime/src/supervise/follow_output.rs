//! Follows an attempt's output for its preset: the session id, open work, and the reported end.

use std::io::Read as _;

use relight_core::agent::StopReason;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::time::Time;
use relight_core::usage::Usage;

use super::folder::AgentFolder;
use super::log::{AgentLog, LogPosition, LogReader};
use crate::os::clock;
use crate::presets::{Fact, Preset, StreamReader, UsageScope};

/// Maximum line length; longer lines are ignored.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes per read, so that a fast writer does not block others.
const READ_BYTES_MAX: usize = 4 << 20;
/// Maximum number of reads at the end; more than a log can hold.
const READS_MAX: usize = 1_000;
const CHUNK_BYTES: usize = 16 << 10;

/// What was read since the last time.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The session id, or that the session is gone.
    pub(super) session: Option<Option<String>>,
    /// There is more to read.
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

    /// Reads everything of an ended attempt and returns news about its session. Yields in between.
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
        // Nothing more will come, so the rest is a complete line.
        let mut rest = Facts::default();
        if !self.line.is_empty() {
            self.take(b"\n", clock::now(), &mut rest);
        }
        rest.session.or(session)
    }

    /// Reads new complete lines.
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

    /// The end that the agent reported, from its output and exit. Only an attempt that should resume a
    /// session can miss it.
    pub(super) fn ended(
        &self,
        preset: &Preset,
        how: HowEnded,
        should_resume: bool,
        ending: Option<StopReason>,
    ) -> Option<ReportedEnd> {
        if let (Some(StopReason::Incurable), Some(why)) = (ending, self.repeats_in_vain()) {
            return Some(ReportedEnd::Incurable(why.to_owned()));
        }
        if self.reader.is_session_gone() && should_resume && how != HowEnded::Code(0) {
            return Some(ReportedEnd::SessionGone);
        }
        self.reader.ended(preset, how, ending)
    }

    /// Totals of what it has used, as far as its output tells.
    pub(super) fn used(&self) -> [(UsageScope, Usage); 2] {
        self.reader.used()
    }

    /// The error that no retry can cure, for which it repeats a request all the same.
    pub(super) fn repeats_in_vain(&self) -> Option<&str> {
        self.reader.repeats_in_vain()
    }

    /// Open work found in the output, with its begin and, if known, its end.
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
