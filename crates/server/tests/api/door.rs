//! Who may come in: each line of the security list, one test.

use relight_server::{OPENAPI, Scope, tokens};
use serde_json::{Value, json};

use crate::ground::Ground;

/// The description of the whole API.
pub(crate) fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Every method and path of the API, with something where a name stands.
pub(crate) fn routes() -> Vec<(String, String)> {
    let document = document();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{name}", "x")
            .replace("{id}", "x")
            .replace("{key}", "x");
        for method in methods.as_object().unwrap().keys() {
            routes.push((method.to_ascii_uppercase(), path.clone()));
        }
    }
    routes.push(("GET".to_owned(), "/openapi.json".to_owned()));
    routes.push(("GET".to_owned(), "/".to_owned()));
    routes.push(("GET".to_owned(), "/api/unknown".to_owned()));
    assert!(routes.len() > 40);
    routes
}

#[test]
fn without_a_token_every_route_but_health_is_401() {
    let ground = Ground::new();
    for (method, path) in routes() {
        let answer = ground.ask(&method, &path).send();
        let expected = match path.as_str() {
            "/api/health" => 200,
            // It needs a code, and there is none.
            "/api/login" => 422,
            _ => 401,
        };
        assert_eq!(answer.status, expected, "{method} {path}");
    }
}

#[test]
fn a_wrong_token_is_401_in_every_form() {
    let ground = Ground::new();
    let cut = &ground.token[..ground.token.len() - 1];
    for given in [
        "Bearer wrong".to_owned(),
        "Bearer ".to_owned(),
        "Bearer".to_owned(),
        "Basic dXNlcjpwYXNz".to_owned(),
        ground.token.clone(),
        format!("Bearer {cut}"),
        format!("Bearer {}x", ground.token),
        format!("Bearer {} {}", ground.token, ground.token),
    ] {
        let answer = ground
            .ask("GET", "/api/agents")
            .header("Authorization", &given)
            .send();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, "unauthorized"),
            "{given}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(ground.get("/api/agents").status, 200);
    let lower = format!("bearer {}", ground.token);
    assert_eq!(
        ground
            .ask("GET", "/api/me")
            .header("Authorization", &lower)
            .send()
            .status,
        200
    );
}

#[test]
fn the_token_is_taken_from_no_other_place() {
    let ground = Ground::new();
    let in_query = format!("/api/agents?token={0}&access_token={0}", ground.token);
    assert_eq!(ground.ask("GET", &in_query).send().status, 401);
    let cookie = format!("relight-{}={}", ground.address.port(), ground.token);
    assert_eq!(
        ground
            .ask("GET", "/api/agents")
            .header("Cookie", &cookie)
            .send()
            .status,
        401
    );
}

#[test]
fn a_foreign_host_or_page_is_403_before_anything_happens() {
    let ground = Ground::new();
    let task = json!({"id": "made-by-a-stranger"});
    let ours = format!("http://{}", ground.address);
    let other_port = format!("http://127.0.0.1:{}", ground.address.port() ^ 1);
    let port = ground.address.port();
    let rebound = format!("evil.example:{port}");
    for (name, value) in [
        ("Host", "evil.example"),
        ("Host", rebound.as_str()),
        ("Host", "127.0.0.1"),
        ("Origin", "null"),
        ("Origin", "http://evil.example"),
        ("Origin", other_port.as_str()),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let ask = ground
            .ask("POST", "/api/tasks")
            .token(&ground.token)
            .json(&task);
        let answer = ask.instead(name, value).send();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (403, "forbidden"),
            "{name}: {value}"
        );
        let health = ground.ask("GET", "/api/health").instead(name, value).send();
        assert_eq!(health.status, 403, "{name}: {value}");
    }
    assert_eq!(ground.get("/api/tasks/made-by-a-stranger").status, 404);
    let ask = ground
        .ask("POST", "/api/tasks")
        .token(&ground.token)
        .json(&task);
    assert_eq!(ask.header("Origin", &ours).send().status, 201);
}

#[test]
fn no_answer_invites_another_origin() {
    let ground = Ground::new();
    for method in ["GET", "OPTIONS"] {
        let answer = ground
            .ask(method, "/api/health")
            .header("Origin", &format!("http://{}", ground.address))
            .header("Access-Control-Request-Method", "POST")
            .send();
        assert!(
            answer
                .headers
                .iter()
                .all(|(name, _)| !name.starts_with("access-control")),
            "{answer:?}"
        );
    }
}

#[test]
fn only_json_is_taken() {
    let ground = Ground::new();
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        for path in ["/api/tasks", "/api/agents/writer/restart", "/api/login"] {
            let ask = ground.ask("POST", path).token(&ground.token);
            let answer = ask
                .header("Content-Type", kind)
                .body(b"{\"id\":\"x\"}")
                .send();
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (415, "unsupported_media_type")
            );
        }
    }
    assert!(ground.asked.lock().unwrap().is_empty());
}

#[test]
fn a_scope_is_not_exceeded() {
    let ground = Ground::new();
    let make = |scope| tokens::new(ground.home.path(), None, scope).unwrap().1;
    let (read, operate) = (make(Scope::Read), make(Scope::Operate));
    for (method, path, by_read, by_operate) in [
        ("GET", "/api/agents", 200, 200),
        ("GET", "/metrics", 200, 200),
        ("POST", "/api/agents/writer/restart", 403, 404),
        ("POST", "/api/tasks", 403, 422),
        ("POST", "/api/sessions/k/resume", 403, 404),
        ("POST", "/api/agents", 403, 403),
        ("DELETE", "/api/agents/writer", 403, 403),
        ("POST", "/api/login-codes", 403, 403),
        ("POST", "/api/down", 403, 403),
        ("POST", "/api/reload", 403, 403),
    ] {
        let status = |token: &str| ground.ask(method, path).token(token).send().status;
        assert_eq!(
            (status(&read), status(&operate)),
            (by_read, by_operate),
            "{method} {path}"
        );
    }
    assert!(ground.asked.lock().unwrap().is_empty());
}

#[test]
fn a_rotated_token_is_worth_nothing_at_once() {
    let ground = Ground::new();
    assert_eq!(ground.get("/api/me").status, 200);
    let new = tokens::rotate(ground.home.path()).unwrap();
    assert_eq!(ground.get("/api/me").status, 401);
    assert_eq!(ground.ask("GET", "/api/me").token(&new).send().status, 200);
}

#[test]
fn guessing_is_limited_and_a_valid_token_never_is() {
    let ground = Ground::new();
    let mut watch = ground.watch("audit");
    let guess = || ground.ask("GET", "/api/me").token("wrong").send();
    assert_eq!(guess().status, 401);
    let limited = (0..3_000)
        .map(|_| guess())
        .find(|answer| answer.status == 429);
    assert_eq!(
        limited.expect("guessing is limited").header("retry-after"),
        Some("10")
    );
    assert_eq!(ground.get("/api/me").status, 200);
    // It is noted beside the answers.
    watch.until("event: audit");
    let told = ground.get("/api/events?kind=audit").ok();
    let noted = told["items"].as_array().unwrap().len();
    assert!((1..10).contains(&noted), "not each of them: {told}");
}

#[test]
fn the_socket_needs_no_token_and_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new();
    let me = ground.ask("GET", "/api/me").over_socket().send().ok();
    assert_eq!(me, json!({"via": "socket", "scope": "admin"}));
    let mode = std::fs::metadata(ground.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let foreign = ground
        .ask("GET", "/api/me")
        .over_socket()
        .instead("Host", "evil.example");
    assert_eq!(foreign.send().status, 403);
}

#[test]
fn every_answer_is_sealed() {
    let ground = Ground::new();
    for path in [
        "/api/health",
        "/api/agents",
        "/",
        "/login/x",
        "/assets/none",
        "/nothing",
    ] {
        let answer = ground.ask("GET", path).send();
        let has = |name: &str, part: &str| {
            let value = answer.header(name).unwrap_or_default();
            assert!(value.contains(part), "{path}: {name} is {value:?}");
        };
        has("content-security-policy", "default-src 'none'");
        has("content-security-policy", "frame-ancestors 'none'");
        has("x-content-type-options", "nosniff");
        has("referrer-policy", "no-referrer");
        has("x-frame-options", "DENY");
        has("cache-control", "no-");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

#[test]
fn errors_say_nothing_from_inside() {
    let ground = Ground::new();
    let home = ground.home.path().to_str().unwrap().to_owned();
    for (method, path, body) in [
        ("GET", "/api/tasks/nobody", json!({})),
        ("GET", "/api/tasks?status=odd", json!({})),
        ("GET", "/api/agents/%2e%2e%2fetc", json!({})),
        ("GET", "/api/agents/a%00b", json!({})),
        ("POST", "/api/tasks", json!({"id": "a", "unknown": 1})),
        ("POST", "/api/tasks", json!([])),
        ("DELETE", "/api/tasks/x", json!({})),
    ] {
        let answer = ground.call(method, path, &body);
        assert!(
            (400..500).contains(&answer.status),
            "{method} {path}: {answer:?}"
        );
        let error = &answer.json()["error"];
        assert!(
            error["code"].is_string() && error["message"].is_string(),
            "{error}"
        );
        assert!(error.get("hint").is_some());
        for inside in [home.as_str(), "sqlite", "SELECT", "panicked", ".rs"] {
            assert!(!answer.text.contains(inside), "{inside}: {}", answer.text);
        }
    }
}

#[test]
fn a_command_is_not_taken_over_the_network() {
    let ground = Ground::new();
    let body = json!({"name": "evil", "command": ["sh", "-c", "id"]});
    assert_eq!(ground.post("/api/agents", &body).status, 403);
    assert_eq!(ground.get("/api/agents/evil").status, 404);
    let known: Value = ground.get("/api/agents").ok();
    assert_eq!(known["items"], json!([]));
}
