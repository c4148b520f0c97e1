//! Sessions through the command line and HTTP: the same answers and the same errors, also when the owner
//! of a turn is killed.

use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::front::{Answer, Front};
use crate::ground::until;

/// A process that can own a turn, until this is dropped.
pub(crate) struct Owner(Child);

impl Owner {
    #[expect(clippy::disallowed_methods, reason = "stands for a gateway")]
    pub(crate) fn spawn() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Without what differs from one run to the next.
pub(crate) fn plain(answer: Answer) -> Value {
    let mut value = answer.unwrap_or_else(|error| error);
    blank(&mut value);
    value
}

fn blank(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let is_own = name.ends_with("_at")
                    || name.ends_with("_until")
                    || ["since", "pid", "text", "message", "reason", "holder"]
                        .contains(&name.as_str());
                if is_own && !field.is_null() {
                    *field = json!("…");
                }
                blank(field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}

#[test]
fn a_turn_whose_owner_is_killed_is_found_at_once() {
    let mut told = Vec::new();
    for mut front in Front::all() {
        let mut call = |operation: &str, fields: Value| front.call(operation, &fields).map(plain);
        let (owner, other) = (Owner::spawn(), Owner::spawn());
        let begin = |pid: u32| json!({"session": "chat/1", "id": "c", "owner_pid": pid, "set": {"room": "7"}});
        let Some(begun) = call("session.begin", begin(owner.pid())) else {
            continue;
        };
        let mut answers = vec![begun];
        answers.extend(call("session.begin", begin(other.pid())));
        answers.extend(call("session.recover", json!({})));
        answers.extend(call("session.show", json!({"session": "chat/1"})));
        owner.kill();
        answers.extend(call(
            "session.recover",
            json!({"policy": "resume_pending", "dry_run": true}),
        ));
        answers.extend(call("session.recover", json!({"policy": "resume_pending"})));
        answers.extend(call("session.show", json!({"session": "chat/1"})));
        answers.extend(call("session.begin", begin(other.pid())));
        answers.extend(call(
            "session.end",
            json!({"session": "chat/1", "generation": 1}),
        ));
        answers.extend(call(
            "session.suspend",
            json!({"session": "chat/1", "reason": "later"}),
        ));
        answers.extend(call("session.resume", json!({"session": "chat/1"})));
        answers.extend(call("session.clear", json!({"session": "chat/1"})));
        answers.extend(call(
            "session.touch",
            json!({"session": "recover", "id": "d"}),
        ));
        answers.extend(call("session.show", json!({"session": "recover"})));
        answers.extend(call("session.begin", begin(other.pid())));
        answers.extend(call("session.shutdown", json!({"owner_pid": other.pid()})));
        answers.extend(call("session.list", json!({})));
        answers.extend(call("session.show", json!({"session": "nosuch"})));
        told.push((front.name(), answers));
    }
    assert!(told.len() >= 2, "{told:#?}");
    for pair in told.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    let answers = &told[0].1;
    assert_eq!(answers[1]["code"], "held");
    assert_eq!(answers[2]["items"], json!([]));
    let found = &answers[5]["items"][0];
    assert_eq!(
        (&found["key"], &found["state"]),
        (&json!("chat/1"), &json!("resume_pending"))
    );
    assert_eq!(
        (&answers[7]["resumed"], &answers[7]["context"]["room"]),
        (&json!(true), &json!("7"))
    );
    assert_eq!(answers[8]["code"], "fenced");
    assert_eq!(answers[15]["discarded"], json!(["chat/1"]));
}

#[test]
fn an_owner_that_is_not_there_is_refused() {
    for mut front in Front::all() {
        let owner = Owner::spawn();
        let pid = owner.pid();
        owner.kill();
        let begin = json!({"session": "s", "id": "c", "owner_pid": pid});
        let Some(refused) = front.call("session.begin", &begin) else {
            continue;
        };
        let error = refused.unwrap_err();
        assert_eq!(
            error["message"],
            format!("there is no process {pid}"),
            "{}",
            front.name()
        );
    }
}

#[test]
fn a_shutdown_discards_only_the_marks_of_its_owner() {
    for mut front in Front::all() {
        let owner = Owner::spawn();
        let begin = json!({"session": "c", "id": "c", "owner_pid": owner.pid()});
        let Some(begun) = front.call("session.begin", &begin) else {
            continue;
        };
        begun.unwrap();
        front
            .call("session.touch", &json!({"session": "seen", "id": "s"}))
            .unwrap()
            .unwrap();
        let shutdown = json!({"owner_pid": owner.pid()});
        let done = front.call("session.shutdown", &shutdown).unwrap().unwrap();
        assert_eq!(done["discarded"], json!(["c"]), "{}", front.name());
        let mut show = |key: &str| {
            front
                .call("session.show", &json!({"session": key}))
                .unwrap()
                .unwrap()
        };
        assert!(
            show("seen")["seen_at"].is_string(),
            "another gateway saw it"
        );
        let discarded = show("c");
        assert_eq!(
            (&discarded["state"], &discarded["finished"]),
            (&json!("idle"), &json!(0))
        );
        let again = front.call("session.begin", &begin).unwrap().unwrap();
        assert_eq!(
            (&again["generation"], &again["resumed"]),
            (&json!(2), &json!(false))
        );
    }
}

#[test]
fn the_mark_of_a_turn_is_renewed_by_its_generation() {
    for mut front in Front::all() {
        let begin = json!({"session": "c", "id": "c", "lease": "30s"});
        let Some(begun) = front.call("session.begin", &begin) else {
            continue;
        };
        begun.unwrap();
        let show = json!({"session": "c"});
        until("time that has passed", || {
            let left = front.call("session.show", &show).unwrap().unwrap();
            (left["owner"]["left_ms"].as_u64()? < 30_000).then_some(())
        });
        let renew = json!({"session": "c", "generation": 1});
        let renewed = front.call("session.touch", &renew).unwrap().unwrap();
        assert_eq!(renewed["owner"]["left_ms"], 30_000, "{}", front.name());
        let both = json!({"session": "c", "generation": 1, "id": "other"});
        assert_eq!(
            front.call("session.touch", &both).unwrap().unwrap_err()["code"],
            "invalid"
        );
        let late = json!({"session": "c", "generation": 7});
        assert_eq!(
            front.call("session.touch", &late).unwrap().unwrap_err()["code"],
            "fenced"
        );
    }
}

#[test]
fn a_new_conversation_keeps_the_context_of_its_session() {
    for mut front in Front::all() {
        let mut begin = |id: &str, set: Value| {
            front.call(
                "session.begin",
                &json!({"session": "c", "id": id, "set": set}),
            )
        };
        let Some(begun) = begin("one", json!({"room": "7", "topic": "a"})) else {
            continue;
        };
        begun.unwrap();
        let next = begin("two", json!({"topic": "b"})).unwrap().unwrap();
        assert_eq!(next["context"], json!({"room": "7", "topic": "b"}));
    }
}
