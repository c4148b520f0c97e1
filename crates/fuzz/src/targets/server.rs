//! The daemon's HTTP, through a real listener: over a store in memory, without a supervisor.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use relight_core::recovery::TaskPolicy;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::engine::Engine;
use relight_runtime::queue::Queue;
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::control::{Control, daemon_socket};
use relight_runtime::supervise::control_server::Reception;
use relight_runtime::supervise::heartbeats::Beats;
use relight_runtime::supervise::notices::Notices;
use relight_runtime::supervise::reporters::Reporters;
use relight_server::{Backend, Server, Settings, Threads, client, tokens};
use relight_store::sqlite::Use;

/// Stand for the daemon's address and token in inputs.
const HOST: &str = "127.0.0.1:7717";
const TOKEN: &str = "rlt_fuzz";
/// The longest that an answer may take; a request that waits for work is cut off then.
const WAIT_MAX: Duration = Duration::from_millis(300);
/// How many routes get the same body.
const ROUTES_PER_BODY: usize = 4;

const BODIES: &[&str] = &[
    "/api/agents",
    "/api/agents/a/heartbeat",
    "/api/agents/a/restart",
    "/api/agents/a/start",
    "/api/agents/a/stop",
    "/api/down",
    "/api/login",
    "/api/nodes/a/drain",
    "/api/recover",
    "/api/sessions/a/begin",
    "/api/sessions/a/end",
    "/api/sessions/a/suspend",
    "/api/sessions/a/touch",
    "/api/sessions/recover",
    "/api/sessions/shutdown",
    "/api/tasks",
    "/api/tasks/a/block",
    "/api/tasks/a/defer",
    "/api/tasks/a/done",
    "/api/tasks/a/set",
    "/api/tasks/a/spend",
    "/api/tasks/a/start",
    "/api/tasks/a/steps/s/begin",
    "/api/tasks/a/steps/s/end",
    "/api/tasks/a/steps/s/resolve",
    "/api/tasks/a/steps/s/skip",
    "/mcp",
    "/api/tasks/claim",
];
const LISTS: &[&str] = &[
    "/api/agents",
    "/api/agents/a/deaths",
    "/api/agents/a/logs",
    "/api/attempts",
    "/api/events",
    "/api/sessions",
    "/api/stats",
    "/api/tasks",
];

struct Daemon {
    address: SocketAddr,
    token: String,
    socket: PathBuf,
    _server: Server,
}

static DAEMON: LazyLock<Daemon> = LazyLock::new(|| {
    remove_folders_of_dead_runs();
    let prefix = format!("relight-fuzz-{}-", std::process::id());
    let home = tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir()
        .expect("a folder can be made");
    let home = home.keep();
    let store = StoreUrl::Memory
        .open(Use::Long)
        .expect("memory can be opened");
    let engine = Engine::new(store, Redactor::new(MarkKey::new([0; 32])))
        .with_file_intake(relight_runtime::dialect::take_in_file);
    let server = serve(&home, &engine);
    let address = server.address().expect("it listens");
    let token = tokens::show(&home).expect("it has a token");
    Daemon {
        address,
        token,
        socket: daemon_socket(&home),
        _server: server,
    }
});

/// A static is never dropped: the next run removes what this one leaves.
fn remove_folders_of_dead_runs() {
    let Ok(probe) = tempfile::tempdir() else {
        return;
    };
    let folders = probe
        .path()
        .parent()
        .and_then(|parent| std::fs::read_dir(parent).ok());
    for entry in folders.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix("relight-fuzz-"));
        let pid = pid.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn serve(home: &Path, engine: &Engine) -> Server {
    let recoverer = Recoverer::new(engine.clone(), Strategies::default(), TaskPolicy::default());
    let (calls, _) = Reception::channel();
    let beats = Beats::default();
    let backend = Backend {
        engine: engine.clone(),
        queue: Queue::new(recoverer.clone()),
        reporters: Reporters::new(
            recoverer.clone(),
            beats.clone(),
            Notices::channel().0,
            relight_core::agent::AgentPlan::default(),
        ),
        recoverer,
        calls,
        beats,
        sessions: relight_core::session::Rules::default(),
        home: home.to_path_buf(),
        project: None,
        node: None,
        held_back: Arc::default(),
        allows_commands: false,
        complain: Arc::new(|_| {}),
    };
    let threads = Threads::new().expect("threads can be started");
    let control = threads.bind(|| Control::bind(&daemon_socket(home)));
    let control = control.expect("it runs").expect("the socket can be bound");
    let settings = Settings {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..Settings::default()
    };
    Server::start(threads, control, settings, backend).expect("it starts")
}

/// What the daemon answers to these bytes on one connection, which ends after them.
fn answer(data: &[u8]) -> Vec<u8> {
    exchange(data, true)
}

/// A request that is still answered when its client closes its side may lose the answer, so a whole
/// request leaves it open.
fn exchange(data: &[u8], closes: bool) -> Vec<u8> {
    let request = replaced(data, HOST, &DAEMON.address.to_string());
    let request = replaced(&request, TOKEN, &DAEMON.token);
    let mut answered = Vec::new();
    let Ok(mut stream) = TcpStream::connect(DAEMON.address) else {
        return answered;
    };
    let _ = stream.set_read_timeout(Some(WAIT_MAX));
    let _ = stream.set_write_timeout(Some(WAIT_MAX));
    let _ = stream.write_all(&request);
    if closes {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let _ = stream.read_to_end(&mut answered);
    answered
}

fn replaced(data: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some(at) = rest
        .windows(from.len())
        .position(|part| part == from.as_bytes())
    {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// The statuses of all answers on the connection.
fn statuses(answered: &[u8]) -> impl Iterator<Item = u16> {
    let heads = answered
        .windows(12)
        .filter(|part| part.starts_with(b"HTTP/1.1 "));
    heads.filter_map(|head| std::str::from_utf8(&head[9..12]).ok()?.parse().ok())
}

fn has(data: &[u8], text: &str) -> bool {
    data.windows(text.len())
        .any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

fn assert_nothing_broke(answered: &[u8]) {
    for status in statuses(answered) {
        assert_ne!(status, 500, "{}", String::from_utf8_lossy(answered));
    }
}

/// Bytes on a connection: every answer is sealed, no answer tells of an internal error, and no request
/// without token and host is served.
pub(crate) fn connection(data: &[u8]) {
    let answered = answer(data);
    assert_nothing_broke(&answered);
    let text = String::from_utf8_lossy(&answered);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return;
    };
    let is_sealed = head.contains("content-security-policy") && head.contains("nosniff");
    // What is not HTTP at all is answered by the connection itself, with an empty body.
    assert!(is_sealed || body.is_empty(), "{text}");
    assert!(!head.contains("access-control"), "{text}");
    let is_done = statuses(&answered).any(|status| (200..300).contains(&status));
    let port = DAEMON.address.port();
    let own = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
    ];
    let is_named = has(data, HOST) || own.iter().any(|host| has(data, host));
    assert!(!is_done || is_named, "a foreign host was served: {text}");
    let is_open = ["/api/health", "/login/", "/assets/"]
        .iter()
        .any(|path| has(data, path));
    let has_token = has(data, TOKEN) || has(data, &DAEMON.token);
    assert!(
        !is_done || is_open || has_token,
        "let in without a token: {text}"
    );
}

/// A body for several routes, and for the relay: taken, or refused as the caller's mistake.
pub(crate) fn bodies(data: &[u8]) {
    let first = data.iter().fold(0usize, |sum, byte| {
        sum.wrapping_mul(31) + usize::from(*byte)
    });
    let len = replaced(
        &replaced(data, HOST, &DAEMON.address.to_string()),
        TOKEN,
        &DAEMON.token,
    )
    .len();
    for n in 0..ROUTES_PER_BODY {
        let path = BODIES[(first + n * 7) % BODIES.len()];
        assert_nothing_broke(&answer(&post(path, len, data)));
    }
    assert_nothing_broke(&relayed(data));
}

fn post(path: &str, len: usize, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Connection: close\r\nContent-Length: {len}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// What the daemon answers to a question of an agent, which comes over its socket only.
fn relayed(question: &[u8]) -> Vec<u8> {
    let mut answered = Vec::new();
    let Ok(mut stream) = UnixStream::connect(&DAEMON.socket) else {
        return answered;
    };
    let _ = stream.set_read_timeout(Some(WAIT_MAX));
    let _ = stream.write_all(&post("/relay", question.len(), question));
    let _ = stream.read_to_end(&mut answered);
    answered
}

/// Headers: a request that is served names one host of the daemon, and no foreign origin or site.
pub(crate) fn headers(data: &[u8]) {
    let mut lines: Vec<(String, Vec<u8>)> = Vec::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let Ok(name) = std::str::from_utf8(&line[..at]) else {
            continue;
        };
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let value = line[at + 1..].trim_ascii();
        if is_name && !value.iter().any(|byte| *byte < b' ') {
            lines.push((name.to_ascii_lowercase(), value.to_vec()));
        }
    }
    lines.retain(|(name, _)| name != "content-length" && name != "transfer-encoding");
    let mut request = b"GET /api/agents HTTP/1.1\r\nConnection: close\r\n".to_vec();
    for (name, value) in &lines {
        request.extend_from_slice(name.as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(format!("Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes());
    let answered = answer(&request);
    assert_nothing_broke(&answered);
    if !statuses(&answered).any(|status| (200..300).contains(&status)) {
        return;
    }
    let of = |wanted: &'static str| {
        lines
            .iter()
            .filter(move |(name, _)| name == wanted)
            .map(|(_, value)| value.as_slice())
    };
    let own = DAEMON.address.to_string();
    let is_own = |host: &[u8]| {
        let port = format!(":{}", DAEMON.address.port());
        let names = ["localhost", "[::1]"].map(|name| format!("{name}{port}"));
        host == HOST.as_bytes()
            || [&own, &names[0], &names[1]]
                .iter()
                .any(|name| host.eq_ignore_ascii_case(name.as_bytes()))
    };
    assert!(
        of("host").count() == 1 && of("host").all(is_own),
        "{lines:?}"
    );
    for origin in of("origin") {
        assert!(
            origin.strip_prefix(b"http://").is_some_and(is_own),
            "{lines:?}"
        );
    }
    assert!(
        of("sec-fetch-site").all(|site| matches!(site, b"same-origin" | b"none")),
        "{lines:?}"
    );
}

/// Queries of every list.
pub(crate) fn queries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return;
    }
    let lists = LISTS.iter().map(|path| {
        format!(
            "GET {path}?{text} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        )
    });
    assert_nothing_broke(&answer(lists.collect::<String>().as_bytes()));
}

/// What the CLI reads from the socket of a daemon: an answer that was cut off is none.
pub(crate) fn client_answer(data: &[u8]) {
    let Some(answered) = client::parse(data) else {
        return;
    };
    assert_eq!(
        answered.refusal().is_none(),
        (200..300).contains(&answered.status)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_host_and_token_are_served_and_others_are_not() {
        let ask = |host: &str, token: &str| {
            let request = format!(
                "GET /api/agents HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
                 Connection: close\r\n\r\n"
            );
            statuses(&exchange(request.as_bytes(), false)).collect::<Vec<u16>>()
        };
        assert_eq!(ask(HOST, TOKEN), [200]);
        assert_eq!(ask(HOST, "rlt_other"), [401]);
        assert_eq!(ask("evil.example", TOKEN), [403]);
        // The relay is reached: a question without a version is refused by it.
        let refused = relayed(b"{}");
        assert!(
            has(&refused, "of the relay"),
            "{}",
            String::from_utf8_lossy(&refused)
        );
    }
}
