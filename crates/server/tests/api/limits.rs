//! Limits on what a client may send, how slowly, and how often.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use relight_server::Settings;
use serde_json::json;

use crate::ground::Ground;

/// More connections than are taken at a time over TCP.
const CROWD: usize = 2_300;

#[test]
fn a_body_that_is_too_large_is_413_however_it_comes() {
    let ground = Ground::new();
    let large = json!({"id": "a", "title": "x".repeat(1 << 20)});
    assert_eq!(ground.post("/api/tasks", &large).status, 413);
    let ask = ground.ask("POST", "/api/tasks").token(&ground.token);
    let ask = ask.header("Content-Type", "application/json");
    let mut stream = ask
        .header("Transfer-Encoding", "chunked")
        .header("Connection", "close")
        .open();
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..40 {
        if stream.write_all(piece.as_bytes()).is_err() {
            break;
        }
    }
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    assert_eq!(ground.get("/api/tasks").ok()["items"], json!([]));
}

#[test]
fn json_that_is_too_deep_or_broken_is_400() {
    let ground = Ground::new();
    let send = |body: &str| {
        let ask = ground.ask("POST", "/api/tasks").token(&ground.token);
        ask.header("Content-Type", "application/json")
            .body(body.as_bytes())
            .send()
            .status
    };
    let nested = |depth: usize| {
        let payload = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!("{{\"id\": \"deep\", \"payload\": {payload}}}")
    };
    assert_eq!((send(&nested(65)), send(&nested(5_000))), (400, 400));
    assert_eq!(
        (send("{\"id\": "), send("nothing"), send("\u{feff}{}")),
        (400, 400, 400)
    );
    assert_eq!(send(&nested(40)), 201);
}

#[test]
fn headers_that_are_too_large_or_too_many_are_431() {
    let ground = Ground::new();
    let long = ground
        .ask("GET", "/api/health")
        .header("X-Long", &"x".repeat(64 << 10))
        .send();
    assert_eq!(long.status, 431);
    let mut many = ground.ask("GET", "/api/health");
    for at in 0..100 {
        many = many.header(&format!("X-{at}"), "x");
    }
    assert_eq!(many.send().status, 431);
    let path = format!("/api/tasks/{}", "x".repeat(60 << 10));
    assert!([414, 431].contains(&ground.get(&path).status));
}

#[test]
fn one_who_is_slow_to_speak_is_cut_off() {
    let header_wait_max = Duration::from_millis(200);
    let ground = Ground::with(Settings {
        header_wait_max,
        ..Settings::default()
    });
    for said in ["", "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
        let mut stream = TcpStream::connect(ground.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn a_crowd_of_idle_connections_leaves_the_socket_free() {
    // Nobody of the crowd is sent away meanwhile.
    let header_wait_max = Duration::from_secs(3_600);
    let ground = Ground::with(Settings {
        header_wait_max,
        ..Settings::default()
    });
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        match TcpStream::connect_timeout(&ground.address, Duration::from_secs(5)) {
            Ok(stream) => crowd.push(stream),
            Err(error) => {
                eprintln!(
                    "SKIPPED in part: only {} connections ({error})",
                    crowd.len()
                );
                break;
            }
        }
    }
    assert_eq!(
        ground.ask("GET", "/api/health").over_socket().send().status,
        200
    );
}

#[test]
fn several_requests_go_over_one_connection() {
    let ground = Ground::new();
    let mut stream = TcpStream::connect(ground.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let request = format!(
        "GET /api/health HTTP/1.1\r\nHost: {}\r\n\r\n",
        ground.address
    );
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        assert!(seen.starts_with(b"HTTP/1.1 200"));
    }
}
