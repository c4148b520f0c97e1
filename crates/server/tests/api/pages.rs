//! The dashboard's pages: what is shown without a login, and what is not.

use relight_core::event::EventKind;
use serde_json::json;

use crate::ground::Ground;

#[test]
fn without_a_login_the_first_page_says_only_how_to_log_in() {
    let ground = Ground::new();
    let answer = ground.ask("GET", "/").header("Accept", "text/html").send();
    assert_eq!(answer.status, 401);
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert!(answer.text.contains("relight dashboard"), "{}", answer.text);
    let program = ground
        .ask("GET", "/")
        .header("Accept", "application/json")
        .send();
    assert_eq!(program.code(), "unauthorized");
}

#[test]
fn an_address_without_a_page_is_a_page_for_people_and_an_error_for_programs() {
    let ground = Ground::new();
    let ask = |path: &str, accept: &str| {
        ground
            .ask("GET", path)
            .header("Accept", accept)
            .over_socket()
            .send()
    };
    let page = ask("/nopage", "text/html,*/*;q=0.8");
    assert_eq!(page.status, 404);
    assert!(page.text.contains("/assets/js/main.js"), "{}", page.text);
    for (path, accept) in [
        ("/nopage", "*/*"),
        ("/api/nothing", "text/html"),
        ("/assets/none.js", "text/html"),
    ] {
        assert_eq!(ask(path, accept).code(), "not_found", "{path}");
    }
    let stranger = ground
        .ask("GET", "/nopage")
        .header("Accept", "text/html")
        .send();
    assert_eq!(stranger.status, 401);
    assert!(
        stranger.text.contains("relight dashboard"),
        "{}",
        stranger.text
    );
}

#[test]
fn the_login_page_is_the_same_whatever_its_code() {
    let ground = Ground::new();
    let page = |path: &str| ground.ask("GET", path).send();
    let (one, other) = (
        page("/login/abc"),
        page("/login/%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
    );
    assert_eq!((one.status, &one.text), (200, &other.text));
    assert!(!other.text.contains("alert"));
}

#[test]
fn everything_that_the_dashboard_names_is_served() {
    let ground = Ground::new();
    let given = ground
        .ask("POST", "/api/login-codes")
        .over_socket()
        .send()
        .ok();
    let login = ground
        .ask("POST", "/api/login")
        .json(&json!({"code": given["code"]}))
        .send();
    let cookie = login
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let page = ground.ask("GET", "/").header("Cookie", &cookie).send();
    assert_eq!(page.status, 200, "{page:?}");
    let named: Vec<&str> = page
        .text
        .split('"')
        .filter(|text| text.starts_with("/assets/"))
        .collect();
    assert!(named.len() > 3, "{named:?}");
    for path in named {
        let answer = ground.ask("GET", path).send();
        let kind = answer.header("content-type").unwrap_or_default();
        assert_eq!(answer.status, 200, "{path}");
        assert_ne!(kind, "application/octet-stream", "{path}");
    }
    assert!(
        !page.text.contains("<style") && !page.text.contains("style="),
        "inline style"
    );
    assert!(
        !page.text.contains("onclick") && !page.text.contains("<script>"),
        "inline script"
    );
}

#[test]
fn long_answers_are_sent_small_to_whoever_takes_it() {
    let ground = Ground::new();
    for number in 0..40 {
        let task = json!({ "id": format!("task-{number}") });
        ground.post("/api/tasks", &task).ok();
    }
    let ask = |path: &str| {
        let asking = ground.ask("GET", path).token(&ground.token);
        asking.header("Accept-Encoding", "gzip")
    };
    let long = ask("/api/tasks").send();
    let plain = ground.get("/api/tasks");
    assert_eq!(long.header("content-encoding"), Some("gzip"));
    assert_eq!(plain.header("content-encoding"), None);
    assert!(
        long.length * 5 < plain.length,
        "{} of {}",
        long.length,
        plain.length
    );
    let short = ask("/api/tasks/task-1").send();
    assert_eq!(short.header("content-encoding"), None);
}

#[test]
fn a_file_is_sent_small_and_only_once() {
    let ground = Ground::new();
    let ask = || ground.ask("GET", "/assets/js/main.js");
    let plain = ask().send();
    assert_eq!(
        (plain.status, plain.header("content-encoding")),
        (200, None)
    );
    let small = ask().header("Accept-Encoding", "gzip, br").send();
    assert_eq!(
        (small.status, small.header("content-encoding")),
        (200, Some("gzip"))
    );
    let bytes = |answer: &crate::ground::Answer| {
        answer
            .header("content-length")
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    assert!(
        bytes(&small) * 2 < bytes(&plain),
        "{} of {}",
        bytes(&small),
        bytes(&plain)
    );
    assert_eq!(small.header("vary"), Some("Accept-Encoding"));
    let tag = small.header("etag").unwrap();
    assert_eq!(plain.header("etag"), Some(tag));
    let again = ask()
        .header("If-None-Match", tag)
        .header("Accept-Encoding", "gzip")
        .send();
    assert_eq!(
        (again.status, again.text.as_str(), again.header("etag")),
        (304, "", Some(tag))
    );
    assert_eq!(again.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        ask().header("If-None-Match", "W/\"another\"").send().status,
        200
    );
}

#[test]
fn the_dashboard_knows_every_kind_of_event() {
    let ground = Ground::new();
    let words = ground.ask("GET", "/assets/js/words.js").send().text;
    let list = words
        .split_once("KINDS = [")
        .unwrap()
        .1
        .split_once(']')
        .unwrap()
        .0;
    let mut known: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let mut all: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    known.sort_unstable();
    all.sort_unstable();
    assert_eq!(known, all);
}

#[test]
fn no_path_leads_out_of_the_assets() {
    let ground = Ground::new();
    for path in [
        "/assets/../Cargo.toml",
        "/assets/..%2f..%2fetc/passwd",
        "/assets//etc/passwd",
    ] {
        assert_eq!(ground.get(path).status, 404, "{path}");
    }
}

#[test]
fn the_api_is_described_by_itself() {
    let ground = Ground::new();
    let document = ground.get("/openapi.json").ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["security"], json!([{"token": []}]));
    assert!(document["paths"]["/api/agents/{name}/restart"]["post"].is_object());
}

#[test]
fn every_address_of_the_dashboard_is_behind_the_login() {
    let ground = Ground::new();
    for path in ["/tasks", "/tasks/a%2Fb/steps/x", "/agents/writer", "/nodes"] {
        let stranger = ground.ask("GET", path).header("Accept", "text/html").send();
        assert_eq!(stranger.status, 401, "{path}");
        assert!(stranger.text.contains("relight dashboard"), "{path}");
        assert_eq!(ground.get(path).status, 200, "{path}");
    }
    assert_eq!(ground.get("/elsewhere").status, 404);
    assert_eq!(ground.get("/tasksx").status, 404);
}

#[test]
fn a_link_from_elsewhere_gets_the_frame_and_no_data() {
    let ground = Ground::new();
    let from_elsewhere = |path: &str, dest: &str| {
        let ask = ground
            .ask("GET", path)
            .header("Sec-Fetch-Site", "cross-site");
        let ask = ask.header("Sec-Fetch-Mode", "navigate");
        ask.header("Sec-Fetch-Dest", dest).send()
    };
    let frame = from_elsewhere("/tasks/t", "document");
    assert_eq!(frame.status, 200);
    assert!(frame.text.contains("/assets/js/main.js"), "{}", frame.text);
    assert_eq!(from_elsewhere("/tasks/t", "iframe").status, 403);
    assert_eq!(from_elsewhere("/api/tasks", "document").status, 403);
    assert_eq!(from_elsewhere("/openapi.json", "document").status, 403);
}
