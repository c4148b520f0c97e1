//! Answers requests over HTTP, one for each connection, and keeps what was asked.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::dialect::{self, Dialect};
use super::mind::{Asked, Mind, Point};
use super::script::Answer;

/// No request of an agent is larger.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// A client that says nothing for so long is gone.
const READ_WAIT: Duration = Duration::from_secs(60);

/// A model on a port of loopback.
pub struct StubModel {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    mind: Arc<dyn Mind>,
    count: AtomicU64,
    /// What was asked, one JSON document a line.
    record: Option<Mutex<File>>,
}

struct Request {
    method: String,
    path: String,
    body: Value,
}

impl StubModel {
    /// Binds the port, any when 0.
    pub fn bind(port: u16, mind: Arc<dyn Mind>, record: Option<&Path>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let record = record.map(File::create).transpose()?.map(Mutex::new);
        let shared = Shared {
            mind,
            count: AtomicU64::new(0),
            record,
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// Its port.
    pub fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// Answers for ever.
    pub fn serve(&self) -> io::Result<()> {
        for stream in self.listener.incoming() {
            let (stream, shared) = (stream?, Arc::clone(&self.shared));
            // A client that went away in the middle was killed on purpose.
            std::thread::spawn(move || shared.answer(&stream).unwrap_or_default());
        }
        Ok(())
    }
}

impl Shared {
    fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(READ_WAIT))?;
        let Request { method, path, body } = read_request(stream)?;
        let mut to = stream;
        let dialect = Dialect::of(&path).filter(|_| method == "POST");
        let Some(dialect) = dialect else {
            return document(
                to,
                200,
                None,
                &json!({"data": [], "input_tokens": 1, "totalTokens": 1}),
            );
        };
        let asked = Asked::read(self.count.fetch_add(1, Ordering::Relaxed), &body);
        let answer = self.mind.answer(&asked);
        self.keep(&path, &body, &answer)?;
        self.mind.reached(&asked, &answer, Point::Asked);
        let id = asked.number;
        match &answer {
            Answer::Status(status, retry_after, text) => {
                return document(
                    to,
                    *status,
                    *retry_after,
                    &dialect::error(dialect, *status, text),
                );
            }
            Answer::Wait(wait) => {
                stream.set_read_timeout(Some(*wait))?;
                // Ends when the client does, or in time.
                let _ = (&mut to).read(&mut [0]);
                return Ok(());
            }
            Answer::Say(_) | Answer::Call(..) => {}
        }
        if !dialect.streams(&path, &body) {
            return document(to, 200, None, &dialect.document(&answer, id));
        }
        to.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )?;
        let events = dialect.events(&answer, id);
        for (at, (name, value)) in events.iter().enumerate() {
            if at == events.len() / 2 {
                self.mind.reached(&asked, &answer, Point::Half);
            }
            let name = name.map_or(String::new(), |name| format!("event: {name}\n"));
            to.write_all(format!("{name}data: {value}\n\n").as_bytes())?;
        }
        if dialect == Dialect::Chat {
            to.write_all(b"data: [DONE]\n\n")?;
        }
        self.mind.reached(&asked, &answer, Point::Whole);
        Ok(())
    }

    fn keep(&self, path: &str, body: &Value, answer: &Answer) -> io::Result<()> {
        let Some(record) = &self.record else {
            return Ok(());
        };
        let mut file = record.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(
            file,
            "{}",
            json!({"path": path, "body": body, "answer": format!("{answer:?}")})
        )
    }
}

fn read_request(stream: &TcpStream) -> io::Result<Request> {
    let mut from = BufReader::new(stream.take(BODY_BYTES_MAX));
    let mut line = String::new();
    from.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut header = String::new();
        if from.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let header = header.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        is_chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
        if header.starts_with("expect:") {
            let mut to = stream;
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
    }
    let body = if is_chunked {
        read_chunks(&mut from)?
    } else {
        read_bytes(&mut from, length)?
    };
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Request { method, path, body })
}

fn read_bytes(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
        if length == 0 {
            return Ok(body);
        }
        body.extend(read_bytes(from, length)?);
        from.read_line(&mut String::new())?;
    }
}

fn document(
    mut to: impl Write,
    status: u16,
    retry_after: Option<u64>,
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    let retry_after = retry_after.map_or(String::new(), |s| format!("Retry-After: {s}\r\n"));
    let length = body.len();
    write!(
        to,
        "HTTP/1.1 {status} Stub\r\nContent-Type: application/json\r\n{retry_after}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
