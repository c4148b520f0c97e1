//! Alerts on their way from the journal to whoever is told, with a server that answers as it likes.

mod receiver;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use receiver::{Answer, Post, Receiver};
use relight_redact::{MarkKey, Redactor};
use relight_runtime::alerts::stale::StaleWatch;
use relight_runtime::alerts::{
    AlertDelivery, AlertTiming, CommandSink, Sink, Webhook, deliver_now, overview, register,
    secret, try_out,
};
use relight_runtime::core::agent::change::AgentChange;
use relight_runtime::core::alert::{Alert, AlertKind};
use relight_runtime::core::decide::{Guard, Right, TaskEvent};
use relight_runtime::core::event::EventKind;
use relight_runtime::core::ids::{AgentName, StepName, TaskId};
use relight_runtime::core::step::{RepeatRule, StepKey};
use relight_runtime::core::task::NewTask;
use relight_runtime::core::time::{Span, Time};
use relight_runtime::engine::Engine;
use relight_runtime::os::clock;
use relight_runtime::store::{AgentCommit, MemoryStore};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Short enough for a test; nothing is given up.
const QUICK: AlertTiming = AlertTiming {
    group: Span::from_ms(50),
    retry: Span::from_ms(20),
    give_up: Span::from_secs(3_600),
};

fn engine() -> Engine {
    Engine::new(
        Arc::new(MemoryStore::default()),
        Redactor::new(MarkKey::new([7; 32])),
    )
}

fn webhook(receiver: &Receiver) -> Sink {
    webhook_within(receiver, Span::from_secs(120))
}

fn webhook_within(receiver: &Receiver, timeout: Span) -> Sink {
    let keys = secret::parse(SECRET).expect("a good secret");
    Sink::Webhook(Webhook::new(receiver.url(), keys, timeout, false).expect("a good address"))
}

/// A command that appends what it gets to a file, then ends with this code.
fn appending(file: &std::path::Path, code: u8) -> Sink {
    let script = format!("cat >> '{}'; exit {code}", file.display());
    let command = ["sh", "-c", &script]
        .map(|word| word.to_owned().into())
        .to_vec();
    Sink::Command(CommandSink {
        command,
        folder: "".into(),
        timeout: Span::from_secs(120),
    })
}

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a good name")
}

fn task(text: &str) -> TaskId {
    TaskId::new(text).expect("a good id")
}

async fn commit_agent(engine: &Engine, agent: &str, changes: Vec<AgentChange>) {
    let (agent, guard, at) = (name(agent), Guard::default(), clock::now());
    let commit = AgentCommit {
        agent,
        guard,
        at,
        changes,
    };
    engine
        .store()
        .commit_agent(commit)
        .await
        .expect("a store that can be written");
}

/// An agent comes into being and is terminated.
async fn terminate(engine: &Engine, agent: &str) {
    let alert = Alert::agent_terminated(
        &name(agent),
        "relight start a",
        "recovered 3 times in a row without progress",
    );
    let changes = vec![
        AgentChange::Created(Box::default()),
        AgentChange::Noted(EventKind::Alert, alert.detail()),
    ];
    commit_agent(engine, agent, changes).await;
}

async fn note(engine: &Engine, id: &str, alert: &Alert) {
    let event = TaskEvent::Note(EventKind::Alert, alert.detail());
    engine
        .act(&task(id), Right::Unfenced, event)
        .await
        .expect("it is noted");
}

async fn add(engine: &Engine, id: &str) {
    engine
        .add(NewTask::bare(task(id)))
        .await
        .expect("a new task");
}

/// Nobody says anything that a test would hear.
async fn deliver(engine: &Engine, sinks: Vec<Sink>) -> AlertDelivery {
    AlertDelivery::start(engine, sinks, QUICK, |_| {})
        .await
        .expect("a store that can be written")
}

async fn next(receiver: &Receiver) -> Post {
    tokio::task::block_in_place(|| receiver.next())
}

async fn quiet(receiver: &Receiver) {
    tokio::task::block_in_place(|| receiver.assert_quiet(300));
}

async fn pending(engine: &Engine) -> usize {
    let found = overview(engine.store().as_ref(), 1_000)
        .await
        .expect("readable");
    found
        .alerts
        .iter()
        .filter(|told| !told.pending.is_empty())
        .count()
}

/// HMAC-SHA256 by its definition, beside the one of the product.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(text)
        .finalize();
    Sha256::new()
        .chain_update(padded(0x5c))
        .chain_update(inner)
        .finalize()
        .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_a_signed_cloud_event() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    let delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    terminate(&engine, "writer").await;
    let post = next(&receiver).await;

    assert_eq!(
        post.headers["content-type"],
        "application/cloudevents+json; charset=utf-8"
    );
    let (id, sent_at) = (post.id(), &post.headers["webhook-timestamp"]);
    let key = BASE64_STANDARD
        .decode(SECRET.trim_start_matches("whsec_"))
        .unwrap();
    let signed = hmac(&key, format!("{id}.{sent_at}.{}", post.body).as_bytes());
    let expected = format!("v1,{}", BASE64_STANDARD.encode(signed));
    assert_eq!(post.headers["webhook-signature"], expected);

    let event = post.json();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(
        (event["id"].as_str(), &event["type"]),
        (Some(id), &json!("relight.alert.terminated"))
    );
    assert_eq!(
        (&event["subject"], &event["data"]["count"]),
        (&json!("agent/writer"), &json!(1))
    );
    assert!(event["source"].as_str().unwrap().starts_with("/relight/"));
    assert!(event["time"].as_str().unwrap().parse::<Time>().is_ok());
    delivery.finish(Duration::from_secs(120)).await;
    assert_eq!(pending(&engine).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_taken_is_sent_again_under_the_same_id() {
    let answers = [
        Answer::Status(500, ""),
        Answer::Status(503, "retry-after: 0\r\n"),
    ];
    let (engine, receiver) = (engine(), Receiver::answering(&answers));
    let _delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    terminate(&engine, "a").await;
    let posts = [
        next(&receiver).await,
        next(&receiver).await,
        next(&receiver).await,
    ];
    assert!(
        posts
            .iter()
            .all(|post| post.id() == posts[0].id() && post.body == posts[0].body)
    );
    quiet(&receiver).await;
    terminate(&engine, "b").await;
    assert_ne!(next(&receiver).await.id(), posts[0].id());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_courier_goes_on_with_what_the_last_one_left() {
    let (engine, receiver) = (engine(), Receiver::answering(&[Answer::Status(500, "")]));
    let slow = AlertTiming {
        retry: Span::from_secs(3_600),
        ..QUICK
    };
    let first = AlertDelivery::start(&engine, vec![webhook(&receiver)], slow, |_| {})
        .await
        .unwrap();
    terminate(&engine, "a").await;
    let failed = next(&receiver).await;
    first.finish(Duration::from_secs(120)).await;
    terminate(&engine, "b").await;
    let deliveries = deliver_now(&engine, vec![webhook(&receiver)], QUICK)
        .await
        .unwrap();
    assert_eq!((deliveries[0].sent, &deliveries[0].failed), (2, &None));
    assert_eq!(next(&receiver).await.id(), failed.id());
    assert_eq!(next(&receiver).await.json()["subject"], "agent/b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_deaths_at_once_are_one_message() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    register(&engine, &[webhook(&receiver)]).await.unwrap();
    for number in 0..100 {
        terminate(&engine, &format!("a{number}")).await;
    }
    deliver_now(&engine, vec![webhook(&receiver)], QUICK)
        .await
        .unwrap();
    let event = next(&receiver).await.json();
    assert_eq!(event["data"]["count"], 100);
    assert_eq!(event["data"]["items"].as_array().unwrap().len(), 20);
    quiet(&receiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_before_a_sink_was_there_is_not_told() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    terminate(&engine, "earlier").await;
    let _delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    quiet(&receiver).await;
    terminate(&engine, "now").await;
    assert_eq!(next(&receiver).await.json()["subject"], "agent/now");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_alert_an_episode() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    let _delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    terminate(&engine, "a").await;
    next(&receiver).await;
    let alert = Alert::agent_terminated(&name("a"), "relight start a", "the same again");
    let again = AgentChange::Noted(EventKind::Alert, alert.detail());
    commit_agent(&engine, "a", vec![again.clone()]).await;
    quiet(&receiver).await;

    let tag = relight_runtime::core::agent::AttemptTag::from_text("a.1.x");
    let begun = AgentChange::Begun { number: 1, tag };
    commit_agent(&engine, "a", vec![begun, again]).await;
    assert!(next(&receiver).await.body.contains("the same again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_doubt_that_must_not_be_repeated_tells_once() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    let _delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    add(&engine, "t").await;
    let key = StepKey::first(StepName::new("pay").unwrap());
    let begin = || TaskEvent::StepBegin {
        key: key.clone(),
        rule: RepeatRule::Once,
        fingerprint: None,
    };
    for _ in 0..3 {
        engine
            .act(&task("t"), Right::Unfenced, begin())
            .await
            .expect("begun, then in doubt");
    }
    let event = next(&receiver).await.json();
    assert_eq!(
        (&event["type"], &event["subject"]),
        (&json!("relight.alert.blocked"), &json!("task/t"))
    );
    assert_eq!(event["data"]["items"][0]["more"]["step"], "pay");
    quiet(&receiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_gone_is_called_again_only_when_it_changes() {
    let gone = Receiver::answering(&[Answer::Status(410, "")]);
    let (engine, other) = (engine(), Receiver::answering(&[]));
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let deliveries = deliver(&engine, vec![webhook(&gone), appending(&told, 0)]).await;
    terminate(&engine, "a").await;
    next(&gone).await;
    let heard = wait_for_lines(&told, 2).await;
    assert_eq!(
        (&heard[0]["alert"], &heard[1]["alert"]),
        (&json!("terminated"), &json!("undelivered"))
    );
    terminate(&engine, "b").await;
    quiet(&gone).await;
    drop(deliveries);

    let _delivery = deliver(&engine, vec![webhook(&other)]).await;
    terminate(&engine, "c").await;
    assert_eq!(next(&other).await.json()["subject"], "agent/c");
}

/// The lines of a file once there are so many.
async fn wait_for_lines(file: &std::path::Path, count: usize) -> Vec<Value> {
    let deadline = clock::boot_ms() + 120_000;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<Value> = text
            .lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(
            clock::boot_ms() < deadline,
            "{count} lines were to come: {text}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_is_given_up_and_holds_up_nothing() {
    let (engine, receiver) = (engine(), Receiver::answering(&[Answer::Status(500, "")]));
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let pace = AlertTiming {
        give_up: Span::ZERO,
        ..QUICK
    };
    let sinks = vec![webhook(&receiver), appending(&told, 0)];
    let _delivery = AlertDelivery::start(&engine, sinks, pace, |_| {})
        .await
        .unwrap();
    terminate(&engine, "a").await;
    next(&receiver).await;
    let heard = wait_for_lines(&told, 2).await;
    assert_eq!(heard[1]["alert"], "undelivered");
    assert_eq!(heard[1]["items"][0]["more"]["sink"], "webhook");
    terminate(&engine, "b").await;
    assert_eq!(next(&receiver).await.json()["subject"], "agent/b");
    quiet(&receiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_is_run_again() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let _delivery = deliver(&engine, vec![appending(&told, 1)]).await;
    terminate(&engine, "a").await;
    let heard = wait_for_lines(&told, 3).await;
    assert_eq!(
        (&heard[0]["agent"], &heard[0]["kind"]),
        (&json!("a"), &json!("alert"))
    );
    assert_eq!(
        (&heard[0]["id"], &heard[1]["id"]),
        (&heard[1]["id"], &heard[2]["id"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_holds_up_neither_the_other_sink_nor_the_end() {
    let (engine, receiver) = (
        engine(),
        Receiver::answering(&[Answer::Silence, Answer::Silence]),
    );
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let hour = Span::from_secs(3_600);
    let sinks = vec![webhook_within(&receiver, hour), appending(&told, 0)];
    let deliveries = deliver(&engine, sinks).await;
    terminate(&engine, "a").await;
    next(&receiver).await;
    wait_for_lines(&told, 1).await;
    let begun = clock::boot_ms();
    deliveries.finish(Duration::from_millis(200)).await;
    assert!(clock::boot_ms() - begun < hour.as_ms());
    assert_eq!(pending(&engine).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_come_is_a_failure_in_time() {
    let (engine, receiver) = (engine(), Receiver::answering(&[Answer::Silence]));
    let sink = webhook_within(&receiver, Span::from_ms(200));
    let _delivery = deliver(&engine, vec![sink]).await;
    terminate(&engine, "a").await;
    let first = next(&receiver).await;
    assert_eq!(next(&receiver).await.id(), first.id());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_couriers_of_one_store_do_not_both_send() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    let mut deliveries = Vec::new();
    for _ in 0..4 {
        deliveries.push(deliver(&engine, vec![webhook(&receiver)]).await);
    }
    for number in 0..5 {
        terminate(&engine, &format!("a{number}")).await;
        assert_eq!(
            next(&receiver).await.json()["subject"],
            format!("agent/a{number}")
        );
    }
    quiet(&receiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let other = Receiver::answering(&[]);
    let location: &'static str = format!("location: {}\r\n", other.url()).leak();
    let (engine, receiver) = (
        engine(),
        Receiver::answering(&[Answer::Status(307, location)]),
    );
    let tried = try_out(&engine, &webhook(&receiver), "store").await;
    assert!(
        tried
            .unwrap_err()
            .to_string()
            .contains("redirects are not followed")
    );
    quiet(&other).await;
    register(&engine, &[webhook(&receiver)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_an_alert_are_not_told() {
    let (engine, receiver) = (engine(), Receiver::answering(&[]));
    let _delivery = deliver(&engine, vec![webhook(&receiver)]).await;
    add(&engine, "t").await;
    note(
        &engine,
        "t",
        &Alert::task_parked(&task("t"), "password=hunter2hunter2"),
    )
    .await;
    let body = next(&receiver).await.body;
    assert!(
        body.contains("task/t") && !body.contains("hunter2"),
        "{body}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_work_is_told_once_until_somebody_touches_it() {
    let engine = engine();
    register(&engine, &[]).await.unwrap();
    add(&engine, "t").await;
    let mut watch = StaleWatch::new(engine.clone(), Span::from_secs(600));
    let (now, hour) = (clock::now(), Span::from_secs(3_600));
    let wait = watch.look(now).await.unwrap();
    assert!(
        wait <= Span::from_secs(600) && wait > Span::from_secs(300),
        "{wait}"
    );
    for _ in 0..3 {
        watch.look(now.plus(hour)).await.unwrap();
        // A daemon that was started anew knows as much.
        watch = StaleWatch::new(engine.clone(), Span::from_secs(600));
    }
    assert_eq!(kinds(&engine).await, [AlertKind::Stale]);
    let set = TaskEvent::Set([("k".to_owned(), "v".to_owned())].into());
    engine.act(&task("t"), Right::Unfenced, set).await.unwrap();
    watch.look(now.plus(hour)).await.unwrap();
    assert_eq!(kinds(&engine).await, [AlertKind::Stale, AlertKind::Stale]);
}

async fn kinds(engine: &Engine) -> Vec<AlertKind> {
    let found = overview(engine.store().as_ref(), 1_000)
        .await
        .expect("readable");
    found.alerts.iter().map(|told| told.alert.kind).collect()
}
