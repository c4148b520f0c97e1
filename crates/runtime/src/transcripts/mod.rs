//! Transcripts: the files in which agent programs keep their conversations.
//!
//! A program that is killed while it writes leaves half a line, NUL bytes or a call without a result. Some
//! programs then refuse the file, lose what comes before or after the damage, or forget the call.
//! `formats` is the data, `repair` computes, `files` reads and writes.

mod files;
mod formats;
mod repair;
#[cfg(test)]
mod tests;

pub use files::{TranscriptError, TranscriptReport, TranscriptRule, check, redacted, repair};
pub use formats::Format;
pub use repair::{Examination, Finding, FindingKind, OpenCall, Remedy, examine};
