//! Known values: found in every encoding, from the environment and by name.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use relight_redact::{MarkKey, Redactor};

const SECRET: &str = "blue+Horse/9 \"quoted\"?";

fn knowing(name: &str, value: &str) -> Redactor {
    Redactor::new(MarkKey::new([1; 32])).with_environment([(name, value)].into_iter())
}

fn hex(text: &str, upper: bool) -> String {
    let pair = |b: u8| {
        if upper {
            format!("{b:02X}")
        } else {
            format!("{b:02x}")
        }
    };
    text.bytes().map(pair).collect()
}

fn percent(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => (b as char).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

#[test]
fn a_value_of_a_secret_variable_is_found_in_every_form() {
    let redactor = knowing("MY_SECRET", SECRET);
    for form in [
        SECRET.to_owned(),
        hex(SECRET, false),
        hex(SECRET, true),
        percent(SECRET),
        percent(SECRET)
            .replace("%2B", "%2b")
            .replace("%2F", "%2f")
            .replace("%3F", "%3f"),
        STANDARD.encode(SECRET),
        STANDARD_NO_PAD.encode(SECRET),
        URL_SAFE.encode(SECRET),
        URL_SAFE_NO_PAD.encode(SECRET),
        serde_json::to_string(SECRET)
            .unwrap()
            .trim_matches('"')
            .to_owned(),
    ] {
        let redacted = redactor.text(&form).into_owned();
        assert!(
            redacted.starts_with("[redacted:env:") && redacted.ends_with(']'),
            "{form}: {redacted}"
        );
        let around = format!("ä {form}, ö");
        assert_eq!(redactor.text(&around), format!("ä {redacted}, ö"), "{form}");
    }
}

#[test]
fn a_value_in_the_guise_of_a_mark_is_found() {
    let redactor = knowing("MY_SECRET", "kn0wn-value-one");
    for guise in [
        "[redacted:kn0wn-value-one:0123abcd]",
        "[redacted:a-kn0wn-value-one:0123abcd]",
    ] {
        let once = redactor.text(guise).into_owned();
        assert!(!once.contains("kn0wn"), "{once}");
        assert_eq!(redactor.text(&once), once);
        let once = redactor.pair("token", guise).into_owned();
        assert!(!once.contains("kn0wn"), "{once}");
        assert_eq!(redactor.pair("token", &once), once);
    }
}

#[test]
fn a_value_that_is_the_word_of_a_kind_leaves_marks_alone() {
    let redactor =
        knowing("DATABASE_URL", "postgres://ann:url-password@db").with_known("x", "assignment");
    for mark in [
        "[redacted:url-password:0123abcd]",
        "[redacted:assignment:0123abcd]",
    ] {
        assert!(matches!(redactor.text(mark), Cow::Borrowed(_)), "{mark}");
    }
}

#[test]
fn base64_is_found_at_every_alignment() {
    let redactor = knowing("MY_SECRET", SECRET);
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "x", "xy", "xyz"] {
            let encoded = STANDARD.encode(format!("{before}{SECRET}{after}"));
            let redacted = redactor.text(&encoded).into_owned();
            assert!(
                redacted.contains("[redacted:env:"),
                "{before} {after}: {redacted}"
            );
            let left = redacted.split("[redacted:env:").next().unwrap();
            assert!(
                left.len() <= before.len() * 8 / 6,
                "bits of the secret stay: {redacted}"
            );
        }
    }
}

#[test]
fn names_decide_which_variables_are_secret() {
    let value = "some-long-value-1";
    for name in [
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "OPENAI_API_KEY",
        "MYSQL_PWD",
        "SENTRY_DSN",
        "SMTP_PASS",
    ] {
        assert!(
            knowing(name, value)
                .text(value)
                .starts_with("[redacted:env:"),
            "{name}"
        );
    }
    for name in [
        "EDITOR",
        "MAX_TOKENS",
        "AUTHOR",
        "SSH_AUTH_SOCK",
        "KEYBOARD",
        "SESSION_ID",
    ] {
        assert_eq!(knowing(name, value).text(value), value, "{name}");
    }
}

#[test]
fn ordinary_values_of_secret_variables_stay() {
    for value in [
        "true",
        "short",
        "12345678901",
        "/run/secrets/token",
        "password",
        "postgres",
        "${OTHER}",
    ] {
        let text = format!("x {value} y");
        assert!(
            matches!(knowing("API_TOKEN", value).text(&text), Cow::Borrowed(_)),
            "{value}"
        );
    }
}

#[test]
fn a_plain_word_is_found_as_a_whole_word_only() {
    let redactor = knowing("DB_PASSWORD", "swordfish");
    assert_eq!(redactor.text("two swordfishes"), "two swordfishes");
    assert!(
        redactor
            .text("it is swordfish.")
            .starts_with("it is [redacted:env:")
    );
}

#[test]
fn passwords_of_urls_in_any_variable_are_known() {
    let redactor = knowing("DATABASE_URL", "postgres://ann:p%40ssw0rd99@db/app");
    let redacted = redactor
        .text("tried p%40ssw0rd99 and p@ssw0rd99")
        .into_owned();
    assert_eq!(
        redacted.matches("[redacted:url-password:").count(),
        2,
        "{redacted}"
    );
}

#[test]
fn lines_of_a_long_value_are_known_too() {
    let line = "c2VjcmV0IG1hdGVyaWFsIG9uZQ";
    let redactor = knowing(
        "DEPLOY_PRIVATE_KEY",
        &format!("first-line-of-value\n{line}\nend"),
    );
    assert!(redactor.text(line).starts_with("[redacted:env:"));
}

#[test]
fn known_values_come_before_other_rules() {
    let redactor = knowing("API_TOKEN", "abcd efgh 1234");
    let redacted = redactor.text("token=abcd efgh 1234;").into_owned();
    assert!(
        redacted.starts_with("token=[redacted:env:") && redacted.ends_with("];"),
        "{redacted}"
    );
}

#[test]
fn a_given_kind_is_cleaned_and_used() {
    let redactor =
        Redactor::new(MarkKey::new([1; 32])).with_known("Relight Token", "zzzz-9999-yyyy");
    assert!(
        redactor
            .text("zzzz-9999-yyyy")
            .starts_with("[redacted:relight-token:")
    );
}

#[test]
fn a_known_value_that_resembles_a_mark_breaks_no_mark() {
    let redactor = Redactor::new(MarkKey::new([1; 32]))
        .with_known("x", "redacted:env")
        .with_known("y", "[redacted");
    let once = redactor
        .text("password=hunter2 redacted:env [redacted")
        .into_owned();
    assert_eq!(redactor.text(&once), once);
}

#[test]
fn the_working_folder_of_a_shell_is_not_a_password() {
    let folder = "/tmp/.tmpXq7Zk2/work";
    for name in ["PWD", "OLDPWD"] {
        assert_eq!(knowing(name, folder).text(folder), folder, "{name}");
    }
    assert_ne!(
        knowing("DB_PWD", "blue+Horse/9?Xq7Zk2").text("blue+Horse/9?Xq7Zk2"),
        "blue+Horse/9?Xq7Zk2"
    );
}
