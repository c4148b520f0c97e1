//! The way to the daemon: questions over its socket, asked again while it is being restarted.
//!
//! Our own few lines of HTTP/1.1, as in `client`, but with connections that are kept for the next
//! question. Asking again is safe: looks change nothing, and a write has an id by which the daemon, or
//! `read_back`, knows it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use relight_core::time::Span;
use relight_runtime::supervise::control;
use relight_store::StoreError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::call::PATH;

/// How long a daemon may be away: it is being restarted, and agents live on meanwhile.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// The first and the longest pause between two tries.
const PAUSE: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];
/// How long a daemon that is there may take for a connection.
const CONNECT_MAX: Span = Span::from_secs(2);
/// How long it may take for an answer; a change is waited for in shorter questions.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Connections that are kept.
const IDLE_MAX: usize = 8;
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The way to one daemon.
#[derive(Debug)]
pub(super) struct SocketClient {
    socket: PathBuf,
    idle: Mutex<Vec<UnixStream>>,
    away_max: Duration,
}

/// What the daemon said.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// An earlier try may have been heard too, and its answer was lost.
    pub(super) was_lost: bool,
}

/// Why there is no answer.
#[derive(Debug)]
enum Lost {
    /// Nobody took the connection: nothing was heard.
    Nobody(io::Error),
    /// It broke off, and the question may have been heard.
    Broken(io::Error),
    /// It did not come in time.
    Slow,
}

impl SocketClient {
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_path_buf(),
            idle: Mutex::default(),
            away_max: AWAY_MAX,
        }
    }

    /// Waits so long for a daemon that is away.
    pub(super) fn set_patience(&mut self, away_max: Duration) {
        self.away_max = away_max;
    }

    /// The store as people are told of it.
    pub(super) fn place(&self) -> String {
        format!("behind {}", self.socket.display())
    }

    /// Asks until there is an answer, or the daemon is away for too long.
    pub(super) async fn ask(&self, question: &[u8]) -> Result<Heard, StoreError> {
        let until = Instant::now() + self.away_max;
        let (mut was_lost, mut pause) = (false, PAUSE[0]);
        loop {
            let lost = match self.try_once(question, &mut was_lost).await {
                Ok((status, body)) => {
                    return Ok(Heard {
                        status,
                        body,
                        was_lost,
                    });
                }
                Err(lost) => lost,
            };
            was_lost |= !matches!(lost, Lost::Nobody(_));
            if !lost.may_pass() || Instant::now() + pause >= until {
                return Err(self.unreachable(&lost));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE[1]);
        }
    }

    async fn try_once(&self, question: &[u8], was_lost: &mut bool) -> Result<(u16, Vec<u8>), Lost> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(stream) = idle {
            match self.speak(stream, question).await {
                // The daemon has closed it meanwhile, or was restarted: a new one tells.
                Err(Lost::Broken(_)) => *was_lost = true,
                other => return other,
            }
        }
        let stream = self.connect().map_err(Lost::Nobody)?;
        self.speak(stream, question).await
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = control::call(&self.socket, CONNECT_MAX)?;
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }

    async fn speak(&self, mut stream: UnixStream, question: &[u8]) -> Result<(u16, Vec<u8>), Lost> {
        let spoken = async {
            stream.write_all(&head(question.len())).await?;
            stream.write_all(question).await?;
            answer(&mut stream).await
        };
        match timeout(ANSWER_MAX, spoken).await {
            Ok(Ok(answered)) => {
                self.keep(stream);
                Ok(answered)
            }
            Ok(Err(error)) => Err(Lost::Broken(error)),
            Err(_) => Err(Lost::Slow),
        }
    }

    fn keep(&self, stream: UnixStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(stream);
        }
    }

    fn unreachable(&self, lost: &Lost) -> StoreError {
        let why = match lost {
            Lost::Nobody(error) if is_nobody(error) => {
                "no daemon listens there; relight up on this node starts it".to_owned()
            }
            Lost::Nobody(error) => error.to_string(),
            Lost::Broken(error) => format!("the daemon hangs up ({error})"),
            Lost::Slow => format!(
                "the daemon does not answer within {} s",
                ANSWER_MAX.as_secs()
            ),
        };
        StoreError::Unreachable {
            place: self.place(),
            why,
        }
    }
}

impl Lost {
    /// Whether it may be better in a moment.
    fn may_pass(&self) -> bool {
        match self {
            Self::Nobody(error) => is_nobody(error) || error.kind() == io::ErrorKind::WouldBlock,
            Self::Broken(error) => error.kind() != io::ErrorKind::InvalidData,
            Self::Slow => false,
        }
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

fn head(length: usize) -> Vec<u8> {
    format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Status and body of one answer.
async fn answer(stream: &mut UnixStream) -> io::Result<(u16, Vec<u8>)> {
    let mut bytes = Vec::with_capacity(4_096);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(no_answer());
        }
        more(stream, &mut bytes).await?;
    };
    let mut body = bytes.split_off(end + 4);
    let (status, length) = read_head(&bytes).ok_or_else(no_answer)?;
    while body.len() < length {
        more(stream, &mut body).await?;
    }
    if body.len() > length {
        return Err(no_answer());
    }
    Ok((status, body))
}

async fn more(stream: &mut UnixStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The status, and how long the body is.
fn read_head(head: &[u8]) -> Option<(u16, usize)> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
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
    })?;
    Some((status, length))
}

fn no_answer() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "this is not an answer of a daemon",
    )
}
