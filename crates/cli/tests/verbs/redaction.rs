//! No secret that Relight can recognise reaches the disk: every door, every kind.

use crate::cases;

use cases::Place;
use serde_json::json;

/// Secrets of every kind, put together at run time so that no scanner finds them here.
fn corpus() -> Vec<(&'static str, String)> {
    let letters = |count: usize| "aB3dE5gH7jK9mN1pQ2sT4vW6xY8z".repeat(9)[..count].to_owned();
    let upper = "ABCDEFGHIJKLMNOP";
    vec![
        ("github", format!("{}_{}", "ghp", letters(36))),
        ("openai", format!("{}-{}-{}", "sk", "proj", letters(48))),
        (
            "anthropic",
            format!("{}-{}-{}-{}AA", "sk", "ant", "api03", letters(93)),
        ),
        ("aws", format!("{}{upper}", "AKIA")),
        (
            "slack",
            format!(
                "{}-{}-{}-{}",
                "xoxb",
                "123456789012",
                "123456789012",
                letters(24)
            ),
        ),
        ("stripe", format!("{}_{}_{}", "sk", "live", letters(24))),
        ("google", format!("{}{}", "AIza", letters(35))),
        (
            "jwt",
            format!(
                "{}.{}.{}",
                "eyJhbGciOiJIUzI1NiJ9",
                "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
                letters(43)
            ),
        ),
        ("url", "hunter2-Very-Secret-Url".to_owned()),
        ("assignment", "correct-horse-battery-9".to_owned()),
        ("pem", letters(64)),
        ("environment", "env-value-Zq81-is-hidden".to_owned()),
    ]
}

/// The text in which a secret of that kind comes along.
fn text_with(kind: &str, secret: &str) -> String {
    match kind {
        "url" => format!("postgres://user:{secret}@db.example.org/main"),
        "assignment" => format!("password={secret}"),
        "pem" => {
            let dashes = "-".repeat(5);
            let kind = format!("RSA {} KEY", "PRIVATE");
            format!("key: {dashes}BEGIN {kind}{dashes}\n{secret}\n{dashes}END {kind}{dashes}")
        }
        _ => format!("see {secret} there"),
    }
}

/// Runs with the secret of the environment set.
fn run(place: &Place, words: &str, last: &str) -> cases::Answer {
    let secret = corpus().pop().expect("the last is the environment's").1;
    place
        .relight(words)
        .arg(last)
        .env("DEPLOY_TOKEN", &secret)
        .run()
}

#[track_caller]
fn assert_clean(place: &Place, door: &str) {
    for (kind, secret) in corpus() {
        let files = place.files_with(secret.as_bytes());
        assert!(files.is_empty(), "{kind} by {door} is in {files:?}");
    }
}

/// Puts every secret through one door of a place with the workflow and task `w`.
fn through(door: &str, put: impl Fn(&Place, &str, &str)) {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent a --step s --idempotency k");
    for (kind, secret) in corpus() {
        put(&place, kind, &text_with(kind, &secret));
    }
    assert_clean(&place, door);
    assert!(
        !place.files_with(b"[redacted:").is_empty(),
        "{door} kept nothing at all"
    );
}

#[test]
fn what_is_no_secret_is_found_as_it_is() {
    let place = Place::new();
    place.ok(
        "checkpoint start --workflow w --agent a --step s --idempotency k --notes zebra-in-notes",
    );
    place.ok("step run print --task w -- echo zebra-in-output");
    for (word, where_too) in [
        ("zebra-in-notes", "w.json"),
        ("zebra-in-output", "relight.db-wal"),
    ] {
        let files = place.files_with(word.as_bytes());
        assert!(
            files.iter().any(|file| file.ends_with(where_too)),
            "{word}: {files:?}"
        );
    }
}

#[test]
fn by_a_title() {
    through("title", |place, kind, text| {
        run(place, &format!("task add {kind} --title"), text).with_code(0);
    });
}

#[test]
fn by_a_payload() {
    through("payload", |place, kind, text| {
        let payload = json!({"deep": [{"text": text}]}).to_string();
        run(place, &format!("task add {kind} --payload"), &payload).with_code(0);
    });
}

#[test]
fn by_context_given_at_the_start() {
    through("--set", |place, kind, text| {
        run(
            place,
            &format!("task start {kind} --set"),
            &format!("note={text}"),
        )
        .with_code(0);
    });
}

#[test]
fn by_context_set_later() {
    through("task set", |place, _, text| {
        run(place, "task set w", &format!("note={text}")).with_code(0);
    });
}

#[test]
fn by_a_reason() {
    through("reason", |place, kind, text| {
        for verb in ["fail", "block", "defer --until 1h", "cancel"] {
            let id = format!("{kind}-{}", &verb[..4]);
            place.ok(&format!("task start {id}"));
            let (verb, rest) = verb.split_once(' ').unwrap_or((verb, ""));
            run(place, &format!("task {verb} {id} {rest} --reason"), text).with_code(0);
        }
    });
}

#[test]
fn by_notes() {
    through("notes", |place, kind, text| {
        run(place, "checkpoint update --workflow w --notes", text).with_code(0);
        let start = format!(
            "checkpoint start --workflow n-{kind} --agent a --step s --idempotency n-{kind} --notes"
        );
        run(place, &start, text).with_code(0);
        let start = format!(
            "checkpoint start --workflow h-{kind} --agent a --step s --idempotency h-{kind} --handoff"
        );
        run(place, &start, text).with_code(0);
    });
}

#[test]
fn by_a_key() {
    through("key", |place, kind, text| {
        let one_line = text.replace('\n', " ");
        run(place, &format!("task add {kind} --key"), &one_line);
        let start =
            format!("checkpoint start --workflow c-{kind} --agent a --step s --idempotency");
        run(place, &start, &one_line);
    });
}

#[test]
fn by_a_steps_name() {
    through("step name", |place, _, text| {
        let one_line = text.replace('\n', " ");
        run(place, "step begin --task w", &one_line);
        run(place, "checkpoint update --workflow w --step", &one_line);
    });
}

#[test]
fn by_the_output_of_a_step() {
    through("output", |place, kind, text| {
        let words = format!("step run {kind} --task w -- printf %s");
        assert_eq!(
            run(place, &words, text).with_code(0).text(),
            text,
            "the caller sees it"
        );
    });
}

#[test]
fn by_the_standard_error_of_a_step() {
    through("stderr", |place, kind, text| {
        let words = format!("step run {kind} --task w -- sh -c");
        let script = format!("cat >&2 <<'END'\n{text}\nEND");
        run(place, &words, &script).with_code(0);
    });
}

#[test]
fn by_a_file_given_as_output() {
    through("step end --output", |place, kind, text| {
        place.ok(&format!("step begin {kind} --task w"));
        let secret = corpus().pop().unwrap().1;
        let call = place.relight(&format!("step end {kind} --task w --output -"));
        call.input(text.as_bytes())
            .env("DEPLOY_TOKEN", &secret)
            .run()
            .with_code(0);
    });
}

#[test]
fn by_an_imported_file() {
    let (there, here) = (Place::new(), Place::new());
    there.ok("checkpoint start --workflow w --agent a --step s --idempotency k --notes plain");
    for (kind, secret) in corpus() {
        let file = there.checkpoint("w");
        let mut document: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        document["notes"] = json!(text_with(kind, &secret));
        let hash = relight_core::checkpoint::hash::content_hash(document.as_object().unwrap());
        document["checkpointHash"] = json!(hash);
        std::fs::write(&file, document.to_string()).unwrap();
        run(&here, "checkpoint import --force", file.to_str().unwrap()).with_code(0);
    }
    assert_clean(&here, "import");
}

/// Most of these have no shape of their own: only the flag before them tells what they are.
#[test]
fn by_the_command_of_an_agent() {
    let place = Place::new();
    for (at, words) in [
        &["--password", "plain words"][..],
        &["--db-password=plain words"],
        &["curl", "-u", "ann:plain words"],
        &["mysql", "-pplain words"],
        &["sshpass", "-p", "plain words"],
        &["-H", "Authorization: Basic plain words"],
        &["env", "DB_PASS=plain words"],
    ]
    .iter()
    .enumerate()
    {
        let mut call = place.relight(&format!("run --name a{at} --max-attempts 1 -- true"));
        for word in *words {
            call = call.arg(word);
        }
        call.run().with_code(0);
        let shown = place.ok(&format!("--json ps a{at}")).text().to_owned();
        assert!(
            shown.contains("redacted:") && !shown.contains("plain words"),
            "{shown}"
        );
    }
    let files = place.files_with(b"plain words");
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn an_id_that_is_a_secret_is_refused() {
    let place = Place::new();
    let (_, secret) = corpus().swap_remove(0);
    place
        .relight("task add")
        .arg(&secret)
        .run()
        .with_code(2)
        .says(&["looks like a secret"]);
    place
        .relight("task add t --agent")
        .arg(&secret)
        .run()
        .with_code(2);
    assert_clean(&place, "id");
}

#[test]
fn a_replay_is_redacted_and_says_so() {
    let place = Place::new();
    place.ok("task start t");
    let (_, secret) = corpus().swap_remove(0);
    let step = || {
        place
            .relight("step run s --task t -- echo")
            .arg(&secret)
            .run()
            .with_code(0)
    };
    assert_eq!(step().text().trim(), secret);
    let replay = step().says(&["secrets were taken out"]);
    assert!(replay.text().starts_with("[redacted:") && !replay.text().contains(&secret));
    let json = place
        .relight("--json step run s --task t -- true")
        .run()
        .json();
    assert_eq!(json["redacted"], true);
}

#[test]
fn an_output_without_secrets_replays_without_a_word() {
    let place = Place::new();
    place.ok("task start t");
    for _ in 0..2 {
        let answer = place.ok("step run s --task t -- echo plain");
        assert_eq!(
            (answer.text().as_str(), answer.stderr.as_str()),
            ("plain\n", "")
        );
    }
}

#[test]
fn token_counts_survive() {
    let place = Place::new();
    let payload =
        r#"{"usage": {"total_tokens": 1234567, "prompt_tokens": 1200000, "max_tokens": 4096}}"#;
    place
        .relight("task start t --payload")
        .arg(payload)
        .run()
        .with_code(0);
    place
        .relight("task set t")
        .args(["tokens=987654", "token_count=31337"])
        .run()
        .with_code(0);
    let task = place.json("task show t");
    assert_eq!(
        task["payload"],
        serde_json::from_str::<serde_json::Value>(payload).unwrap()
    );
    assert_eq!(
        task["context"],
        json!({"tokens": "987654", "token_count": "31337"})
    );
    let text = "tokens used: 5120 (input_tokens=5000, output_tokens=120)";
    let step = || {
        place
            .relight("step run s --task t -- printf %s")
            .arg(text)
            .run()
            .with_code(0)
    };
    assert_eq!(
        (step().text(), step().text()),
        (text.to_owned(), text.to_owned())
    );
}

#[test]
fn equal_secrets_stay_equal_as_keys() {
    let place = Place::new();
    let (_, secret) = corpus().swap_remove(0);
    place
        .relight("task add first --key")
        .arg(&secret)
        .run()
        .with_code(0);
    let second = place
        .relight("--json task add second --key")
        .arg(&secret)
        .run()
        .with_code(0);
    assert_eq!(second.json()["id"], "first");
}

#[test]
fn names_of_agents_and_owners_that_are_secrets_are_not_written() {
    let place = Place::new();
    let secret = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    place.fails(&format!("run --name {secret} --restart never -- true"), 2);
    place.fails(
        &format!("run --name ok --task {secret} --restart never -- true"),
        2,
    );
    let file = format!("[[agent]]\nname = \"{secret}\"\ncommand = [\"true\"]\n");
    std::fs::write(place.work("secret.toml"), file).unwrap();
    place.fails("up --no-http --config secret.toml", 78);
    std::fs::remove_file(place.work("secret.toml")).unwrap();
    assert_eq!(
        place.files_with(secret.as_bytes()),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn names_of_nodes_and_tokens_that_are_secrets_are_refused() {
    let place = Place::new();
    let secret = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    std::fs::write(place.work("relight.toml"), "").unwrap();
    let refused = "looks like a secret";
    place
        .fails(&format!("token new --read-only --name {secret}"), 2)
        .says(&["token name", refused]);
    place
        .fails(&format!("up --no-http --node {secret}"), 2)
        .says(&["node name", refused]);
    std::fs::write(
        place.work("node.toml"),
        format!("[node]\nlabels = [\"{secret}\"]\n"),
    )
    .unwrap();
    place
        .fails("up --no-http --node n --config node.toml", 2)
        .says(&[refused]);
    std::fs::remove_file(place.work("node.toml")).unwrap();
    assert_eq!(
        place.files_with(secret.as_bytes()),
        Vec::<std::path::PathBuf>::new()
    );
}
