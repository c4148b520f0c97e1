//! Traces, told to a collector that is there, away, and wrong.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use relight_core::decide::{Right, StartLimits, TaskEvent};
use relight_core::ids::{StepName, TaskId};
use relight_core::lease::Holder;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::NewTask;
use relight_core::time::Span;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::engine::Engine;
use relight_runtime::store_url::StoreUrl;
use relight_runtime::telemetry::{Collector, Telemetry};
use relight_store::sqlite::Use;
use serde_json::Value;

/// Pieces of work until one is seen.
const TRIES: u32 = 12;
/// What is waited for comes sooner.
const LIMIT: Duration = Duration::from_secs(120);

/// Takes requests, answers each with the next of these statuses (the last for ever), and hands on what
/// it was told.
fn collector(statuses: &'static [u16]) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = statuses.get(at).or(statuses.last()).unwrap();
            let answer =
                format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.into_inner().write_all(answer.as_bytes()).unwrap();
            if *status == 200 && told.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, heard)
}

fn engine() -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreUrl::Sqlite(folder.path().join("relight.db"))
        .open(Use::Long)
        .unwrap();
    (
        folder,
        Engine::new(store, Redactor::new(MarkKey::new([7; 32]))),
    )
}

/// A task with one finished step.
async fn work(engine: &Engine, id: &str) {
    let id = TaskId::new(id).unwrap();
    let new = NewTask::bare(id.clone());
    let holder = Holder::Time {
        by: "a test".to_owned(),
    };
    let (ttl, limits) = (Some(Span::from_secs(60)), StartLimits::OwnBudget);
    let started = engine
        .start(new, Right::Unfenced, holder, ttl, limits)
        .await;
    let right = Right::Fence(started.unwrap().fence);
    let key = StepKey {
        name: StepName::new("build").unwrap(),
        occurrence: 1,
    };
    let begin = TaskEvent::StepBegin {
        key: key.clone(),
        rule: RepeatRule::Once,
        fingerprint: None,
    };
    engine.act(&id, right, begin).await.unwrap();
    let output = Some(Output::keep(0, b"words that nobody traces".to_vec()));
    let end = TaskEvent::StepEnd {
        key,
        outcome: StepOutcome::Done,
        output,
    };
    engine.act(&id, right, end).await.unwrap();
    engine
        .act(&id, right, TaskEvent::Done { force: false })
        .await
        .unwrap();
}

fn names(request: &Value) -> Vec<String> {
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    spans
        .iter()
        .map(|span| span["name"].as_str().unwrap().to_owned())
        .collect()
}

fn start(engine: &Engine, address: &str) -> (Telemetry, Receiver<String>) {
    let (said, heard) = channel();
    let collector = Collector::at_base(address, "relight").unwrap();
    let say = move |text: &str| drop(said.send(text.to_owned()));
    (Telemetry::start(engine.clone(), collector, say), heard)
}

/// Does one piece of work after another until `is_seen` says that what is waited for came. Telemetry
/// may begin to look in the middle of a piece, whose first spans it then never sends.
async fn work_until(engine: &Engine, mut is_seen: impl FnMut(Duration) -> bool) {
    for at in 0..TRIES {
        work(engine, &format!("t{at}")).await;
        if is_seen(LIMIT / TRIES) {
            return;
        }
    }
    panic!("{TRIES} pieces of work, and nothing of it was seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_is_told_without_its_words() {
    let (_folder, engine) = engine();
    work(&engine, "before").await;
    let (address, heard) = collector(&[200]);
    let (telemetry, _said) = start(&engine, &address);
    // Spans come in any number of requests.
    let mut told = Vec::new();
    let mut requests = Vec::new();
    work_until(&engine, |pause| {
        while !["step build", "task"]
            .iter()
            .all(|name| told.iter().any(|told| told == name))
        {
            let Ok(request) = heard.recv_timeout(pause) else {
                return false;
            };
            told.extend(names(&request));
            requests.push(request.to_string());
        }
        true
    })
    .await;
    for text in requests {
        assert!(
            !text.contains("nobody traces") && !text.contains("before"),
            "{text}"
        );
        assert!(text.contains(r#"{"key":"service.name","value":{"stringValue":"relight"}}"#));
    }
    telemetry.finish(LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_says_no_costs_nothing_but_its_spans() {
    let (_folder, engine) = engine();
    let (address, heard) = collector(&[503, 200]);
    let (telemetry, said) = start(&engine, &address);
    work_until(&engine, |pause| {
        let Ok(text) = said.recv_timeout(pause) else {
            return false;
        };
        assert!(
            text.contains("traces cannot be told to http://127.0.0.1:"),
            "{text}"
        );
        assert!(text.contains("503"), "{text}");
        true
    })
    .await;
    // The end does not wait for the pause after a failure.
    telemetry.finish(LIMIT).await;
    let request = heard.recv_timeout(LIMIT).unwrap();
    assert!(!names(&request).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_up_nobody() {
    let (_folder, engine) = engine();
    // A port that was free a moment ago: nobody answers there.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (telemetry, said) = start(&engine, &format!("http://127.0.0.1:{port}"));
    work_until(&engine, |pause| said.recv_timeout(pause).is_ok()).await;
    work(&engine, "after").await;
    telemetry.finish(LIMIT).await;
}
