//! A way to daemons on which the first answer gets lost, after the daemon has given it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A socket whose connections go to one daemon after the other, the last of them for all that follow.
pub(super) struct Lossy {
    pub(super) socket: PathBuf,
    lost: Arc<AtomicUsize>,
}

impl Lossy {
    pub(super) fn new(folder: &Path, daemons: Vec<PathBuf>) -> Self {
        let socket = folder.join("lossy.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let lost = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lost);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let daemon = &daemons[number.min(daemons.len() - 1)];
                let (client, daemon) = (client.unwrap(), UnixStream::connect(daemon).unwrap());
                if number == 0 {
                    lose(client, daemon);
                    counted.fetch_add(1, Ordering::Relaxed);
                } else {
                    std::thread::spawn(move || carry(client, daemon));
                }
            }
        });
        Self { socket, lost }
    }

    /// How many answers got lost.
    pub(super) fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

/// One question is heard, and its answer goes nowhere.
fn lose(mut client: UnixStream, mut daemon: UnixStream) {
    daemon.write_all(&message(&mut client)).unwrap();
    let answer = message(&mut daemon);
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

fn carry(mut client: UnixStream, mut daemon: UnixStream) {
    loop {
        let question = message(&mut client);
        if question.is_empty() {
            return;
        }
        daemon.write_all(&question).unwrap();
        client.write_all(&message(&mut daemon)).unwrap();
    }
}

/// One whole message of HTTP; empty at the end.
fn message(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return Vec::new();
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    [bytes, body].concat()
}
