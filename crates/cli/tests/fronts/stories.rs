//! Work that goes well, is cut off, is blocked and waits: the same journal through every front.

use serde_json::{Value, json};

use crate::front::{Answer, Front};

/// Plays a story through every front; the answers of each front, none where it does not serve the call.
fn play(story: &[(&str, Value)]) -> Vec<(Front, Vec<Option<Answer>>)> {
    Front::all()
        .into_iter()
        .map(|mut front| {
            let answers = story
                .iter()
                .map(|(operation, fields)| front.call(operation, fields));
            let answers = answers.collect();
            (front, answers)
        })
        .collect()
}

/// All journals are the same; this is it.
fn one_journal(played: &[(Front, Vec<Option<Answer>>)]) -> Vec<String> {
    let journals: Vec<_> = played
        .iter()
        .map(|(front, _)| (front.name(), front.journal()))
        .collect();
    for pair in journals.windows(2) {
        let [(left, ours), (right, theirs)] = pair else {
            unreachable!()
        };
        assert_eq!(ours, theirs, "{left} and {right}");
    }
    journals[0].1.clone()
}

/// What all fronts answered to the call, where they answer at all: compared without the fields that are
/// the front's own.
fn one_answer(played: &[(Front, Vec<Option<Answer>>)], call: usize, fields: &[&str]) -> Value {
    let shown: Vec<_> = played
        .iter()
        .filter(|(front, _)| front.name() != "library")
        .filter_map(|(front, answers)| {
            let answer = answers[call]
                .as_ref()?
                .as_ref()
                .unwrap_or_else(|error| panic!("{error}"));
            let picked: Value = fields
                .iter()
                .map(|field| ((*field).to_owned(), answer[field].clone()))
                .collect();
            Some((front.name(), picked))
        })
        .collect();
    for pair in shown.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    shown[0].1.clone()
}

#[test]
fn a_task_goes_from_its_start_to_its_end() {
    let played = play(&[
        (
            "task.start",
            json!({"task": "t", "title": "Greet", "steps": ["a", "b", "c"]}),
        ),
        (
            "step.begin",
            json!({"task": "t", "step": "a", "fence": 1, "rule": "once"}),
        ),
        (
            "step.end",
            json!({"task": "t", "step": "a", "fence": 1, "output": "hello"}),
        ),
        (
            "step.begin",
            json!({"task": "t", "step": "b", "fence": 1, "rule": "verify"}),
        ),
        ("step.end", json!({"task": "t", "step": "b", "fence": 1})),
        (
            "step.skip",
            json!({"task": "t", "step": "c", "fence": 1, "reason": "not needed"}),
        ),
        ("task.done", json!({"task": "t", "fence": 1})),
    ]);
    let started = [
        "task",
        "fence",
        "resumed",
        "handed_over",
        "done_steps",
        "in_doubt",
        "next_step",
    ];
    assert_eq!(one_answer(&played, 0, &started)["next_step"], "a");
    assert_eq!(
        one_answer(&played, 1, &["advice", "idempotency_key"])["advice"],
        "go"
    );
    assert_eq!(
        one_answer(&played, 6, &["id", "status"])["status"],
        "completed"
    );
    insta::assert_snapshot!(one_journal(&played).join("\n"), @r#"
    task.created t - null {"title":"Greet","agent":null}
    lease.taken t - null {}
    task.status t - null {"from":"created","to":"in_progress","reason":null}
    step.begun t a 1 {}
    step.done t a 1 {"exit_code":0}
    step.begun t b 1 {}
    step.done t b 1 {"exit_code":0}
    step.skipped t c 1 {"reason":"not needed"}
    task.status t - 1 {"from":"in_progress","to":"completed","reason":null}
    lease.ended t - 1 {}
    "#);
}

#[test]
fn a_step_that_was_cut_off_is_treated_by_its_rule() {
    for rule in ["keyed", "repeatable", "verify", "once"] {
        let begin = json!({"task": "t", "step": "a", "fence": 1, "rule": rule});
        let played = play(&[
            ("task.start", json!({"task": "t"})),
            ("step.begin", begin.clone()),
            ("step.begin", begin),
            ("step.end", json!({"task": "t", "step": "a", "fence": 1})),
        ]);
        // The library writes the begin of a step that may be repeated together with its end, and asks
        // its own function of one that is to be verified.
        let compared = if rule == "once" {
            &played[..]
        } else {
            &played[..played.len() - 1]
        };
        let journal = one_journal(compared);
        let is_blocked = journal
            .iter()
            .any(|line| line.contains("\"to\":\"blocked\""));
        assert_eq!(is_blocked, rule == "once", "{rule}: {journal:#?}");
    }
}

#[test]
fn what_a_step_cost_is_committed_with_its_end() {
    let played = play(&[
        ("task.start", json!({"task": "t"})),
        ("step.begin", json!({"task": "t", "step": "a", "fence": 1})),
        (
            "step.end",
            json!({"task": "t", "step": "a", "fence": 1, "cost": "0.25", "turns": 2}),
        ),
    ]);
    for (front, _) in played.iter().filter(|(front, _)| front.name() != "library") {
        assert_eq!(
            front.ground().json(&["task", "show", "t"])["seq"],
            3,
            "{}",
            front.name()
        );
    }
}

#[test]
fn a_blocked_task_is_told_to_a_person() {
    let played = play(&[
        ("task.start", json!({"task": "t"})),
        (
            "task.block",
            json!({"task": "t", "fence": 1, "reason": "the key is missing"}),
        ),
    ]);
    let journal = one_journal(&played);
    assert!(
        journal.iter().any(|line| line.starts_with("alert")),
        "{journal:#?}"
    );
}

#[test]
fn work_that_comes_while_draining_waits() {
    let mut errors = Vec::new();
    for mut front in Front::all() {
        if front.name() == "library" {
            continue;
        }
        assert_eq!(front.ground().call(&["drain"]).code, 0);
        let refused = front
            .call("task.start", &json!({"task": "t"}))
            .unwrap()
            .unwrap_err();
        errors.push((
            refused["code"].clone(),
            refused["exit"].clone(),
            refused["status"].clone(),
        ));
        assert_eq!(
            front.ground().task_status("t"),
            "deferred",
            "{}",
            front.name()
        );
    }
    assert!(
        errors.windows(2).all(|pair| pair[0] == pair[1]),
        "{errors:#?}"
    );
}

/// Every field of the answer to the call, in every front that serves it.
fn whole_answer(played: &[(Front, Vec<Option<Answer>>)], call: usize) -> Value {
    let (_, answers) = &played[0];
    let first = answers[call].as_ref().unwrap().as_ref().unwrap();
    let fields: Vec<&str> = first
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    one_answer(played, call, &fields)
}

#[test]
fn step_verbs_answer_the_same_everywhere() {
    let played = play(&[
        (
            "task.start",
            json!({"task": "t", "steps": ["a", "b", "c", "d"]}),
        ),
        ("step.begin", json!({"task": "t", "step": "a", "fence": 1})),
        (
            "step.end",
            json!({"task": "t", "step": "a", "fence": 1, "output": "hello"}),
        ),
        ("step.end", json!({"task": "t", "step": "a", "fence": 1})),
        ("step.begin", json!({"task": "t", "step": "a", "fence": 1})),
        ("step.begin", json!({"task": "t", "step": "b", "fence": 1})),
        (
            "step.end",
            json!({"task": "t", "step": "b", "fence": 1, "failed": true}),
        ),
        (
            "step.skip",
            json!({"task": "t", "step": "c", "fence": 1, "reason": "not needed"}),
        ),
        (
            "step.begin",
            json!({"task": "t", "step": "d", "fence": 1, "rule": "once"}),
        ),
        (
            "step.begin",
            json!({"task": "t", "step": "d", "fence": 1, "rule": "once"}),
        ),
    ]);
    assert_eq!(whole_answer(&played, 1)["advice"], "go");
    let ended = whole_answer(&played, 2);
    assert_eq!(
        (&ended["outcome"], &ended["next_step"]),
        (&json!("done"), &json!("b"))
    );
    assert_eq!(whole_answer(&played, 3), ended);
    let finished = whole_answer(&played, 4);
    assert_eq!(
        (&finished["advice"], &finished["output"]),
        (&json!("finished"), &json!("hello"))
    );
    assert_eq!(whole_answer(&played, 6)["outcome"], "failed");
    assert_eq!(whole_answer(&played, 7)["outcome"], "skipped");
    assert_eq!(whole_answer(&played, 9)["advice"], "wait");
    let resolve = json!({"task": "t", "step": "d", "happened": true});
    let mut answers = Vec::new();
    for (mut front, _) in played
        .into_iter()
        .filter(|(front, _)| front.name() != "library")
    {
        let Some(answer) = front.call("step.resolve", &resolve) else {
            continue;
        };
        answers.push(answer.unwrap());
    }
    assert_eq!(answers[0]["status"], "assigned");
    assert!(
        answers.len() > 1 && answers.windows(2).all(|pair| pair[0] == pair[1]),
        "{answers:#?}"
    );
}

#[test]
fn verbs_of_a_task_answer_the_task_everywhere() {
    let fields = [
        "id", "status", "reason", "cost", "turns", "fence", "starts", "recovery",
    ];
    for (verb, given, status) in [
        ("task.set", json!({"set": {"branch": "fix"}}), "in_progress"),
        (
            "task.spend",
            json!({"cost": "0.25", "turns": 2}),
            "in_progress",
        ),
        ("task.review", json!({}), "in_review"),
        ("task.fail", json!({"reason": "broken"}), "failed"),
        (
            "task.defer",
            json!({"until": "30m", "reason": "later"}),
            "deferred",
        ),
        ("task.release", json!({}), "assigned"),
        ("task.cancel", json!({"reason": "enough"}), "cancelled"),
        ("task.retry", json!({"force": true}), "assigned"),
    ] {
        let mut request = given.clone();
        request["task"] = json!("t");
        request["fence"] = json!(1);
        let mut shown = Vec::new();
        let fronts = Front::all().into_iter().chain([Front::by_name()]);
        for mut front in fronts.filter(|front| !front.is_for_models()) {
            if front.name() == "library" {
                continue;
            }
            front
                .call("task.start", &json!({"task": "t"}))
                .unwrap()
                .unwrap();
            let answer = front.call(verb, &request).unwrap();
            let answer = answer.unwrap_or_else(|error| panic!("{verb} {}: {error}", front.name()));
            let mut picked: Vec<Value> = fields.map(|field| answer[field].clone()).into();
            // When it may be taken again is the clock's.
            for field in picked.iter_mut().filter(|field| field.is_object()) {
                field["not_before"] = Value::Null;
            }
            shown.push((picked, front.journal()));
            assert_eq!(
                answer["status"],
                status,
                "{verb} {}: {answer}",
                front.name()
            );
        }
        assert!(shown.len() >= 4, "{verb}");
        let are_alike = shown.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(are_alike, "{verb} {shown:#?}");
    }
}

/// Without what is the front's own: times, and who holds it.
fn bare(mut answer: Value) -> Value {
    for own in ["created_at", "updated_at", "holder", "expires_at"] {
        answer.as_object_mut().unwrap().remove(own);
    }
    answer
}

/// All fronts but the library answered this, and the same.
fn same_answer(played: &[(Front, Vec<Option<Answer>>)], call: usize) -> Value {
    let answers = played.iter().filter(|(front, _)| front.name() != "library");
    let mut shown: Vec<(&str, Value)> = answers
        .filter_map(|(front, answers)| {
            let answer = answers[call]
                .clone()?
                .unwrap_or_else(|error| panic!("{error}"));
            Some((front.name(), bare(answer)))
        })
        .collect();
    for pair in shown.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    shown.remove(0).1
}

#[test]
fn a_task_is_added_shown_and_listed_in_one_form() {
    let task = json!({"task": "t", "title": "Greet", "agent": "w", "steps": ["a"], "key": "k",
        "payload": {"n": 1}, "set": {"branch": "main"}, "priority": 3, "max_retries": 2});
    let other = json!({"task": "u", "key": "k"});
    let played = play(&[
        ("task.add", task.clone()),
        ("task.add", task),
        ("task.add", other),
        ("task.show", json!({"task": "t"})),
    ]);
    let added = same_answer(&played, 0);
    assert_eq!(
        (&added["outcome"], &added["status"]),
        (&json!("created"), &json!("assigned"))
    );
    assert_eq!(same_answer(&played, 1)["outcome"], "unchanged");
    let taken = same_answer(&played, 2);
    assert_eq!(
        (&taken["outcome"], &taken["id"]),
        (&json!("key_taken"), &json!("t"))
    );
    assert_eq!(same_answer(&played, 3)["payload"], json!({"n": 1}));
}

#[test]
fn a_started_task_answers_its_payload_through_every_front() {
    let mut played = Vec::new();
    for mut front in Front::all() {
        // Through the command line in the same home: every front finds the same task.
        let given = [
            "task",
            "add",
            "t",
            "--payload",
            "{\"n\":1}",
            "--step",
            "a",
            "--set",
            "k=v",
        ];
        assert_eq!(front.ground().call(&given).code, 0);
        let answers = vec![front.call("task.start", &json!({"task": "t"}))];
        played.push((front, answers));
    }
    let started = same_answer(&played, 0);
    assert_eq!(
        (&started["payload"], &started["fence"]),
        (&json!({"n": 1}), &json!(1))
    );
    assert_eq!(
        (&started["context"], &started["next_step"]),
        (&json!({"k": "v"}), &json!("a"))
    );
}

#[test]
fn a_claimed_task_that_another_agent_left_is_handed_over_in_every_front() {
    let played = play(&[
        ("task.add", json!({"task": "t"})),
        ("task.claim", json!({"agent": "a"})),
        ("step.begin", json!({"task": "t", "step": "s", "fence": 1})),
        (
            "task.fail",
            json!({"task": "t", "fence": 1, "reason": "boom"}),
        ),
        ("task.claim", json!({"agent": "b"})),
    ]);
    // The library and MCP do not serve all of these.
    let served: Vec<_> = played
        .into_iter()
        .filter(|(front, _)| ["cli", "http"].contains(&front.name()))
        .collect();
    assert_eq!(same_answer(&served, 1)["resumed"], false);
    let handed = same_answer(&served, 4);
    assert_eq!(
        (&handed["agent"], &handed["in_doubt"]),
        (&json!("b"), &json!(["s"]))
    );
    assert_eq!(handed["handed_over"]["from"], "a", "{handed}");
    one_journal(&served);
}
