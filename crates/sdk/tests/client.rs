//! The client as a package of another language uses it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;

use relight_sdk::{
    Client, ErrorCode, OpenOptions, Refused, StepBegun, StepRequest, StrategyCallback, TaskEnd,
    TaskRequest, TurnRequest, read_object,
};
use serde_json::{Value, json};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            home: Some(self.folder.path().join("home")),
            store: Some(format!(
                "sqlite:{}/relight.db",
                self.folder.path().display()
            )),
            ..OpenOptions::default()
        }
    }

    fn open(&self) -> Client {
        Client::open(self.options()).unwrap()
    }
}

fn wait<T>(client: &Client, future: impl Future<Output = Result<T, Refused>>) -> T {
    client
        .wait(future, || Ok::<(), Refused>(()))
        .unwrap()
        .unwrap()
}

fn call(client: &Client, name: &str, given: &Value) -> Result<Value, Refused> {
    let given = given.as_object().unwrap().clone();
    client.wait(client.call(name, given), || Ok::<(), Refused>(()))?
}

fn task(id: &str) -> TaskRequest {
    TaskRequest {
        task: id.to_owned(),
        ..TaskRequest::default()
    }
}

fn step(name: &str) -> StepRequest {
    StepRequest {
        name: name.to_owned(),
        ..StepRequest::default()
    }
}

#[test]
fn a_finished_step_gives_its_value_to_the_next_process() {
    let place = Place::new();
    let client = place.open();
    let handle = wait(&client, client.start_task(task("report-7")));
    let StepBegun::Run(open) = wait(&client, handle.begin_step(&step("fetch"))) else {
        panic!("it was never run");
    };
    assert_eq!((open.tries(), open.in_doubt()), (1, false));
    wait(&client, open.finish(br#"{"words":2}"#.to_vec()));
    drop((handle, client));

    let client = place.open();
    let handle = wait(&client, client.start_task(task("report-7")));
    assert_eq!(handle.started().unwrap()["resumed"], true);
    let StepBegun::Done(value) = wait(&client, handle.begin_step(&step("fetch"))) else {
        panic!("it is finished");
    };
    assert_eq!(value, br#"{"words":2}"#);
    wait(&client, handle.end(TaskEnd::Done));
    let shown = call(&client, "task.show", &json!({"task": "report-7"})).unwrap();
    assert_eq!(shown["status"], "completed");
}

#[test]
fn a_step_in_doubt_that_must_not_be_repeated_is_an_error_with_its_code() {
    let place = Place::new();
    let client = place.open();
    let handle = wait(&client, client.start_task(task("pay")));
    let once = StepRequest {
        repeat: Some("once".to_owned()),
        ..step("charge")
    };
    let begun = wait(&client, handle.begin_step(&once));
    assert!(matches!(begun, StepBegun::Run(_)));
    drop((begun, handle));
    let handle = wait(&client, client.start_task(task("pay")));
    let error = client
        .wait(handle.begin_step(&once), || Ok::<(), Refused>(()))
        .unwrap()
        .unwrap_err();
    assert_eq!((error.code.name, error.code.exit), ("in_doubt", 75));
    assert!(error.hint.unwrap().contains("relight step resolve charge"));
}

#[test]
fn operations_answer_what_the_command_line_does_and_refuse_with_its_codes() {
    let place = Place::new();
    let client = place.open();
    let added = call(&client, "task.add", &json!({"id": "a", "title": "A"})).unwrap();
    assert_eq!(
        (&added["status"], &added["outcome"]),
        (&json!("created"), &json!("created"))
    );
    let started = call(&client, "task.start", &json!({"task": "a"})).unwrap();
    let fence = started["fence"].as_u64().unwrap();
    let late = call(
        &client,
        "task.done",
        &json!({"task": "a", "fence": fence + 1}),
    )
    .unwrap_err();
    assert_eq!((late.code.name, late.code.exit), ("fenced", 77));
    let done = call(&client, "task.done", &json!({"task": "a", "fence": fence})).unwrap();
    assert_eq!(done["status"], "completed");
    let unknown = call(&client, "task.sho", &json!({})).unwrap_err();
    assert_eq!(unknown.hint.as_deref(), Some("did you mean task.show?"));
    let field = call(&client, "task.show", &json!({"task": "a", "verbose": 1})).unwrap_err();
    assert_eq!(field.code.name, "invalid");
    let none = call(&client, "task.claim", &json!({"agent": "w"})).unwrap_err();
    assert_eq!((none.code.name, none.code.exit), ("nothing", 1));
}

#[test]
fn a_turn_that_is_dropped_is_given_up_and_one_that_ended_is_idle() {
    let place = Place::new();
    let client = place.open();
    let request = || TurnRequest {
        key: "dm:42".to_owned(),
        id: "conversation-7".to_owned(),
        set: [("model".to_owned(), "x".to_owned())].into(),
        lease: None,
    };
    let turn = wait(&client, client.begin_turn(request()));
    assert_eq!(
        (&turn.begun()["generation"], &turn.begun()["resumed"]),
        (&json!(1), &json!(false))
    );
    wait(&client, turn.end());
    let state =
        || call(&client, "session.show", &json!({"key": "dm:42"})).unwrap()["state"].clone();
    assert_eq!(state(), "idle");
    let turn = wait(&client, client.begin_turn(request()));
    assert_eq!(state(), "active");
    drop(turn);
    let mut looks = 0;
    while state() != "idle" {
        looks += 1;
        assert!(looks < 100_000, "the turn was never given up");
        std::thread::yield_now();
    }
}

#[derive(Debug)]
struct Suspends;

impl StrategyCallback for Suspends {
    fn decide(&self, failure: &str) -> Result<String, String> {
        let failure: Value = serde_json::from_str(failure).map_err(|error| error.to_string())?;
        let reason = failure["death"]["reason"].clone();
        Ok(json!({"decision": "suspend", "reason": reason}).to_string())
    }
}

#[test]
fn a_strategy_of_the_program_decides_what_becomes_of_a_failed_task() {
    let place = Place::new();
    let options = OpenOptions {
        strategies: vec![("careful".to_owned(), Arc::new(Suspends))],
        default_strategy: Some("careful".to_owned()),
        ..place.options()
    };
    let client = Client::open(options).unwrap();
    let handle = wait(&client, client.start_task(task("t")));
    let reason = "the disk is full".to_owned();
    let recovered = wait(&client, handle.end(TaskEnd::Fail { reason }));
    assert_eq!(
        (&recovered["strategy"], &recovered["decision"]),
        (&json!("careful"), &json!("suspend"))
    );
    let shown = call(&client, "task.show", &json!({"task": "t"})).unwrap();
    assert_eq!(shown["status"], "suspended");
}

#[test]
fn two_handles_of_one_process_do_not_hold_one_task() {
    let place = Place::new();
    let client = place.open();
    let first = wait(&client, client.start_task(task("t")));
    let error = client
        .wait(client.start_task(task("t")), || Ok::<(), Refused>(()))
        .unwrap()
        .unwrap_err();
    assert_eq!(error.code.name, "held");
    drop(first);
    wait(&client, client.start_task(task("t")));
}

#[test]
fn a_wait_that_is_interrupted_ends_and_leaves_the_queue_as_it_was() {
    let place = Place::new();
    let client = place.open();
    let minute = "1m".parse().unwrap();
    let waiting = client.claim(Some("w"), &[], Some(minute), None);
    let interrupted = client.wait(waiting, || {
        Err(relight_sdk::Refused::without_hint(
            relight_sdk::ErrorCode::FULL,
            "ctrl-c",
        ))
    });
    assert_eq!(interrupted.unwrap_err().message, "ctrl-c");
    call(&client, "task.add", &json!({"id": "a"})).unwrap();
    let claimed = wait(&client, client.claim(Some("w"), &[], None, None));
    assert!(claimed.is_some());
}

#[test]
fn an_observed_call_follows_the_rules_that_were_given() {
    let place = Place::new();
    let client = place.open();
    let observe = |event: &str, more: Value, rules: Value| {
        let mut payload = json!({"session_id": "s1", "cwd": place.folder.path()});
        let more = more.as_object().unwrap().clone();
        payload.as_object_mut().unwrap().extend(more);
        let given =
            json!({"event": event, "program": "claude", "payload": payload, "rules": rules});
        call(&client, "hook.observe", &given)
    };
    let rules = json!({"once": ["Read"], "ignored": ["Bash"]});
    for tool in ["Read", "Bash", "Grep"] {
        let called = json!({"tool_name": tool, "tool_use_id": tool, "tool_input": {}});
        observe("before-tool", called, rules.clone()).unwrap();
    }
    let steps = call(&client, "step.list", &json!({"task": "claude/s1"})).unwrap();
    let [step] = steps["items"].as_array().unwrap().as_slice() else {
        panic!("{steps}")
    };
    assert_eq!(
        (&step["name"], &step["rule"]),
        (&json!("Read [Read]"), &json!("once")),
        "{steps}"
    );
    let unknown = observe("stop", json!({}), json!({"never": []})).unwrap_err();
    assert!(unknown.message.contains("never"), "{unknown}");
}

#[test]
fn a_request_that_would_be_stored_as_something_else_is_refused() {
    for text in [
        r#"{"id":"a","payload":{"n":100000000000000000000001}}"#,
        r#"{"id":"a","id":"b"}"#,
    ] {
        let refused = read_object(text).unwrap_err();
        assert_eq!(refused.code, ErrorCode::INVALID, "{text}");
    }
    assert_eq!(read_object(r#"{"n":0.5}"#).unwrap()["n"], 0.5);
}
