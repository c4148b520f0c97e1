//! Everything that somebody hostile tries, on every route that there is: routes are read from
//! `openapi.json`, so that a new one cannot be forgotten.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use relight_runtime::supervise::control::Request;
use relight_server::{Scope, Settings, tokens};
use rustix::process::Uid;
use serde_json::json;

use crate::door::{document, routes};
use crate::ground::{Answer, Ground};

/// Who owns nothing on a usual machine.
const NOBODY: u32 = 65_534;

fn is_write(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD")
}

/// Whatever was refused has done nothing.
fn assert_untouched(ground: &Ground) {
    let mut asked = ground.asked.lock().unwrap().clone();
    asked.retain(|request| *request != Request::Status);
    assert_eq!(asked, []);
    for list in ["/api/agents", "/api/tasks", "/api/sessions"] {
        assert_eq!(ground.get(list).ok()["items"], json!([]), "{list}");
    }
}

fn assert_sealed(answer: &Answer, what: &str) {
    for (name, value) in [
        ("content-security-policy", "default-src 'none'"),
        ("content-security-policy", "frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-"),
    ] {
        let found = answer.header(name).unwrap_or_default();
        assert!(found.contains(value), "{what}: {name} is {found:?}");
    }
    let invites = answer
        .headers
        .iter()
        .any(|(name, _)| name.starts_with("access-control"));
    assert!(!invites, "{what}: {answer:?}");
}

#[test]
fn a_body_that_names_a_member_twice_is_refused() {
    let ground = Ground::new();
    for (path, body) in [
        ("/api/tasks", r#"{"id": "a", "id": "b"}"#),
        ("/api/tasks", r#"{"id": "a", "payload": {"x": 1, "x": 2}}"#),
        ("/api/tasks", r#"{"id": "a", "set": {"x": "1", "x": "2"}}"#),
        (
            "/api/sessions/k/begin",
            r#"{"id": "a", "set": {"x": "1", "x": "2"}}"#,
        ),
    ] {
        let asking = ground.ask("POST", path).token(&ground.token);
        let asking = asking.header("Content-Type", "application/json");
        let answer = asking.body(body.as_bytes()).send();
        assert_eq!(answer.status, 400, "{body}");
        assert!(
            answer.json()["error"]["message"]
                .as_str()
                .unwrap()
                .contains("twice"),
            "{body}"
        );
    }
    assert_untouched(&ground);
}

#[test]
fn a_foreign_host_or_page_is_403_on_every_route_and_changes_nothing() {
    let ground = Ground::new();
    let rebound = format!("evil.example:{}", ground.address.port());
    for (name, value) in [
        ("Host", rebound.as_str()),
        ("Origin", "null"),
        ("Origin", "http://evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        for (method, path) in routes() {
            let ask = ground
                .ask(&method, &path)
                .token(&ground.token)
                .json(&json!({"id": "x"}));
            let answer = ask.instead(name, value).send();
            assert_eq!(answer.status, 403, "{name}: {value} at {method} {path}");
            assert_sealed(&answer, &path);
        }
    }
    assert_untouched(&ground);
}

#[test]
fn one_who_may_only_read_writes_nowhere() {
    let ground = Ground::new();
    let read = tokens::new(ground.home.path(), None, Scope::Read)
        .unwrap()
        .1;
    for (method, path) in routes() {
        let body = json!({"id": "x", "name": "x", "code": "x"});
        let answer = ground.ask(&method, &path).token(&read).json(&body).send();
        let expected = match (is_write(&method), path.as_str()) {
            // For a browser that leaves, and one that comes.
            (true, "/api/logout" | "/api/login") => 422,
            // Looking is a POST there too; each tool asks for its own scope.
            (true, "/mcp") => 406,
            (true, _) => 403,
            (false, _) => answer.status,
        };
        assert_eq!(answer.status, expected, "{method} {path}");
        assert_ne!(answer.status, 401, "{method} {path}");
    }
    assert_untouched(&ground);
}

#[test]
fn a_path_or_header_that_only_looks_allowed_does_not_get_further() {
    let ground = Ground::new();
    let read = tokens::new(ground.home.path(), None, Scope::Read)
        .unwrap()
        .1;
    for path in [
        "/api//agents/writer/restart",
        "//api/agents/writer/restart",
        "/api/agents/writer/restart/",
        "/api/agents/writer/./restart",
        "/api/x/../agents/writer/restart",
        "/assets/../api/agents/writer/restart",
        "/login/../api/agents/writer/restart",
        "/api/agents/writer%2Frestart",
        "/api/health/../agents/writer/restart",
        "/API/agents/writer/restart",
        "/api/logout/../agents/writer/restart",
        "/api/agents/writer/restart?scope=admin#/api/logout",
    ] {
        for method in ["POST", "DELETE", "PUT", "PATCH"] {
            let answer = ground
                .ask(method, path)
                .token(&read)
                .json(&json!({}))
                .send();
            assert!(
                (400..500).contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
        }
        let unknown = ground.ask("GET", path).send();
        assert!((400..500).contains(&unknown.status), "{path}: {unknown:?}");
    }
    for name in [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
    ] {
        let ask = ground.ask("GET", "/api/agents/writer").token(&ground.token);
        assert_eq!(ask.header(name, "DELETE").send().status, 404);
    }
    for (name, value) in [
        ("X-Forwarded-Host", "127.0.0.1"),
        ("X-Original-URL", "/api/agents"),
    ] {
        assert_eq!(
            ground
                .ask("GET", "/api/me")
                .header(name, value)
                .send()
                .status,
            401
        );
    }
    assert_untouched(&ground);
}

#[test]
fn forms_and_plain_text_are_415_on_every_write() {
    let ground = Ground::new();
    for (method, path) in routes().into_iter().filter(|(method, _)| is_write(method)) {
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            let ask = ground.ask(&method, &path).token(&ground.token);
            let answer = ask
                .header("Content-Type", kind)
                .body(b"{\"id\":\"x\"}")
                .send();
            assert_eq!(answer.status, 415, "{method} {path} {kind}");
        }
        let bare = ground
            .ask(&method, &path)
            .token(&ground.token)
            .body(b"{}")
            .send();
        assert_eq!(bare.status, 415, "{method} {path} without a type");
    }
    assert_untouched(&ground);
}

#[test]
fn every_answer_of_every_route_is_sealed_and_invites_nobody() {
    let ground = Ground::new();
    for (method, path) in routes() {
        for token in [Some(&ground.token), None] {
            for asked in [method.as_str(), "OPTIONS", "TRACE"] {
                let ask = ground
                    .ask(asked, &path)
                    .header("Access-Control-Request-Method", "POST");
                let ask = match token {
                    Some(token) => ask.token(token),
                    None => ask,
                };
                let answer = ask.json(&json!({"wait": "soon"})).send();
                assert_sealed(&answer, &format!("{asked} {path}"));
                if asked != method {
                    assert!(
                        [401, 404, 405].contains(&answer.status),
                        "{asked} {path}: {answer:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_that_could_be_a_place_or_a_command_is_taken_from_a_query() {
    let document = document();
    let mut names = std::collections::BTreeSet::new();
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "query" {
                    names.insert(parameter["name"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    // A new one is looked at by whoever adds it here.
    let known = [
        "after",
        "agent",
        "attempt",
        "before",
        "find",
        "hours",
        "in_doubt",
        "kind",
        "limit",
        "lines",
        "newest",
        "occurrence",
        "since",
        "state",
        "status",
        "task",
    ];
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), known);
}

#[test]
fn what_two_readers_would_understand_differently_is_not_taken() {
    let ground = Ground::new();
    let body = "{\"id\":\"smuggled\"}";
    let length = body.len();
    for headers in [
        format!("Content-Length: {length}\r\nContent-Length: 2\r\n"),
        format!("Content-Length: {length}, 2\r\n"),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length : {length}\r\n"),
        format!("Content-Length: {length}\r\n folded: yes\r\n"),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        format!("Content-Length: {length}\r\nHost: evil.example\r\n"),
    ] {
        let request = format!(
            "POST /api/tasks HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n{headers}\r\n{body}",
            ground.address, ground.token
        );
        let answer = raw(&ground, &request);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{headers:?}: {answer}");
    }
    for line in [
        "GET /api/me HTTP/1.0",
        "GET /api/me HTTP/2.0",
        "CONNECT evil.example:80 HTTP/1.1",
    ] {
        let answer = raw(
            &ground,
            &format!("{line}\r\nHost: {}\r\n\r\n", ground.address),
        );
        assert!(!answer.contains(" 200 "), "{line}: {answer}");
    }
    assert_untouched(&ground);
}

fn raw(ground: &Ground, request: &str) -> String {
    let mut stream = TcpStream::connect(ground.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_stranger_sends_little() {
    let ground = Ground::new();
    let long = json!({"code": "x".repeat(5_000)});
    assert_eq!(
        ground.ask("POST", "/api/login").json(&long).send().status,
        413
    );
    let task = json!({"id": "long", "payload": "x".repeat(5_000)});
    assert_eq!(ground.post("/api/tasks", &task).status, 201);
}

#[test]
fn a_body_that_trickles_is_cut_off() {
    let body_wait_max = Duration::from_millis(200);
    let ground = Ground::with(Settings {
        body_wait_max,
        ..Settings::default()
    });
    let ask = ground.ask("POST", "/api/tasks").token(&ground.token);
    let ask = ask
        .header("Content-Type", "application/json")
        .header("Content-Length", "1000");
    let mut stream = ask.open();
    stream.write_all(b"{").unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 408");
}

#[test]
fn others_failures_hold_up_neither_a_login_nor_a_visit() {
    let ground = Ground::new();
    let code = || {
        ground
            .ask("POST", "/api/login-codes")
            .over_socket()
            .send()
            .ok()["code"]
            .clone()
    };
    let log_in = |code| {
        ground
            .ask("POST", "/api/login")
            .json(&json!({"code": code}))
            .send()
    };
    let early = log_in(code());
    let guess = || ground.ask("GET", "/api/me").token("wrong").send().status;
    assert!((0..3_000).any(|_| guess() == 429));
    // One more is forgiven each tenth of a second.
    assert!((0..3_000).any(|_| log_in(json!("wrong")).status == 429));
    assert_eq!(log_in(code()).status, 200);
    let cookie = early
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(
        ground
            .ask("GET", "/api/me")
            .header("Cookie", &cookie)
            .send()
            .status,
        200
    );
    assert_eq!(ground.get("/api/me").status, 200);
}

#[test]
fn a_process_of_another_user_cannot_use_the_socket() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root, to be somebody else");
        return;
    }
    let ground = Ground::new();
    let socket = ground.socket();
    let closed = as_nobody(socket.clone(), |socket| {
        UnixStream::connect(socket).map(drop)
    });
    assert_eq!(
        closed.unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    // Even where somebody opened folder and socket to all, the kernel says who it is.
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(ground.home.path(), 0o755);
    open(&socket, 0o666);
    let heard = as_nobody(socket, |socket| {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        // It may be closed before anything is said.
        let _ = stream.write_all(b"GET /api/me HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        Ok(heard)
    });
    assert_eq!(heard.unwrap(), b"");
    assert_eq!(
        ground.ask("GET", "/api/me").over_socket().send().status,
        200
    );
}

/// Does something on a thread that is another user from then on.
fn as_nobody<T: Send + 'static>(
    socket: std::path::PathBuf,
    act: impl FnOnce(std::path::PathBuf) -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let thread = std::thread::spawn(move || {
        let nobody = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
        act(socket)
    });
    thread.join().unwrap()
}

#[test]
fn no_route_takes_a_name_that_it_does_not_know() {
    let ground = Ground::new();
    let described = routes().into_iter().filter(|(_, path)| {
        // What a browser loads; any JSON.
        !["/", "/openapi.json", "/api/unknown", "/mcp"].contains(&path.as_str())
    });
    for (method, path) in described {
        // The operation says which names there are.
        let path = path.replace("/operations/x", "/operations/task.list");
        let asked = ground
            .ask(&method, &format!("{path}?no_such_name=1"))
            .token(&ground.token);
        let mut answers = vec![asked.send()];
        if is_write(&method) {
            answers.push(ground.call(&method, &path, &json!({"no_such_name": 1})));
        }
        for answer in answers {
            assert_eq!(answer.status, 422, "{method} {path}: {}", answer.text);
            assert!(
                answer.text.contains("no_such_name"),
                "{method} {path}: {}",
                answer.text
            );
        }
    }
    assert_untouched(&ground);
    let near = ground.get("/api/agents?stat=running").json();
    assert_eq!(near["error"]["hint"], "did you mean state?");
}
