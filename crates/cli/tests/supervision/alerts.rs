//! Who is told, seen from the other end: a server that gets webhooks, and commands that are run.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::ground::{Ground, until};
use crate::receiver::{Answer, Receiver};

/// Entries for `work/agent`, and who is told of them.
fn config(ground: &Ground, agents: &[&str], alert: &str) {
    let mut text = String::new();
    for name in agents {
        let entry = format!("name = \"{name}\"\ncommand = [\"./agent\"]\nmax_attempts = 0\n");
        write!(text, "[[agent]]\n{entry}").unwrap();
    }
    ground.config(&format!(
        "{text}[alert]\ngroup = \"50ms\"\nretry = \"50ms\"\n{alert}\n"
    ));
    assert_eq!(exit_code(ground, &["trust"]), 0);
}

fn webhook(receiver: &Receiver) -> String {
    format!("webhook = \"{}\"", receiver.url())
}

fn exit_code(ground: &Ground, words: &[&str]) -> i32 {
    ground.call(words).code
}

#[test]
fn a_daemon_killed_while_it_tells_tells_again_under_the_same_id() {
    let receiver = Receiver::answering(&[Answer::Silence]);
    let ground = Ground::with_agent("exit 1");
    config(&ground, &["a"], &webhook(&receiver));
    let daemon = ground.up(&[]);
    let first = receiver.next();
    daemon.kill();
    let _daemon = ground.up(&[]);
    let again = receiver.next();
    assert_eq!((again.id(), &again.body), (first.id(), &first.body));
    assert_eq!(again.json()["subject"], "agent/a");
    receiver.assert_quiet(300);
}

#[test]
fn a_hundred_agents_that_die_at_once_are_one_message() {
    let receiver = Receiver::answering(&[]);
    let ground = Ground::with_agent("while [ ! -e go ]; do read -t 0.1 <> <(:); done; exit 1");
    let names: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    config(&ground, &names, &webhook(&receiver));
    let text = ground
        .read("relight.toml")
        .replace("group = \"50ms\"", "group = \"5s\"");
    ground.config(&text);
    let _daemon = ground.up(&[]);
    std::fs::write(ground.work("go"), "").unwrap();
    // Grouped, in however many messages.
    let (mut told, mut messages) = (0, 0);
    while told < 100 {
        told += receiver.next().json()["data"]["count"].as_u64().unwrap();
        messages += 1;
    }
    assert!(
        told == 100 && messages < 100,
        "{told} in {messages} messages"
    );
    receiver.assert_quiet(300);
}

#[test]
fn a_server_that_does_not_answer_holds_up_neither_agents_nor_the_end() {
    let receiver = Receiver::answering(&[Answer::Silence, Answer::Silence, Answer::Silence]);
    let ground =
        Ground::with_agent("[ $RELIGHT_AGENT = b ] || exit 1\necho $$ >>births; exec sleep 300");
    config(
        &ground,
        &["a", "b"],
        &format!("timeout = \"1h\"\n{}", webhook(&receiver)),
    );
    let text = ground
        .read("relight.toml")
        .replacen("max_attempts = 0\n[alert]", "[alert]", 1);
    ground.config(&text);
    let daemon = ground.up(&[]);
    receiver.next();
    let before = ground.until_runs("b", 1);
    crate::ground::signal(before, rustix::process::Signal::KILL);
    assert_ne!(ground.until_runs("b", 2), before);
    // Both are waited for far less than an hour.
    assert_eq!(exit_code(&ground, &["down"]), 0);
    assert_eq!(daemon.end().code, 0);
    assert_eq!(
        ground.json(&["alerts", "list", "--pending"])["items"][0]["alert"],
        "terminated"
    );
}

#[test]
fn a_run_tells_before_it_ends() {
    let receiver = Receiver::answering(&[]);
    let ground = Ground::with_agent("env >env; exit 1");
    config(&ground, &[], &webhook(&receiver));
    let secret = [("RELIGHT_WEBHOOK_SECRET", "a secret of some length")];
    let words = ["run", "--name", "a", "--max-attempts", "0", "--", "./agent"];
    assert_eq!(ground.start_with(&words, &secret).end().code, 1);
    assert_eq!(receiver.next().json()["type"], "relight.alert.terminated");
    assert!(!ground.read("env").contains("RELIGHT_WEBHOOK_SECRET"));
    let list = ground.json(&["alerts", "list"]);
    assert_eq!(list["items"][0]["told"], json!(["webhook"]), "{list}");
}

#[test]
fn a_run_goes_on_although_the_configuration_is_wrong() {
    let ground = Ground::with_agent("exit 0");
    ground.config("[alert]\nwebhook = \"http://example.org/x\"\n");
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("no alerts are sent"), "{ran:?}");
}

#[test]
fn a_webhook_that_anybody_could_read_is_a_mistake_of_the_configuration() {
    let ground = Ground::with_agent("exit 0");
    ground.config("[alert]\nwebhook = \"http://example.org/x\"\n");
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("plain_http = true"), "{ran:?}");
}

#[test]
fn a_secret_that_others_can_read_is_a_mistake_of_the_configuration() {
    let ground = Ground::with_agent("exit 0");
    std::fs::write(ground.work("secret"), "a secret of some length").unwrap();
    ground.config("[alert]\nwebhook = \"https://example.org/x\"\nsecret_file = \"secret\"\n");
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("chmod 600 "), "{ran:?}");
}

#[test]
fn a_test_goes_through_every_sink_and_says_what_became_of_it() {
    let receiver = Receiver::answering(&[Answer::Status(200, ""), Answer::Status(404, "")]);
    let ground = Ground::new();
    assert_eq!(exit_code(&ground, &["alerts", "test"]), 78);
    ground.config("");
    assert_eq!(exit_code(&ground, &["alerts", "test"]), 78);
    ground.script("tell", "cat >told");
    config(
        &ground,
        &[],
        &format!("command = [\"./tell\"]\n{}", webhook(&receiver)),
    );
    let ran = ground.call(&["alerts", "test"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(receiver.next().json()["type"], "relight.alert.test");
    assert!(ground.read("told").contains("\"alert\":\"test\""));
    let ran = ground.call(&["alerts", "test"]);
    assert!(
        ran.code == 1 && ran.stdout.contains("not delivered: it answered 404"),
        "{ran:?}"
    );
}

#[test]
fn without_a_daemon_alerts_are_sent_by_a_call() {
    let receiver = Receiver::answering(&[Answer::Status(500, "")]);
    let ground = Ground::new();
    config(&ground, &[], &webhook(&receiver));
    assert_eq!(exit_code(&ground, &["alerts", "send"]), 0);
    for code in [0, 75] {
        let words = ["step", "begin", "pay", "--repeat", "once", "--task", "t"];
        if code == 0 {
            ground.call(&["task", "start", "t"]);
        }
        assert_eq!(exit_code(&ground, &words), code);
    }
    let ran = ground.call(&["alerts", "send"]);
    assert!(
        ran.code == 1 && ran.stdout.contains("it answered 500"),
        "{ran:?}"
    );
    let failed = receiver.next();
    let list = ground.call(&["alerts", "list"]).stdout;
    assert!(list.contains("blocked task/t [pending webhook]"), "{list}");
    assert_eq!(exit_code(&ground, &["alerts", "send"]), 0);
    assert_eq!(receiver.next().id(), failed.id());
    let list = ground.call(&["alerts", "list"]).stdout;
    assert!(
        list.contains("blocked task/t [delivered webhook]"),
        "{list}"
    );
}

#[test]
fn the_secret_that_was_made_is_the_one_that_is_printed() {
    let ground = Ground::new();
    ground.config("");
    let secret = ground.call(&["alerts", "secret"]).stdout;
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(
        std::fs::read_to_string(ground.home("webhook.secret")).unwrap(),
        secret
    );
    assert_eq!(ground.json(&["alerts", "secret"])["secret"], secret.trim());
}

#[test]
fn a_boot_loop_tells_once_a_boot() {
    let ground = Ground::with_agent("exec sleep 300");
    ground.script("tell", "cat >>told");
    config(&ground, &["a"], "command = [\"./tell\"]");
    let daemon = ground.up(&["--paused"]);
    daemon.kill();
    let crashed = |boot: &str| json!({"boot_id": boot, "resumed": true});
    let history = json!({"boots": [crashed("x"), crashed("y"), crashed("z")]});
    let store = rusqlite::Connection::open(ground.home("relight.db")).unwrap();
    let update = "UPDATE kept SET body = ?1 WHERE name = 'boots'";
    assert_eq!(store.execute(update, [history.to_string()]).unwrap(), 1);
    drop(store);
    for _ in 0..2 {
        let daemon = ground.up(&[]);
        daemon.until_said("ALERT the machine went down 3 times in a row");
        let told = || ground.json(&["alerts", "list"])["items"][0]["told"] == json!(["command"]);
        until("it is told", || told().then_some(()));
        daemon.kill();
    }
    let told: Value = serde_json::from_str(&ground.read("told")).unwrap();
    assert_eq!(
        (&told["alert"], &told["subject"]),
        (&json!("boot_loop"), &json!("store"))
    );
    assert_eq!(ground.events("boot.loop").len(), 1);
}
