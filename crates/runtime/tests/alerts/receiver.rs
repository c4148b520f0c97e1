//! A tiny HTTP server that writes down what it gets and answers as it was told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long something that must come is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    /// As it came.
    pub(crate) body: String,
}

impl Post {
    /// The message's id.
    pub(crate) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    /// The body's document.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}

/// What a request is answered with.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status line's code, and headers.
    Status(u16, &'static str),
    /// Nothing: the connection stays open.
    Silence,
}

/// The server. Answers in the given order, then with 200.
pub(crate) struct Receiver {
    url: String,
    inbox: Inbox<Post>,
}

impl Receiver {
    /// Listens on a port of its own.
    pub(crate) fn answering(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let (posts, inbox) = channel();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (posts, answers) = (posts.clone(), Arc::clone(&answers));
                std::thread::spawn(move || serve(&stream, &posts, &answers));
            }
        });
        Self { url, inbox }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The next request; it must come.
    pub(crate) fn next(&self) -> Post {
        self.inbox
            .recv_timeout(PATIENCE)
            .expect("a request within the time")
    }

    /// Nothing comes for this long.
    pub(crate) fn assert_quiet(&self, for_ms: u64) {
        match self.inbox.recv_timeout(Duration::from_millis(for_ms)) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("nothing more was to come: {other:?}"),
        }
    }
}

fn serve(stream: &TcpStream, posts: &Sender<Post>, answers: &Mutex<VecDeque<Answer>>) {
    let Some(post) = read(stream) else { return };
    // Before it is told of, so that the order of both is one.
    let answer = answers
        .lock()
        .expect("no panic")
        .pop_front()
        .unwrap_or(Answer::Status(200, ""));
    let _ = posts.send(post);
    match answer {
        Answer::Status(code, headers) => {
            let mut stream = stream;
            let _ = write!(
                stream,
                "HTTP/1.1 {code} X\r\n{headers}content-length: 0\r\n\r\n"
            );
        }
        Answer::Silence => {
            // Until the other side gives up.
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1]);
        }
    }
}

fn read(stream: &TcpStream) -> Option<Post> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    assert!(line.starts_with("POST /hook HTTP/1.1"), "{line}");
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Post {
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
