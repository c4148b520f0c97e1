//! Redacts a text that comes in pieces, such as a log that still grows.
//!
//! It is given out by lines. What was given out stays in sight for a while, so that a name tells of the
//! value in the next piece, and a key that began before is known to its end; what may still become a
//! longer secret waits for its rest. Memory is bounded, whatever comes: a secret of which more than
//! [`HELD_BYTES_MAX`] lie between beginning and end is only known by its beginning.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memrchr2};

use super::Redactor;
use super::finding::FoundSecret;

/// Most bytes that wait for the rest of their line or of a secret.
pub const HELD_BYTES_MAX: usize = 64 << 10;
/// So much is remembered of what was given out; the keys that are used fit.
pub const SIGHT_BYTES: usize = 16 << 10;
/// What is given out of an endless line ends so far before what came last.
const AHEAD_BYTES: usize = 4 << 10;

/// Redacts a text that comes in pieces.
pub struct RedactedStream<'r> {
    redactor: &'r Redactor,
    /// What is in sight: given out up to `given`, and then what waits.
    text: Vec<u8>,
    given: usize,
    clean: Vec<u8>,
}

/// How far what came may be given out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Line,
    Word,
    End,
}

/// What would be given out if there were no secrets.
#[derive(Clone, Copy)]
struct OutputLimit {
    end: usize,
    /// Secrets are looked for up to here: half a line says less than none.
    seen: usize,
}

impl Redactor {
    /// Redacts a text in pieces.
    pub fn stream(&self) -> RedactedStream<'_> {
        RedactedStream {
            redactor: self,
            text: Vec::new(),
            given: 0,
            clean: Vec::new(),
        }
    }
}

impl RedactedStream<'_> {
    /// Takes the next piece; gives what can be given out now, up to a line's end.
    pub fn pass(&mut self, piece: &[u8]) -> &[u8] {
        self.text.extend_from_slice(piece);
        self.give(Until::Line)
    }

    /// Takes a piece that is not wanted, but tells of what follows.
    pub fn pass_over(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
        self.given = self.text.len();
        self.forget();
    }

    /// Whether something waits.
    pub fn holds_back(&self) -> bool {
        self.given < self.text.len()
    }

    /// Gives whole words of a line whose end takes long to come.
    pub fn words(&mut self) -> &[u8] {
        self.give(Until::Word)
    }

    /// Gives all that waits: nothing follows.
    pub fn finish(&mut self) -> &[u8] {
        self.give(Until::End)
    }

    fn give(&mut self, until: Until) -> &[u8] {
        self.clean.clear();
        let Some(wanted) = self.wanted(until) else {
            return &self.clean;
        };
        let redactor = self.redactor;
        let findings = redactor.findings(&self.text[..wanted.seen]);
        let is_last = until == Until::End;
        let end = if is_last {
            wanted.end
        } else {
            self.settled_end(wanted, &findings)
        };
        if end > self.given {
            self.render(end, &findings);
            self.given = end;
            self.forget();
        }
        &self.clean
    }

    fn wanted(&self, until: Until) -> Option<OutputLimit> {
        let waiting = &self.text[self.given..];
        let up_to = |len: usize| OutputLimit {
            end: self.given + len,
            seen: self.given + len,
        };
        match until {
            Until::End => Some(up_to(waiting.len())),
            Until::Word => Some(up_to(
                waiting.iter().rposition(u8::is_ascii_whitespace)? + 1,
            )),
            Until::Line => match memrchr2(b'\n', b'\r', waiting) {
                Some(at) => Some(up_to(at + 1)),
                None if waiting.len() > HELD_BYTES_MAX => {
                    let end = self.given + whole_characters(waiting);
                    Some(OutputLimit {
                        end,
                        seen: self.text.len(),
                    })
                }
                None => None,
            },
        }
    }

    /// Before every secret that reaches over the end, or that may go on in what comes next.
    fn settled_end(&self, wanted: OutputLimit, findings: &[FoundSecret<'_>]) -> usize {
        let mut end = wanted.end;
        for finding in findings.iter().rev() {
            let start = finding.start.max(self.given);
            let is_open = finding.end > end || finding.reach == wanted.seen;
            let may_wait = self.text.len() - start <= HELD_BYTES_MAX;
            if start < end && is_open && may_wait {
                end = start;
            }
        }
        end
    }

    fn render(&mut self, end: usize, findings: &[FoundSecret<'_>]) {
        let mut done = self.given;
        let mut is_changed = false;
        for finding in findings
            .iter()
            .filter(|one| one.end > self.given && one.start < end)
        {
            self.clean
                .extend_from_slice(&self.text[done..finding.start.max(done)]);
            self.redactor
                .write_mark(&mut self.clean, &self.text, finding);
            done = finding.end.min(end);
            is_changed = true;
        }
        self.clean.extend_from_slice(&self.text[done..end]);
        if is_changed && let Cow::Owned(again) = self.redactor.bytes(&self.clean) {
            self.clean = again;
        }
    }

    /// Lets go of what is out of sight, by whole lines where there are any.
    fn forget(&mut self) {
        // Not each time a little: what stays is moved.
        if self.given < 2 * SIGHT_BYTES {
            return;
        }
        let start = self.given - SIGHT_BYTES;
        let line = memchr(b'\n', &self.text[start..self.given]).map_or(0, |at| at + 1);
        self.text.drain(..start + line);
        self.given -= start + line;
    }
}

impl fmt::Debug for RedactedStream<'_> {
    /// Without the text: it is not redacted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RedactedStream({} of {} bytes given)",
            self.given,
            self.text.len()
        )
    }
}

/// How much of an endless line is given out: what comes last may be the beginning of a secret.
fn whole_characters(waiting: &[u8]) -> usize {
    let end = waiting.len() - AHEAD_BYTES;
    // At most three bytes of a character stand behind its first one.
    let cut = waiting[end - 3..=end]
        .iter()
        .rev()
        .take_while(|byte| **byte & 0xC0 == 0x80)
        .count();
    end - cut.min(3)
}
