//! What holds for every text: redacting twice is redacting once, no secret survives, characters
//! stay whole, and time is linear.

use proptest::prelude::*;
use relight_redact::{MarkKey, Redactor};

fn redactor() -> Redactor {
    Redactor::new(MarkKey::new([42; 32]))
        .with_known("env", "kn0wn-value-one")
        .with_known("env", "a \"quoted\" välue")
}

/// Pieces from which hostile and ordinary texts are put together.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "password",
        "token",
        "api_key",
        "Authorization",
        "Cookie",
        "secret",
        "key",
        "--password",
        "auth",
        "=",
        ":",
        ": ",
        " = ",
        "==",
        "\"",
        "'",
        "\\\"",
        "\\n",
        "\n",
        " ",
        ",",
        ";",
        "&",
        "?",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "$",
        "://",
        "@",
        "user:",
        "Bearer ",
        "Basic ",
        "eyJ",
        ".",
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "-----END ",
        "ghp_",
        "sk-",
        "AKIA",
        "curl -u ",
        "[redacted:",
        "env:",
        "0123abcd]",
        "[redacted:env:0123abcd]",
        "kn0wn-value-one",
        "a \"quoted\" välue",
        "ü",
        "日本",
        "\u{1b}[0m",
        "null",
        "twilio ",
        "mysql -p",
        "%3D",
        "'tis",
        "is ",
        "Digest ",
        "a=b; ",
        "<password>",
        "</",
        "--token ",
        "\"password\":",
        "12345678",
        "discord ",
        "redis-cli -a ",
        "xoxe.",
        "password: |\n  ",
        "password:\n  ",
        "machine h login u password ",
        "kind: Secret\ndata:\n  k: ",
        "#define ",
        "define('",
        "', '",
        "cGFzc3dvcmQ9aHVudGVyMg",
        "echo ",
        " | sudo -S",
        "h:5432:d:u:",
        "Private-Lines: 2\n",
        "\u{1b}[1;32m",
        "ABCDEFGHIJKLMN.atlasv1.",
        "heroku",
        "_pw",
        "IDENTIFIED BY '",
        "name: ",
        "value: ",
        " string = ",
        "Some(\"",
        " != ",
        "|| ",
        "%22",
        "%3A",
        "passphrase: ",
        "AKIAIOSFODNN7EXAMPLE,",
        "`",
        "/",
        "\\",
        "\t",
    ]);
    prop_oneof![
        4 => fixed.prop_map(str::to_owned),
        2 => "[a-zA-Z0-9]{1,40}",
        1 => "[ -~]{0,12}",
        1 => "\\PC{0,6}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..24).prop_map(|pieces| pieces.concat())
}

/// A secret no rule calls a placeholder: letters and digits mixed.
fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z][0-9][A-Za-z0-9]{6,30}[a-z][0-9]"
}

fn context() -> impl Strategy<Value = (String, String)> {
    let contexts = vec![
        ("password=", ""),
        ("password: ", "\n"),
        ("\"token\": \"", "\""),
        ("{\"apiKey\":\"", "\",\"n\":1}"),
        ("export API_KEY='", "'"),
        ("--password ", " --x"),
        ("--token=", ""),
        ("https://u:", "@host/p"),
        ("Authorization: Bearer ", "\r\n"),
        ("-H 'X-Api-Key: ", "'"),
        ("Cookie: sid=", "; a=b"),
        ("?access_token=", "&page=1"),
        ("curl -u ann:", " http://x"),
        ("<password>", "</password>"),
        ("DB_PASSWORD = ", "\n"),
        ("{\\\"secret\\\":\\\"", "\\\"}"),
        ("const TOKEN: &str = \"", "\";"),
        ("client_secret=", ";x=1"),
        ("A=1\\nAPI_KEY=", "\\nB=2"),
    ];
    prop::sample::select(contexts).prop_map(|(before, after)| (before.to_owned(), after.to_owned()))
}

fn prose() -> impl Strategy<Value = String> {
    "([a-zäöü]{1,8} ){0,6}"
}

/// At least `cases_min` of them; more when `PROPTEST_CASES` says so.
fn cases(cases_min: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = default.cases.max(cases_min);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn redacting_twice_is_redacting_once(text in text()) {
        let redactor = redactor();
        let once = redactor.text(&text).into_owned();
        prop_assert_eq!(redactor.text(&once), once.as_str());
    }

    #[test]
    fn a_secret_in_a_secret_place_does_not_survive(
        before in prose(), (open, close) in context(), secret in secret(), after in prose(),
    ) {
        let text = format!("{before}\n{open}{secret}{close} {after}");
        let redacted = redactor().text(&text).into_owned();
        prop_assert!(!redacted.contains(&secret), "{}", redacted);
        prop_assert!(redacted.starts_with(&before), "{}", redacted);
    }

    #[test]
    fn a_known_value_survives_nowhere(before in text(), after in text()) {
        let text = format!("{before}kn0wn-value-one{after}");
        prop_assert!(!redactor().text(&text).contains("kn0wn-value-one"));
    }

    #[test]
    fn text_and_bytes_agree(text in text()) {
        let redactor = redactor();
        let as_text = redactor.text(&text);
        prop_assert_eq!(redactor.bytes(text.as_bytes()), as_text.as_bytes());
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200), text in text()) {
        let mixed = [&bytes[..], text.as_bytes(), &bytes[..]].concat();
        let once = redactor().bytes(&mixed).into_owned();
        prop_assert_eq!(redactor().bytes(&once), once.as_slice());
    }

    #[test]
    fn pairs_are_stable(key in "[a-z_]{1,12}", value in text()) {
        let redactor = redactor();
        for key in [key.as_str(), "token", "db_password"] {
            let once = redactor.pair(key, &value).into_owned();
            prop_assert_eq!(redactor.pair(key, &once), once.as_str());
        }
    }

    #[test]
    fn json_is_stable(text in text(), key in text()) {
        let redactor = redactor();
        let mut value = serde_json::json!({key: [text], "password": text});
        redactor.json(&mut value);
        let once = value.clone();
        redactor.json(&mut value);
        prop_assert_eq!(value, once);
    }

    #[test]
    fn words_alone_are_never_touched(words in "([a-z]{1,10}[ ,.\n]){0,40}") {
        prop_assert_eq!(redactor().text(&words), words.as_str());
    }
}

/// Each would take minutes if work grew with the square of the length.
#[test]
fn hostile_texts_take_linear_time() {
    for unit in [
        "a=",
        "eyJ",
        "eyJ.",
        "eyJhbGciOiJI.",
        "-----BEGIN ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "://",
        "://a:",
        "://a:b/",
        "token",
        "token=",
        "token=\"",
        "token='",
        "token=[\"",
        "token: [",
        "token_",
        "password=$",
        "password=${",
        "password is ",
        "key=&",
        "curl -u ",
        "curl ",
        "mysql -p",
        "twilio ",
        "Bearer ",
        "Basic a",
        "Cookie: a=",
        "Authorization: ",
        "authorization=Bearer ",
        "[redacted:",
        "[redacted:env:",
        "sk-",
        "ghp_",
        "AKIA",
        ":AA",
        "12345678:AA",
        "8Q~",
        "\\",
        "\\\"",
        "token\\\\\\\"",
        "<password>",
        "password>",
        "--password ",
        "&sig=",
        "kn0wn-value-one",
        "kn0wn-value-",
        "[redacted:env:0123abcd]",
        "token=[redacted:env:0123abcd]",
        "token=a&a",
        "token=a,a",
        "token: &str =",
        "\u{1b}[",
        "token\u{1b}",
        "ü",
        "-",
        "token=)",
        "password=a\\n",
        "password: |\n",
        "password: |\n ",
        "password:\n",
        "a.bcdefg.",
        ".......",
        "Maaaaaaaaaaaaaaaaaaaaaaaa.bcdefg.",
        "kind: Secret\ndata:\n a: b\n",
        "kind: Secret\n",
        "Private-Lines: 99\n",
        "echo |",
        "echo a | sudo -S",
        ":5432:",
        "a:5432:b:c:",
        "cGFzc3dvcmQ",
        "cGFzc3dvcmQ ",
        "machine login password ",
        "password == ",
        "\" == password",
        "name: token value:",
        "token x = ",
        "#define token ",
        "heroku = ",
        "heroku ",
        "-us1",
        "T3BlbkFJ",
        "_mmk",
        "AKIA0123456789ABCDEF,",
        "define('token',",
        "token(\"",
        "[1;32m",
        "[1;",
        "passphrase: a b c",
        "key ",
        "identified by '",
        "glpat-",
        "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3",
        "a_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3 ",
        "| password | ",
        "**token**: ",
        "password() return ",
        "Client(\"aB3dE5fG7hI9jK1lM3nO5\", ",
        "thin:a/",
        "token: OAuth ",
        "<a key=\"password\"><value>",
    ] {
        let is_short = ["a=", "eyJ", "-----BEGIN ", "://"].contains(&unit);
        let text = unit.repeat(if is_short { 1 << 20 } else { 1 << 17 } / unit.len());
        let redacted = redactor().text(&text).into_owned();
        assert!(redacted.len() < text.len() * 20, "{unit}");
    }
}
