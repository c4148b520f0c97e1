//! The dashboard's pages: what is shown without a login, and what is not.

use serde_json::json;

use crate::ground::Ground;

#[test]
fn without_a_login_the_first_page_says_only_how_to_log_in() {
    let ground = Ground::new();
    let answer = ground.ask("GET", "/").header("Accept", "text/html").send();
    assert_eq!(answer.status, 401);
    assert!(answer.header("content-type").unwrap().starts_with("text/html"));
    assert!(answer.text.contains("relight dashboard"), "{}", answer.text);
    let program = ground.ask("GET", "/").header("Accept", "application/json").send();
    assert_eq!(program.code(), "unauthorized");
}

#[test]
fn the_login_page_is_the_same_whatever_its_code() {
    let ground = Ground::new();
    let page = |path: &str| ground.ask("GET", path).send();
    let (one, other) = (page("/login/abc"), page("/login/%3Cscript%3Ealert(1)%3C%2Fscript%3E"));
    assert_eq!((one.status, &one.text), (200, &other.text));
    assert!(!other.text.contains("alert"));
}

#[test]
fn everything_that_the_dashboard_names_is_served() {
    let ground = Ground::new();
    let given = ground.ask("POST", "/api/login-codes").over_socket().send().ok();
    let login = ground.ask("POST", "/api/login").json(&json!({"code": given["code"]})).send();
    let cookie = login.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let page = ground.ask("GET", "/").header("Cookie", &cookie).send();
    assert_eq!(page.status, 200, "{page:?}");
    let named: Vec<&str> =
        page.text.split('"').filter(|text| text.starts_with("/assets/")).collect();
    assert!(named.len() > 3, "{named:?}");
    for path in named {
        let answer = ground.ask("GET", path).send();
        let kind = answer.header("content-type").unwrap_or_default();
        assert_eq!(answer.status, 200, "{path}");
        assert_ne!(kind, "application/octet-stream", "{path}");
    }
    assert!(!page.text.contains("<style") && !page.text.contains("style="), "inline style");
    assert!(!page.text.contains("onclick") && !page.text.contains("<script>"), "inline script");
}

#[test]
fn no_path_leads_out_of_the_assets() {
    let ground = Ground::new();
    for path in ["/assets/../Cargo.toml", "/assets/..%2f..%2fetc/passwd", "/assets//etc/passwd"] {
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
