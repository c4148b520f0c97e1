//! Sends requests to the daemon over its socket: one request, one answer, with a limit on waiting.
//!
//! Our own few lines instead of a client library: it blocks, speaks HTTP/1.1 to this one server over a
//! Unix socket whose path may be too long for an address, and must tell "nobody listens" from "no
//! answer" for the commands that work without a daemon.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, in_path};
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use serde_json::Value;

use super::control::{AskError, Refused, SupervisorStatus, call, daemon_socket, holder};
use crate::os::process;

/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What the daemon answered.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body; null when it is empty.
    pub body: Value,
}

impl DaemonResponse {
    /// The refusal in it; none when it was done.
    pub fn refusal(&self) -> Option<Refused> {
        if (200..300).contains(&self.status) {
            return None;
        }
        let told = serde_json::from_value(self.body["error"].clone());
        Some(told.unwrap_or_else(|_| Refused {
            code: ErrorCode::INTERNAL,
            message: format!("the daemon said {}", self.status),
            hint: None,
        }))
    }
}

/// The daemon of a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonState {
    /// No process is the daemon.
    NotRunning,
    /// This process is, but it does not answer: it is frozen, or its socket was removed.
    Silent(ProcessIdentity),
    /// It answered so.
    Answers(SupervisorStatus),
}

/// Finds the daemon of a home by its answer, else by the process that holds its lock.
pub fn find(home: &Path, patience: Span) -> DaemonState {
    let socket = daemon_socket(home);
    let frozen = holder(&socket).filter(process::is_stopped);
    if let Some(process) = frozen {
        return DaemonState::Silent(process);
    }
    let answered = send(&socket, "GET", "/api/status", None, patience);
    let has_answered = answered.is_ok();
    let status = answered
        .ok()
        .and_then(|answered| serde_json::from_value(answered.body).ok());
    match (status, holder(&socket)) {
        (Some(status), _) => DaemonState::Answers(status),
        (None, None) => DaemonState::NotRunning,
        // It refused to say more.
        (None, Some(process)) if has_answered => DaemonState::Answers(SupervisorStatus {
            pid: process.pid,
            agents: Vec::new(),
            url: None,
            version: None,
        }),
        (None, Some(process)) => DaemonState::Silent(process),
    }
}

/// What the daemon of a home says of itself; none where none answers.
pub fn status(home: &Path, patience: Span) -> Option<SupervisorStatus> {
    let answered = send(&daemon_socket(home), "GET", "/api/status", None, patience).ok()?;
    serde_json::from_value(answered.body).ok()
}

/// Sends a heartbeat of an agent that reports by itself to the daemon of this home.
pub fn heartbeat(
    home: &Path,
    agent: &AgentName,
    beat: &Value,
    patience: Span,
) -> Result<DaemonResponse, AskError> {
    let path = format!("/api/agents/{}/heartbeat", in_path(agent.as_str()));
    send(&daemon_socket(home), "POST", &path, Some(beat), patience)
}

/// One request and its answer.
pub fn send(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
    patience: Span,
) -> Result<DaemonResponse, AskError> {
    let read = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::Nobody(socket.to_path_buf())
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::TooSlow(patience),
        _ => AskError::Broken(error),
    };
    let mut stream = call(socket, patience).map_err(read)?;
    stream
        .write_all(&written(method, path, body))
        .map_err(read)?;
    let mut bytes = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(read)?;
    parse(&bytes).ok_or_else(|| {
        AskError::Broken(io::Error::new(
            io::ErrorKind::InvalidData,
            "this is no HTTP answer",
        ))
    })
}

fn written(method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// An answer that ends with its connection.
#[doc(hidden)]
pub fn parse(bytes: &[u8]) -> Option<DaemonResponse> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()?
        .strip_prefix("HTTP/1.1 ")?
        .get(..3)?
        .parse()
        .ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let body = &bytes[end + 4..];
    // One that broke off is no answer.
    if length.is_some_and(|length: usize| body.len() != length) {
        return None;
    }
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).ok()?
    };
    Some(DaemonResponse { status, body })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_that_broke_off_is_none() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(
            parse(whole).unwrap(),
            DaemonResponse {
                status: 200,
                body: json!({})
            }
        );
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(
            parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().body,
            Value::Null
        );
        assert_eq!(parse(b"SSH-2.0-x\r\n\r\n"), None);
    }
}
