//! JSON-RPC messages as lines of standard input and output.
//!
//! As rmcp's own transport, with three differences: an object that names a member twice and a number that
//! would lose digits are refused, a line that is not JSON is answered, and no character that a terminal obeys is written as it is.

use std::io;
use std::sync::Arc;

use relight_core::agent::plain::harmless_json;
use relight_core::checkpoint::{Limits, check_unambiguous};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::{Mutex, mpsc};

type Received = RxJsonRpcMessage<RoleServer>;
type Sent = TxJsonRpcMessage<RoleServer>;

/// The longest message, and how deeply it may be nested: what rmcp and `serde_json` take.
const LIMITS: Limits = Limits {
    bytes_max: 16 << 20,
    depth_max: 128,
};
/// Messages that are read ahead of the one that is worked on.
const READ_AHEAD: usize = 16;

/// A pair of streams with one message a line.
pub(super) struct Lines<W> {
    received: mpsc::Receiver<Received>,
    write: Arc<Mutex<W>>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Lines<W> {
    /// Reads by a task of its own, which ends with the input or with this.
    pub(super) fn new(read: impl AsyncRead + Send + Unpin + 'static, write: W) -> Self {
        let (tell, received) = mpsc::channel(READ_AHEAD);
        let write = Arc::new(Mutex::new(write));
        let answers = Arc::clone(&write);
        tokio::spawn(async move {
            let mut read = BufReader::new(read);
            while let Ok(Some(line)) = next_line(&mut read).await {
                let goes_on = match message(line.as_deref()) {
                    Ok(Some(message)) => tell.send(message).await.is_ok(),
                    Ok(None) => true,
                    Err(refusal) => write_line(&answers, &Sent::Error(*refusal)).await.is_ok(),
                };
                if !goes_on {
                    return;
                }
            }
        });
        Self { received, write }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: Sent,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move { write_line(&write, &message).await }
    }

    async fn receive(&mut self) -> Option<Received> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.received.close();
        Ok(())
    }
}

async fn write_line(write: &Mutex<impl AsyncWrite + Unpin>, message: &Sent) -> io::Result<()> {
    let mut line = harmless_json(&serde_json::to_string(message)?).into_owned();
    line.push('\n');
    let mut write = write.lock().await;
    write.write_all(line.as_bytes()).await?;
    write.flush().await
}

/// The next line without its end; `Some(None)` for one that is too long, none at the end of the input.
async fn next_line(
    read: &mut BufReader<impl AsyncRead + Unpin>,
) -> io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let left = (LIMITS.bytes_max + 1 - line.len()) as u64;
        read.take(left).read_until(b'\n', &mut line).await?;
        if line.last() == Some(&b'\n') {
            line.pop();
            return Ok(Some((!is_too_long).then_some(line)));
        }
        if line.len() <= LIMITS.bytes_max {
            // What has no end is not a message.
            return Ok(None);
        }
        is_too_long = true;
        line.clear();
    }
}

/// The message of a line; none for what needs no answer; else the answer.
fn message(line: Option<&[u8]>) -> Result<Option<Received>, Box<JsonRpcError>> {
    let refused = |code, text: String, id: Option<RequestId>| {
        Err(Box::new(JsonRpcError::new(
            id,
            ErrorData::new(code, text, None),
        )))
    };
    let Some(line) = line else {
        let text = format!("a message has at most {} bytes", LIMITS.bytes_max);
        return refused(ErrorCode::INVALID_REQUEST, text, None);
    };
    let line = line
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(line)
        .trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return refused(ErrorCode::PARSE_ERROR, format!("not JSON: {error}"), None),
    };
    let id = serde_json::from_value(value["id"].clone()).ok();
    if let Err(error) = check_unambiguous(line, LIMITS) {
        return refused(ErrorCode::INVALID_REQUEST, error.to_string(), id);
    }
    let is_notification = value["method"].is_string() && value.get("id").is_none();
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if is_notification => Ok(None),
        Err(_) => refused(
            ErrorCode::INVALID_REQUEST,
            "this is not a message of MCP".to_owned(),
            id,
        ),
    }
}
