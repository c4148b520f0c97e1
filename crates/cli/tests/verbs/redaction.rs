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

/// What only stands behind a telling word stays: keys are built from words and random parts.
#[test]
fn a_key_that_is_a_secret_is_refused() {
    let place = Place::new();
    for (kind, secret) in corpus() {
        if ["url", "assignment"].contains(&kind) {
            continue;
        }
        let one_line = text_with(kind, &secret).replace('\n', " ");
        for verb in [
            format!("task add {kind} --key"),
            format!("task start {kind} --key"),
            format!("checkpoint start --workflow {kind} --agent a --step s --idempotency"),
        ] {
            run(&place, &verb, &one_line).with_code(2).says(&[
                "the idempotency key looks like it contains a secret",
                "without the value",
            ]);
        }
        assert!(place.files_with(secret.as_bytes()).is_empty(), "{kind}");
    }
}

#[test]
fn a_step_whose_name_is_a_secret_is_refused() {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent a --step s --idempotency k");
    for (kind, secret) in corpus() {
        if ["url", "assignment"].contains(&kind) {
            continue;
        }
        let one_line = text_with(kind, &secret).replace('\n', " ");
        for verb in [
            "step run --task w",
            "step begin --task w",
            "step end --task w",
            "step skip --task w --reason x",
            "step resolve --task w --happened",
            "task add new --step",
            "task start new --step",
            "checkpoint start --workflow new --agent a --idempotency n --step",
            "checkpoint start --workflow new --agent a --idempotency n --step s --remaining",
            "checkpoint update --workflow w --step",
            "checkpoint update --workflow w --complete",
        ] {
            let mut call = place.relight(verb).arg(&one_line);
            if verb.starts_with("step run") {
                call = call.args(["--", "sh", "-c", "echo ran >> ran"]);
            }
            call.env("DEPLOY_TOKEN", &corpus().pop().unwrap().1)
                .run()
                .with_code(2)
                .says(&[
                    "the step name looks like it contains a secret and is not written anywhere",
                    "found again by its name",
                ]);
        }
    }
    assert!(!place.work("ran").exists());
    place.fails("task show new", 1);
    assert_clean(&place, "step name");
}

/// A mark would depend on the environment and on the home: elsewhere the step would have another name.
#[test]
fn a_step_is_not_done_twice_where_another_environment_knows_its_name_as_a_secret() {
    let place = Place::new();
    place.ok("task start t");
    let mail = |is_secret: bool| {
        let call = place.relight("step run --task t --repeat once").args([
            "mail customer-4711-x",
            "--",
            "sh",
            "-c",
            "echo A >> sent",
        ]);
        match is_secret {
            true => call.env("ACCESS_TOKEN", "customer-4711-x").run(),
            false => call.run(),
        }
    };
    mail(true).with_code(2);
    assert!(!place.work("sent").exists());
    mail(false).with_code(0);
    mail(true).with_code(2);
    std::fs::remove_file(place.home("redact.key")).unwrap();
    mail(false).with_code(0);
    assert_eq!(std::fs::read_to_string(place.work("sent")).unwrap(), "A\n");
    let shown = place
        .relight("--json step show")
        .arg("mail customer-4711-x");
    let shown = shown
        .args(["--task", "t"])
        .env("ACCESS_TOKEN", "customer-4711-x")
        .run()
        .with_code(0);
    assert_eq!(shown.json()["state"], "done");
}

#[test]
fn a_name_that_only_looks_like_a_secret_is_the_same_step_in_every_home() {
    let place = Place::new();
    place.ok("task start t");
    let names = [
        "reset_password call_Zx81kd0AJs8aHS7s8d7AbCde",
        "reset_password call_Zx81kd0AJs8aHS7s8d7AbCdf",
        "fetch page token=page2cursor-eyJvZmZzZXQiOjEwMH0",
    ];
    let run = |name: &str| {
        let call = place.relight("step run --task t --repeat once").args([
            name,
            "--",
            "sh",
            "-c",
            "echo A >> ran",
        ]);
        call.run().with_code(0);
    };
    for name in names {
        run(name);
        std::fs::remove_file(place.home("redact.key")).unwrap();
        run(name);
        let shown = place.relight("--json step show").arg(name);
        let shown = shown.args(["--task", "t"]).run().with_code(0);
        assert_eq!(shown.json()["state"], "done");
    }
    let ran = std::fs::read_to_string(place.work("ran")).unwrap();
    assert_eq!(ran, "A\n".repeat(names.len()));
    assert!(place.files_with(b"eyJvZmZzZXQiOjEwMH0").is_empty());
}

#[test]
fn a_random_key_is_the_same_key_in_every_home() {
    let place = Place::new();
    let key = "idem_9aB3cD4eF5gH6iJ7kL8mN9oP0qR1sT2uV3wX";
    let started = format!("checkpoint start --workflow w --agent a --step s --idempotency w{key}");
    place.ok(&format!("task add first --key {key}"));
    place.ok(&started);
    place.ok("checkpoint complete --workflow w");
    std::fs::remove_file(place.home("redact.key")).unwrap();
    let again = place.json(&format!("task add second --key {key}"));
    assert_eq!(again["id"], "first");
    place.fails("task show second", 1);
    let again = place.ok(&started);
    assert!(again.text().contains("completed"), "{}", again.text());
}

/// Nobody is asked there: what is in it is marked, and a name that the store has stays.
#[test]
fn a_file_with_a_secret_in_the_name_of_a_step_is_taken_in_without_it() {
    let (there, here) = (Place::new(), Place::new());
    there
        .relight("checkpoint start --workflow w --agent a --idempotency k-customer-4711-x --step")
        .arg("mail customer-4711-x")
        .run()
        .with_code(0);
    let file = there.checkpoint("w");
    let secret = ("ACCESS_TOKEN", "customer-4711-x");
    let import = here
        .relight("checkpoint import")
        .arg(file.to_str().unwrap());
    import.env(secret.0, secret.1).run().with_code(0);
    assert!(here.files_with(secret.1.as_bytes()).is_empty());
    let update = there.relight("checkpoint update --workflow w --notes n");
    update.env(secret.0, secret.1).run().with_code(0);
    let shown = there.json("task show w");
    assert_eq!(shown["steps"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["steps"][0]["name"], "mail customer-4711-x", "{shown}");
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
        .says(&["looks like it contains a secret"]);
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
    let refused = "looks like it contains a secret";
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
