//! Messages of an agent: known lines of the `sd_notify` protocol and our own.
//!
//! Lines that transfer rights are ignored: `MAINPID` (the shim knows its child) and `FDSTORE`.

use relight_core::ids::is_obeyed;
use relight_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Value of a wait that has ended.
const OVER: &str = "over";

/// Longer status texts are cut.
pub const STATUS_BYTES_MAX: usize = 1024;

/// A message of an agent. All but the last are signs of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifySign {
    /// It is ready.
    Ready,
    /// A plain heartbeat.
    Alive,
    /// Its status text, without control characters, at most [`STATUS_BYTES_MAX`].
    Status(String),
    /// It is ending by itself.
    Stopping,
    /// It needs this much more time.
    Extend(Span),
    /// It will be silent until then.
    WaitingUntil(Time),
    /// A Relight command blocks in it until then, or no longer when none.
    Verb(WaitId, Option<Time>),
    /// The id of its conversation, and the program that it belongs to.
    Session(String, String),
    /// It asks to be treated as hung.
    Trigger,
}

/// Identifies a wait of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitId {
    /// The waiting process, from the kernel; 0 if unknown.
    pub pid: u32,
    /// Number of its wait.
    pub number: u64,
}

impl NotifySign {
    /// Parses a line of a datagram; none when it is unknown.
    fn from_line(line: &str) -> Option<Self> {
        let (name, value) = line.split_once('=')?;
        match (name, value) {
            ("READY", "1") | ("X_RELIGHT_PHASE", "working") => Some(Self::Ready),
            ("WATCHDOG" | "RELOADING", "1") | ("X_RELIGHT_PHASE", "starting") => Some(Self::Alive),
            ("WATCHDOG", "trigger") => Some(Self::Trigger),
            ("STOPPING", "1") => Some(Self::Stopping),
            ("STATUS", text) => Some(Self::Status(clean(text))),
            ("EXTEND_TIMEOUT_USEC", us) => us
                .parse()
                .ok()
                .map(|us: u64| Self::Extend(Span::from_ms(us.div_ceil(1_000)))),
            ("X_RELIGHT_WAITING_UNTIL", time) => time.parse().ok().map(Self::WaitingUntil),
            ("X_RELIGHT_SESSION", session) => {
                let (program, id) = session.split_once(' ')?;
                Some(Self::Session(clean(program), clean(id)))
            }
            ("X_RELIGHT_VERB_WAITS", wait) => {
                let (number, until) = wait.split_once(' ')?;
                let id = WaitId {
                    pid: 0,
                    number: number.parse().ok()?,
                };
                let until = if until == OVER {
                    None
                } else {
                    Some(until.parse().ok()?)
                };
                Some(Self::Verb(id, until))
            }
            _ => None,
        }
    }

    /// Formats it as a line of a datagram.
    pub fn to_line(&self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Alive => "WATCHDOG=1".to_owned(),
            Self::Status(text) => format!("STATUS={}", clean(text)),
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Extend(span) => {
                format!("EXTEND_TIMEOUT_USEC={}", span.as_ms().saturating_mul(1_000))
            }
            Self::WaitingUntil(time) => format!("X_RELIGHT_WAITING_UNTIL={time}"),
            Self::Verb(WaitId { number, .. }, until) => {
                let until = until.map_or_else(|| OVER.to_owned(), |until| until.to_string());
                format!("X_RELIGHT_VERB_WAITS={number} {until}")
            }
            Self::Session(program, id) => {
                format!("X_RELIGHT_SESSION={} {}", clean(program), clean(id))
            }
            Self::Trigger => "WATCHDOG=trigger".to_owned(),
        }
    }
}

/// The messages in a datagram; empty when no line is known.
pub fn signs(datagram: &[u8]) -> Vec<NotifySign> {
    String::from_utf8_lossy(datagram)
        .lines()
        .filter_map(NotifySign::from_line)
        .collect()
}

/// Removes terminal control and bidirectional characters, and limits the length.
pub(in crate::supervise) fn clean(text: &str) -> String {
    let mut cleaned = String::new();
    for c in text.chars().map(|c| if is_obeyed(c) { ' ' } else { c }) {
        if cleaned.len() + c.len_utf8() > STATUS_BYTES_MAX {
            break;
        }
        cleaned.push(c);
    }
    cleaned.trim().to_owned()
}
