//! A server on a folder of its own, a supervisor that answers as it is told, and a client that can say
//! anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use relight_core::agent::AgentPlan;
use relight_core::agent::AgentStateKind;
use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use relight_core::recovery::TaskPolicy;
use relight_redact::Redactor;
use relight_runtime::engine::Engine;
use relight_runtime::os::limits;
use relight_runtime::queue::Queue;
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::control::{
    Changed, Control, ControlReply, Registered, Request, ShutdownSummary, SupervisorStatus,
    daemon_socket,
};
use relight_runtime::supervise::control_server::Reception;
use relight_runtime::supervise::heartbeats::Beats;
use relight_runtime::supervise::notices::Notices;
use relight_runtime::supervise::reporters::Reporters;
use relight_server::{Backend, Server, Settings, Threads, tokens};
use relight_store::sqlite::Use;
use serde_json::{Value, json};

/// What is waited for comes sooner.
const LIMIT: Duration = Duration::from_secs(120);

/// Now, by a clock that nobody sets.
#[expect(
    clippy::disallowed_methods,
    reason = "a test measures with its own clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits for the store.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A server and what it stands on.
pub(crate) struct Ground {
    pub(crate) home: tempfile::TempDir,
    pub(crate) server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) token: String,
    /// What the supervisor was asked.
    pub(crate) asked: Arc<Mutex<Vec<Request>>>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::open(settings, false)
    }

    /// One that takes commands over the network.
    pub(crate) fn with_commands() -> Self {
        Self::open(Settings::default(), true)
    }

    fn open(settings: Settings, allows_commands: bool) -> Self {
        limits::raise_open_files();
        let home = tempfile::tempdir().unwrap();
        let store = StoreUrl::Sqlite(home.path().join("relight.db"))
            .open(Use::Long)
            .unwrap();
        let engine = Engine::new(
            store,
            Redactor::new(relight_runtime::mark_key_beside(home.path()).unwrap()),
        )
        .with_file_intake(relight_runtime::dialect::take_in_file);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = serve(home.path(), &engine, settings, allows_commands, &asked);
        let address = server.address().unwrap();
        let token = tokens::show(home.path()).unwrap();
        Self {
            home,
            server: Some(server),
            address,
            engine,
            token,
            asked,
        }
    }

    /// Ends, and begins anew over the same folder and at the same address.
    pub(crate) fn restart(&mut self) {
        let settings = Settings {
            listen: Some(self.address),
            ..Settings::default()
        };
        self.begin_anew(settings);
    }

    /// Another daemon after this one, on the same store.
    pub(crate) fn reopen(&mut self) {
        self.begin_anew(Settings::default());
    }

    fn begin_anew(&mut self, settings: Settings) {
        self.stop();
        let server = serve(self.home.path(), &self.engine, settings, false, &self.asked);
        self.address = server.address().unwrap();
        self.server = Some(server);
    }

    /// Follows the events from now on. Returns once the server does.
    pub(crate) fn watch(&self, kinds: &str) -> Watch {
        let asking = self
            .ask("GET", &format!("/api/events?kind={kinds}"))
            .token(&self.token);
        let stream = asking.header("Accept", "text/event-stream").open();
        let mut watch = Watch {
            stream,
            heard: Vec::new(),
        };
        watch.until("retry: 1000");
        watch
    }

    pub(crate) fn socket(&self) -> PathBuf {
        daemon_socket(self.home.path())
    }

    /// A request over TCP with the first token.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(method, path).token(&self.token).json(body).send()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).token(&self.token).send()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, body)
    }

    /// A request over TCP that says nothing but where it goes.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Asking<'_> {
        let host = self.address.to_string();
        Asking {
            ground: self,
            line: format!("{method} {path} HTTP/1.1"),
            headers: vec![("Host".to_owned(), host)],
            body: Vec::new(),
            over_socket: false,
        }
    }

    pub(crate) fn stop(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(self.server.take().unwrap().stop());
    }
}

pub(crate) fn serve(
    home: &Path,
    engine: &Engine,
    settings: Settings,
    allows_commands: bool,
    asked: &Arc<Mutex<Vec<Request>>>,
) -> Server {
    let recoverer = Recoverer::new(engine.clone(), Strategies::default(), TaskPolicy::default());
    let (calls, reception) = Reception::channel();
    supervise(reception, Arc::clone(asked));
    let beats = Beats::default();
    let backend = Backend {
        engine: engine.clone(),
        queue: Queue::new(recoverer.clone()),
        calls,
        reporters: Reporters::new(
            recoverer.clone(),
            beats.clone(),
            Notices::channel().0,
            AgentPlan::default(),
        ),
        recoverer,
        beats,
        sessions: relight_core::session::Rules::default(),
        home: home.to_path_buf(),
        project: None,
        node: None,
        held_back: Arc::default(),
        allows_commands,
        complain: Arc::new(|text| eprintln!("complaint: {text}")),
    };
    let threads = Threads::new().unwrap();
    let control = threads
        .bind(|| Control::bind(&daemon_socket(home)))
        .unwrap()
        .unwrap();
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = Some(settings.listen.unwrap_or(free));
    Server::start(threads, control, Settings { listen, ..settings }, backend).unwrap()
}

/// Events as they come.
pub(crate) struct Watch {
    stream: Box<dyn Stream>,
    heard: Vec<u8>,
}

impl Watch {
    /// Reads on until this comes, which the time limit of the connection bounds; what came up to it.
    pub(crate) fn until(&mut self, wanted: &str) -> String {
        let mut byte = [0];
        loop {
            let text = String::from_utf8_lossy(&self.heard).into_owned();
            if text.contains(wanted) {
                self.heard.clear();
                return text;
            }
            self.stream
                .read_exact(&mut byte)
                .unwrap_or_else(|error| panic!("{error}: {text}"));
            self.heard.push(byte[0]);
        }
    }
}

/// Knows the agent `writer`, and nobody else.
fn supervise(mut reception: Reception, asked: Arc<Mutex<Vec<Request>>>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            loop {
                let call = reception.next().await;
                asked.lock().unwrap().push(call.request.clone());
                let _ = call.reply.send(answer(&call.request));
            }
        });
    });
}

fn answer(request: &Request) -> ControlReply {
    match request {
        Request::Start { agent } | Request::Stop { agent } | Request::Restart { agent } => {
            if agent.as_str() != "writer" {
                let text = format!("agent {agent} is not supervised here");
                return ControlReply::error(ErrorCode::NOT_SUPERVISED, text, None);
            }
            let running = AgentStateKind::Running;
            ControlReply::ok(&Changed::new(
                AgentName::new("writer").unwrap(),
                running,
                running,
                None,
            ))
        }
        Request::Status => ControlReply::ok(&SupervisorStatus {
            pid: 1,
            agents: Vec::new(),
            url: None,
            version: None,
        }),
        Request::Down { .. } => ControlReply::ok(&ShutdownSummary {
            pid: 1,
            agents: 0,
            problem: None,
        }),
        Request::Register(_) => ControlReply::ok(&Registered { created: true }),
        Request::Unregister { .. } | Request::Reload | Request::Recover { .. } => {
            ControlReply::ok(&json!({}))
        }
    }
}

/// A request that is being put together.
pub(crate) struct Asking<'a> {
    ground: &'a Ground,
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    over_socket: bool,
}

impl Asking<'_> {
    pub(crate) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another value than it has.
    pub(crate) fn instead(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.header(name, value)
    }

    pub(crate) fn over_socket(mut self) -> Self {
        self.over_socket = true;
        self.instead("Host", "localhost")
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string().as_bytes())
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        let length = body.len().to_string();
        self.instead("Content-Length", &length)
    }

    pub(crate) fn send(self) -> Answer {
        let asking = self.header("Connection", "close");
        let mut stream = asking.open();
        let mut bytes = Vec::new();
        // A server that has said why it does not listen may close while we still speak.
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    /// Sends it, and leaves the connection open.
    pub(crate) fn open(self) -> Box<dyn Stream> {
        let mut stream: Box<dyn Stream> = if self.over_socket {
            let stream = UnixStream::connect(self.ground.socket()).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            Box::new(stream)
        } else {
            let stream = TcpStream::connect(self.ground.address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            Box::new(stream)
        };
        let mut text = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.write_all(&self.body);
        stream
    }
}

/// A connection of either kind.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    /// The bytes of its body, as they were sent.
    pub(crate) length: usize,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let length = bytes.len().saturating_sub(head.len() + 4);
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .unwrap_or(0);
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Self {
            status,
            headers: headers.collect(),
            text: body.to_owned(),
            length,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a refusal.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }
}
