//! How a browser logs in, and what it needs from then on.

use serde_json::json;

use crate::ground::{Answer, Ground};

/// The cookie that an answer sets.
fn cookie(answer: &Answer) -> String {
    answer
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned()
}

fn logged_in(ground: &Ground) -> (String, String) {
    let given = ground
        .ask("POST", "/api/login-codes")
        .over_socket()
        .send()
        .ok();
    let answer = ground
        .ask("POST", "/api/login")
        .json(&json!({"code": given["code"]}))
        .send();
    assert_eq!(answer.status, 200, "{answer:?}");
    (
        cookie(&answer),
        answer.json()["csrf"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn a_code_logs_one_browser_in_once() {
    let ground = Ground::new();
    let given = ground
        .ask("POST", "/api/login-codes")
        .over_socket()
        .send()
        .ok();
    let url = format!(
        "http://{}/login/{}",
        ground.address,
        given["code"].as_str().unwrap()
    );
    assert_eq!(given["url"], json!(url));
    let body = json!({"code": given["code"]});
    let answer = ground.ask("POST", "/api/login").json(&body).send();
    assert_eq!(
        (answer.status, answer.json()["scope"].as_str()),
        (200, Some("admin"))
    );
    let set = answer.header("set-cookie").unwrap().to_owned();
    let name = format!("relight-{}=", ground.address.port());
    for part in [
        name.as_str(),
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
        "; Max-Age=",
    ] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Domain"), "{set}");
    let again = ground.ask("POST", "/api/login").json(&body).send();
    assert_eq!((again.status, again.header("set-cookie")), (401, None));
    let wrong = ground
        .ask("POST", "/api/login")
        .json(&json!({"code": "wrong"}))
        .send();
    assert_eq!(wrong.status, 401);
}

#[test]
fn a_write_by_cookie_needs_the_header_of_our_own_page() {
    let ground = Ground::new();
    let (cookie, csrf) = logged_in(&ground);
    let me = ground
        .ask("GET", "/api/me")
        .header("Cookie", &cookie)
        .send()
        .ok();
    // Cookies go to every port of a host: whoever has one is not told what writes need.
    assert_eq!(me, json!({"via": "cookie", "scope": "admin"}));
    let write = || {
        ground
            .ask("POST", "/api/tasks")
            .header("Cookie", &cookie)
            .json(&json!({"id": "a"}))
    };
    assert_eq!(write().send().status, 403);
    assert_eq!(write().header("X-Relight-Csrf", "wrong").send().status, 403);
    assert_eq!(write().header("X-Relight-Csrf", &csrf).send().status, 201);
    let among = format!("other=1; {cookie}; more=2");
    assert_eq!(
        ground
            .ask("GET", "/api/me")
            .header("Cookie", &among)
            .send()
            .status,
        200
    );
}

#[test]
fn logging_out_and_another_token_end_the_visit() {
    let ground = Ground::new();
    let (cookie, csrf) = logged_in(&ground);
    let out = ground.ask("POST", "/api/logout").header("Cookie", &cookie);
    assert_eq!(out.header("X-Relight-Csrf", &csrf).send().status, 204);
    let status = |cookie: &str| {
        ground
            .ask("GET", "/api/me")
            .header("Cookie", cookie)
            .send()
            .status
    };
    assert_eq!(status(&cookie), 401);
    let (cookie, _) = logged_in(&ground);
    assert_eq!(status(&cookie), 200);
    relight_server::tokens::rotate(ground.home.path()).unwrap();
    assert_eq!(status(&cookie), 401);
}

#[test]
fn a_login_outlives_the_daemon() {
    let mut ground = Ground::new();
    let (cookie, csrf) = logged_in(&ground);
    ground.restart();
    let write = ground.ask("POST", "/api/tasks").header("Cookie", &cookie);
    let write = write
        .header("X-Relight-Csrf", &csrf)
        .json(&json!({"id": "a"}));
    assert_eq!(write.send().status, 201);
}

#[test]
fn a_link_is_given_only_to_those_who_may_do_everything() {
    let ground = Ground::new();
    let scope = relight_server::Scope::Operate;
    let (_, token) = relight_server::tokens::new(ground.home.path(), None, scope).unwrap();
    assert_eq!(
        ground
            .ask("POST", "/api/login-codes")
            .token(&token)
            .send()
            .status,
        403
    );
    assert_eq!(ground.ask("POST", "/api/login-codes").send().status, 401);
}
