//! `recover` decides leases and sessions, through every front that serves it.

use serde_json::{Value, json};

use crate::front::Front;
use crate::sessions::{Owner, plain};

#[test]
fn recover_decides_tasks_and_sessions_of_dead_owners() {
    let mut told: Vec<(&str, Vec<Value>)> = Vec::new();
    for mut front in Front::all() {
        if front.is_for_models() || front.name() == "library" {
            continue;
        }
        let owner = Owner::spawn();
        let pid = owner.pid().to_string();
        let ground = front.ground();
        ground.json(&["task", "start", "t", "--owner-pid", &pid]);
        ground.json(&["session", "begin", "chat", "--id", "c", "--owner-pid", &pid]);
        owner.kill();
        let answers = [json!({"dry_run": true}), json!({})]
            .map(|fields| plain(front.call("recover", &fields).unwrap()));
        let ground = front.ground();
        assert_eq!(ground.task_status("t"), "interrupted", "{}", front.name());
        assert_eq!(
            ground.json(&["session", "show", "chat"])["state"],
            "suspended"
        );
        told.push((front.name(), answers.into()));
    }
    let (cli, others) = told.split_first().unwrap();
    assert!(others.len() >= 2, "{told:#?}");
    for (name, answers) in others {
        for (ours, theirs) in cli.1.iter().zip(answers) {
            let names = |answer: &Value| {
                answer
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(ours), names(theirs), "{name}");
            assert_eq!(ours["sessions"], theirs["sessions"], "{name}");
            // A daemon may have found the task before it was asked; sessions are left to whoever asks.
            if *name != "http" {
                assert_eq!(ours["findings"], theirs["findings"], "{name}");
                let task = |answer: &Value, what: &str| answer[what][0]["task"].clone();
                assert_eq!(task(ours, "waiting"), task(theirs, "waiting"), "{name}");
                assert_eq!(task(ours, "recovered"), task(theirs, "recovered"), "{name}");
            }
        }
    }
    assert_eq!(cli.1[0]["sessions"][0]["key"], "chat");
    assert_eq!(cli.1[1]["sessions"][0]["state"], "suspended");
    assert_eq!(cli.1[1]["recovered"][0]["task"], "t");
}
