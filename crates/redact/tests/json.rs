//! JSON through the funnel: stays valid, keeps its shape, loses its secrets.

use relight_redact::{MarkKey, Redactor};
use serde_json::{Value, json};

fn redactor() -> Redactor {
    Redactor::new(MarkKey::new([42; 32]))
}

fn redacted(mut value: Value) -> Value {
    let before = value.clone();
    assert_eq!(
        redactor().json(&mut value),
        value != before,
        "the answer tells what happened"
    );
    let mut again = value.clone();
    assert!(
        !redactor().json(&mut again),
        "redacting twice changes nothing: {value}"
    );
    value
}

fn is_mark(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.starts_with("[redacted:") && text.ends_with(']'))
}

#[test]
fn strings_under_secret_keys_are_replaced_whole() {
    let value = redacted(json!({"password": "correct horse battery", "user": "ann"}));
    assert!(is_mark(&value["password"]), "{value}");
    assert_eq!(value["user"], "ann");
}

#[test]
fn strings_elsewhere_pass_the_funnel() {
    let value = redacted(json!({"notes": ["fine", "export TOKEN=abc123"]}));
    assert_eq!(value["notes"][0], "fine");
    assert!(
        value["notes"][1]
            .as_str()
            .unwrap()
            .starts_with("export TOKEN=[redacted:"),
        "{value}"
    );
}

#[test]
fn counts_flags_and_nothing_stay() {
    let kept = json!({
        "tokens_used": 1234, "max_tokens": 4096, "token": 12, "auth": true, "password": null,
        "usage": {"prompt_tokens": 1, "completionTokens": 2, "tokens": {"input": 3}},
        "idempotency_key": "ab12cd34", "session_id": "s-1", "author": "ann",
    });
    assert_eq!(redacted(kept.clone()), kept);
}

#[test]
fn numbers_under_password_keys_become_marks() {
    assert!(is_mark(
        &redacted(json!({"password": 12345678}))["password"]
    ));
}

#[test]
fn everything_inside_a_secret_object_goes_and_the_shape_stays() {
    let value =
        redacted(json!({"credentials": {"user": "ann", "list": ["x1", "y2"], "expires_in": 3600}}));
    assert!(is_mark(&value["credentials"]["user"]), "{value}");
    assert!(is_mark(&value["credentials"]["list"][1]), "{value}");
    assert_eq!(value["credentials"]["expires_in"], 3600);
}

#[test]
fn lists_of_named_values_are_judged_by_the_name() {
    let value =
        redacted(json!([{"name": "API_KEY", "value": "abc"}, {"name": "MODE", "value": "abc"}]));
    assert!(is_mark(&value[0]["value"]), "{value}");
    assert_eq!(value[1]["value"], "abc");
}

#[test]
fn command_lines_are_judged_by_their_flags() {
    let value = redacted(json!([
        "login",
        "--password",
        "hunter2",
        "--user",
        "ann",
        "--token=abc"
    ]));
    assert!(is_mark(&value[2]), "{value}");
    assert_eq!(value[4], "ann");
    assert!(
        value[5].as_str().unwrap().starts_with("--token=[redacted:"),
        "{value}"
    );
}

#[test]
fn object_keys_pass_the_funnel_in_order() {
    let token = ["gh", "p_", "aZ3kQ9mVnB7sTx1Yp5LdR8wE2uJ6hG4cF0aa"].concat();
    let value = redacted(json!({"first": 1, token: 2, "last": 3}));
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!([keys[0].as_str(), keys[2].as_str()], ["first", "last"]);
    assert!(keys[1].starts_with("[redacted:github:"), "{value}");
}

#[test]
fn json_inside_a_string_stays_json() {
    let inner = json!({"api_key": "abc\"def", "n": 1}).to_string();
    let value = redacted(json!({"body": inner}));
    let inner: Value = serde_json::from_str(value["body"].as_str().unwrap()).unwrap();
    assert!(is_mark(&inner["api_key"]), "{value}");
}

#[test]
fn json_as_text_stays_json() {
    let document = json!({
        "password": 12345678, "token": "a\\b\"c", "secrets": ["x", "y"], "private_key": "a\nb",
        "n": {"apiKey": "z", "url": "https://a:b@c/d", "auth": "Bearer abc123def456"},
    });
    for text in [
        document.to_string(),
        serde_json::to_string_pretty(&document).unwrap(),
    ] {
        let redacted = redactor().text(&text).into_owned();
        let value: Value =
            serde_json::from_str(&redacted).unwrap_or_else(|e| panic!("{e}: {redacted}"));
        for place in [
            &value["password"],
            &value["token"],
            &value["secrets"][1],
            &value["n"]["apiKey"],
        ] {
            assert!(is_mark(place), "{redacted}");
        }
    }
}
