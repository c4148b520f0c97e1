//! Where a daemon or its floor is reached, and what is said there: HTTP/1.1, one request at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;

/// Nothing that is asked for here takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Where somebody listens, and by which token one comes in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) place: Place,
    pub(crate) token: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Socket(PathBuf),
}

/// One connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Socket(UnixStream),
}

/// The whole of an answer, or of as much as came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Where the body begins.
    pub(crate) bytes: usize,
    /// None for a body in chunks.
    pub(crate) body_bytes: Option<usize>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// All that came over the wire.
    pub(crate) bytes: usize,
}

impl Door {
    pub(crate) fn connect(&self) -> anyhow::Result<Stream> {
        Ok(match &self.place {
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_MAX))?;
                Stream::Tcp(stream)
            }
            Place::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(ANSWER_MAX))?;
                Stream::Socket(stream)
            }
        })
    }

    /// A request as it goes over the wire, by one who takes compressed answers as a browser does.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        match body {
            Some(body) => {
                let length = body.len();
                let headers =
                    format!("content-type: application/json\r\ncontent-length: {length}\r\n");
                let mut request = self.plain_request(method, path, &headers);
                request.extend_from_slice(body.as_bytes());
                request
            }
            None => self.plain_request(method, path, "accept-encoding: gzip\r\n"),
        }
    }

    /// A request without a body, with these headers beside the usual ones.
    pub(crate) fn plain_request(&self, method: &str, path: &str, headers: &str) -> Vec<u8> {
        let (host, token) = match &self.place {
            Place::Tcp(address) => (
                address.to_string(),
                format!("authorization: Bearer {}\r\n", self.token),
            ),
            Place::Socket(_) => ("localhost".to_owned(), String::new()),
        };
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{token}{headers}\r\n").into_bytes()
    }

    /// Asks once, on a connection of its own.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> anyhow::Result<serde_json::Value> {
        let mut stream = self.connect()?;
        let answer = stream.ask(&self.request(method, path, body))?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(
            answer.status < 300,
            "{method} {path}: {} {text}",
            answer.status
        );
        serde_json::from_str(&text).with_context(|| format!("{method} {path}: {text}"))
    }
}

impl Stream {
    /// Asks and reads the answer to its end.
    pub(crate) fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.write_all(request)?;
        let mut read = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(head) = Head::parse(&read)? {
                let body = &read[head.bytes..];
                let is_whole = match head.body_bytes {
                    Some(bytes) => body.len() >= bytes,
                    // Of unknown length, in chunks: nothing else comes before the next request.
                    None => body.ends_with(b"\r\n0\r\n\r\n"),
                };
                if is_whole {
                    return Ok(Answer {
                        status: head.status,
                        body: body[..head.body_bytes.unwrap_or(body.len())].to_vec(),
                        bytes: read.len(),
                    });
                }
            }
            let count = self.read(&mut chunk)?;
            ensure!(
                count > 0,
                "the connection was closed after {} bytes",
                read.len()
            );
            read.extend_from_slice(&chunk[..count]);
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Socket(stream) => stream.set_nonblocking(true),
        }
    }
}

impl Head {
    /// None while not all of it is there.
    pub(crate) fn parse(read: &[u8]) -> anyhow::Result<Option<Head>> {
        let Some(end) = memmem::find(read, b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&read[..end])?;
        let status = text.get(9..12).and_then(|code| code.parse().ok());
        let Some(status) = status else {
            bail!("an answer begins with {text:?}")
        };
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then_some(value.trim())
        });
        let body_bytes = length.map(str::parse).transpose()?;
        Ok(Some(Head {
            status,
            bytes: end + 4,
            body_bytes,
        }))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Socket(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Socket(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Socket(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let head = Head {
            status: 200,
            bytes: 38,
            body_bytes: Some(2),
        };
        assert_eq!(Head::parse(text).unwrap(), Some(head));
        assert_eq!(Head::parse(&text[..37]).unwrap(), None);
        let stream = Head::parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap();
        assert_eq!(stream.body_bytes, None);
    }
}
