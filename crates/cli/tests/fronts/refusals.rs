//! What is refused, is refused by every front in the same words.

use serde_json::{Value, json};

use crate::front::{Front, send, settle_hint};

/// A story whose last call is refused, and the code of that.
pub(crate) fn refused(story: &[(&str, Value)], code: &str) {
    let mut told: Vec<(&'static str, Value)> = Vec::new();
    for mut front in Front::all() {
        let mut last = None;
        for (operation, fields) in story {
            last = front.call(operation, fields);
        }
        let Some(answer) = last else { continue };
        let mut error = answer.expect_err("it is refused");
        if front.name() == "library" {
            // A handle shows its own fence, and types keep what cannot be from being said.
            if code != "fenced" {
                let words = |error: &Value| [error["code"].clone(), error["message"].clone()];
                assert_eq!(words(&error), words(&told[0].1), "library");
            }
            continue;
        }
        let (_, fields) = story.last().unwrap();
        error["message"] = json!(without_field(error["message"].as_str().unwrap(), fields));
        if error["code"] == "held" {
            error["message"] = json!(without_holder(error["message"].as_str().unwrap()));
        }
        if front.is_for_models() {
            settle_hint(&told[0].1, &mut error);
        }
        told.push((front.name(), error));
    }
    for pair in told.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    assert_eq!(told[0].1["code"], code, "{}", told[0].1);
}

/// A value that is not one is told with the name of its field or flag.
pub(crate) fn without_field<'m>(message: &'m str, fields: &Value) -> &'m str {
    let names = fields.as_object().unwrap().keys();
    let mut told = names.filter_map(|name| {
        let rest = message.strip_prefix(name.as_str())?;
        let of_number = || rest.strip_prefix(" is ")?.split_once("; ");
        rest.strip_prefix(": ").or_else(|| Some(of_number()?.1))
    });
    let of_flag = || message.strip_prefix("invalid value ")?.split_once(": ");
    told.next()
        .or_else(|| Some(of_flag()?.1))
        .unwrap_or(message)
}

/// Who holds it, and for how long, is the front's own.
fn without_holder(message: &str) -> String {
    let (task, held) = message.split_once(" has been held by ").expect(message);
    let (held, left) = match held.split_once("; its lease ends in ") {
        Some((held, left)) => (held, Some(left)),
        None => (held, None),
    };
    let (_, age) = held.rsplit_once(" for ").expect(message);
    for span in left.iter().chain([&age]) {
        let is_span = span
            .split(' ')
            .all(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        assert!(is_span, "{message}");
    }
    format!("{task} has been held by WHO for SPAN")
}

fn start(task: &str) -> (&'static str, Value) {
    ("task.start", json!({"task": task, "steps": ["a"]}))
}

#[test]
fn a_task_that_is_not_there() {
    refused(
        &[("task.done", json!({"task": "nosuch", "fence": 1}))],
        "not_found",
    );
}

#[test]
fn a_task_that_is_not_there_or_has_ended_without_a_fence() {
    refused(&[("task.done", json!({"task": "nosuch"}))], "not_found");
    let done = ("task.done", json!({"task": "t", "fence": 1, "force": true}));
    refused(
        &[start("t"), done, ("task.done", json!({"task": "t"}))],
        "ended",
    );
}

/// Also while nobody holds it, and whichever verb is tried: it stays with the agent that started it.
#[test]
fn a_task_that_another_agent_started_and_left() {
    let verbs = [
        ("task.start", json!({"task": "t"})),
        ("task.done", json!({"task": "t"})),
        ("task.fail", json!({"task": "t", "reason": "x"})),
        ("task.block", json!({"task": "t", "reason": "x"})),
        ("step.begin", json!({"task": "t", "step": "s"})),
        (
            "step.skip",
            json!({"task": "t", "step": "s", "reason": "x"}),
        ),
    ];
    for mut front in Front::all() {
        let ground = front.ground();
        let started = ground.call(&["task", "start", "t", "--agent", "a"]);
        assert_eq!(started.code, 0, "{started:?}");
        assert_eq!(ground.call(&["task", "release", "t", "--force"]).code, 0);
        for (verb, fields) in &verbs {
            let Some(answer) = front.call_as("b", verb, fields) else {
                continue;
            };
            let error = answer.expect_err("it is another agent's");
            assert_eq!(
                (&error["code"], &error["message"]),
                (
                    &json!("conflict"),
                    &json!("task t belongs to agent a, not to b")
                ),
                "{} {verb}",
                front.name()
            );
        }
        let shown = front.ground().json(&["task", "show", "t"]);
        assert_eq!(
            (&shown["status"], &shown["agent"], &shown["steps"]),
            (&json!("assigned"), &json!("a"), &json!([])),
            "{}",
            front.name()
        );
    }
}

#[test]
fn a_task_that_an_agent_starts_by_name_is_its_own() {
    for mut front in Front::all() {
        let Some(answer) = front.call_as("b", "task.start", &json!({"task": "t"})) else {
            continue;
        };
        assert!(answer.is_ok(), "{} {answer:?}", front.name());
        let shown = front.ground().json(&["task", "show", "t"]);
        assert_eq!(
            (&shown["agent"], &shown["pinned"]),
            (&json!("b"), &json!(true)),
            "{}",
            front.name()
        );
    }
}

#[test]
fn a_step_or_a_key_that_is_a_secret() {
    let secret = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    let step = format!("mail {secret}");
    let begin = ("step.begin", json!({"task": "t", "step": step, "fence": 1}));
    refused(&[start("t"), begin], "invalid");
    let skip = (
        "step.skip",
        json!({"task": "t", "step": step, "fence": 1, "reason": "x"}),
    );
    refused(&[start("t"), skip], "invalid");
    refused(
        &[("task.start", json!({"task": "t", "steps": [step]}))],
        "invalid",
    );
    refused(
        &[("task.add", json!({"task": "t", "key": secret}))],
        "invalid",
    );
    let workflow = json!({"workflow": "w", "agent": "ops", "step": step, "idempotency": "k"});
    refused(&[("checkpoint.start", workflow)], "invalid");
}

#[test]
fn a_payload_that_is_nested_too_deeply() {
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    refused(
        &[("task.add", json!({"task": "t", "payload": nested(61)}))],
        "invalid",
    );
    for mut front in Front::all() {
        let Some(added) = front.call("task.add", &json!({"task": "t", "payload": nested(60)}))
        else {
            continue;
        };
        assert!(added.is_ok(), "{}: {added:?}", front.name());
    }
}

#[test]
fn a_number_that_would_lose_digits() {
    let mut fronts = Front::all().into_iter();
    let (Some(cli), Some(http), Some(mcp)) = (fronts.next(), fronts.next(), fronts.next()) else {
        unreachable!()
    };
    let number = "{\"id\":123456789012345678901}";
    let ran = cli
        .ground()
        .call(&["task", "add", "t", "--payload", number, "--json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let body = format!("{{\"id\":\"t\",\"payload\":{number}}}");
    let (status, answer) = send(http.ground(), "POST", "/api/tasks", &body);
    assert_eq!(
        (status, &answer["error"]["exit"]),
        (400, &json!(2)),
        "{answer}"
    );
    let call =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{number}}}");
    assert_eq!(send(http.ground(), "POST", "/mcp", &call).0, 400);
    let Front::Mcp(_, mut client) = mcp else {
        unreachable!()
    };
    client.say_text(&call);
    assert_eq!(client.next()["error"]["code"], -32600);
    assert_eq!(
        cli.ground()
            .call(&["task", "add", "t", "--payload", "-5"])
            .code,
        0
    );
    assert_eq!(cli.ground().json(&["task", "show", "t"])["payload"], -5);
}

#[test]
fn an_integer_that_a_double_would_round_keeps_its_digits() {
    let payload = json!({"id": 9_007_199_254_740_993_u64, "least": i64::MIN, "most": u64::MAX});
    for mut front in Front::all() {
        let fields = json!({"task": "t", "payload": payload});
        let Some(added) = front.call("task.add", &fields) else {
            continue;
        };
        added.unwrap();
        let shown = front.call("task.show", &json!({"task": "t"}));
        let name = front.name();
        assert_eq!(shown.unwrap().unwrap()["payload"], payload, "{name}");
        let stored = front.ground().json(&["task", "show", "t"]);
        assert_eq!(stored["payload"], payload, "{name}");
    }
}

#[test]
fn a_fence_that_was_never_given_out() {
    refused(
        &[start("t"), ("task.done", json!({"task": "t", "fence": 7}))],
        "fenced",
    );
}

#[test]
fn a_task_with_open_steps() {
    refused(
        &[start("t"), ("task.done", json!({"task": "t", "fence": 1}))],
        "steps_left_open",
    );
}

/// Whoever held it last has lost it to nobody.
#[test]
fn the_last_holder_of_a_task_that_was_blocked() {
    let block = json!({"task": "t", "fence": 1, "reason": "no key"});
    let begin = json!({"task": "t", "step": "s", "fence": 1});
    let story = [start("t"), ("task.block", block), ("step.begin", begin)];
    refused(&story, "waits_for_person");
}

#[test]
fn a_step_that_was_not_begun() {
    refused(
        &[
            start("t"),
            ("step.end", json!({"task": "t", "step": "x", "fence": 1})),
        ],
        "conflict",
    );
}

#[test]
fn a_task_that_has_ended() {
    let done = ("task.done", json!({"task": "t", "fence": 1, "force": true}));
    refused(&[start("t"), done, start("t")], "ended");
    let cancel = ("task.cancel", json!({"task": "t"}));
    let retry = ("task.retry", json!({"task": "t"}));
    refused(&[start("t"), cancel, retry], "ended");
}

#[test]
fn a_task_that_waits_for_a_person() {
    let block = (
        "task.block",
        json!({"task": "t", "fence": 1, "reason": "x"}),
    );
    refused(&[start("t"), block, start("t")], "waits_for_person");
}

#[test]
fn work_on_a_task_that_waits_for_a_person_without_a_fence() {
    let block = (
        "task.block",
        json!({"task": "t", "fence": 1, "reason": "x"}),
    );
    for (operation, fields) in [
        ("step.begin", json!({"task": "t", "step": "a"})),
        ("task.done", json!({"task": "t"})),
        ("task.block", json!({"task": "t", "reason": "y"})),
    ] {
        let story = [start("t"), block.clone(), (operation, fields)];
        refused(&story, "waits_for_person");
    }
}

#[test]
fn a_task_that_somebody_else_holds() {
    let mut told = Vec::new();
    for mut front in Front::all() {
        let ground = front.ground();
        let started = ground.call(&["task", "start", "t", "--agent", "a", "--lease", "10m"]);
        assert_eq!(started.code, 0, "{started:?}");
        let Some(answer) = front.call("task.start", &json!({"task": "t"})) else {
            continue;
        };
        let message = answer.expect_err("it is held")["message"].clone();
        let message = message.as_str().unwrap();
        let left = message.split_once("; its lease ends in ").expect(message).1;
        assert!(left == "10m" || left.starts_with("9m "), "{message}");
        told.push((front.name(), without_holder(message)));
    }
    assert!(told.iter().all(|(_, text)| *text == told[0].1), "{told:?}");
}

/// The command line has flags, which its parser knows; the types of the library leave nothing unknown.
fn of_fields() -> impl Iterator<Item = Front> {
    let fronts = Front::all().into_iter().chain([Front::by_name()]);
    fronts.filter(|front| !["cli", "library"].contains(&front.name()))
}

#[test]
fn a_field_that_is_not_known() {
    for mut front in of_fields() {
        for (operation, fields, name, hint) in [
            (
                "task.start",
                json!({"task": "t", "titel": "x"}),
                "titel",
                "did you mean title?",
            ),
            (
                "task.done",
                json!({"task": "t", "xyz": 1}),
                "xyz",
                "known are ",
            ),
            (
                "task.claim",
                json!({"agent": "a", "xyz": 1}),
                "xyz",
                "known are agent, lease, ",
            ),
            ("task.add", json!({"task": "t", "lease": "1m"}), "lease", ""),
        ] {
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let error = answer.expect_err("the field is unknown");
            let front = front.name();
            assert_eq!(error["code"], "invalid", "{front} {error}");
            assert_eq!(
                error["message"],
                format!("unknown field {name:?}"),
                "{front} {operation}"
            );
            let told = error["hint"].as_str().unwrap();
            assert!(told.starts_with(hint), "{front} {operation}: {told}");
        }
    }
}

#[test]
fn a_number_that_cannot_be_is_told_by_its_field() {
    for mut front in of_fields() {
        for (operation, fields, message) in [
            (
                "task.start",
                json!({"task": "t", "max_retries": -1}),
                "max_retries is -1; write 0 to 4294967295",
            ),
            (
                "task.add",
                json!({"task": "t", "max_retries": "x"}),
                "max_retries: invalid type: string \"x\", expected a whole number from 0 to 4294967295",
            ),
            (
                "task.start",
                json!({"task": "t", "fence": -1}),
                "fence is -1; write 0 to 9223372036854775807",
            ),
            (
                "task.done",
                json!({"task": "t", "fence": -1}),
                "fence is -1; write 0 to 9223372036854775807",
            ),
            (
                "step.begin",
                json!({"task": "t", "step": "s", "fence": 1, "occurrence": 0}),
                "occurrence is 0; write 1 to 4294967295",
            ),
        ] {
            // What a task is, is not a model's to say.
            if front.is_for_models() && operation == "task.start" {
                continue;
            }
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let error = answer.expect_err("the number cannot be");
            assert_eq!(error["message"], message, "{} {operation}", front.name());
        }
    }
}

#[test]
fn a_claim_of_nobody() {
    refused(&[("task.claim", json!({}))], "invalid");
}

#[test]
fn a_policy_that_is_not_one() {
    refused(&[("session.recover", json!({"policy": "nope"}))], "invalid");
}

#[test]
fn a_generation_that_the_store_cannot_hold() {
    let end = json!({"session": "k", "generation": i64::MAX as u64 + 1});
    refused(&[("session.end", end)], "invalid");
}

#[test]
fn a_page_that_is_too_long() {
    for limit in [0, 1001] {
        for operation in ["task.list", "session.list"] {
            refused(&[(operation, json!({"limit": limit}))], "invalid");
        }
    }
}

#[test]
fn work_that_waits_for_a_person_is_neither_handed_in_nor_failed_over_http() {
    let mut front = Front::all()
        .into_iter()
        .find(|front| front.name() == "http")
        .unwrap();
    let block = (
        "task.block",
        json!({"task": "t", "fence": 1, "reason": "x"}),
    );
    for (operation, fields) in [start("t"), block] {
        front.call(operation, &fields).unwrap().unwrap();
    }
    for (verb, mut fields) in [
        ("task.fail", json!({"task": "t", "reason": "r"})),
        ("task.review", json!({"task": "t"})),
    ] {
        let error = front.call(verb, &fields).unwrap().unwrap_err();
        assert_eq!(error["code"], "waits_for_person", "{verb}");
        fields["force"] = json!(true);
        if verb == "task.review" {
            assert_eq!(
                front.call(verb, &fields).unwrap().unwrap()["status"],
                "in_review"
            );
        }
    }
}

#[test]
fn a_name_that_cannot_be() {
    refused(&[start("a b")], "invalid");
}

#[test]
fn a_rule_that_is_not_one() {
    let begin = (
        "step.begin",
        json!({"task": "t", "step": "a", "fence": 1, "rule": "sometimes"}),
    );
    refused(&[start("t"), begin], "invalid");
}

#[test]
fn an_empty_reason() {
    for verb in ["task.fail", "task.block"] {
        refused(
            &[
                start("t"),
                (verb, json!({"task": "t", "fence": 1, "reason": " "})),
            ],
            "invalid",
        );
    }
    let skip = json!({"task": "t", "step": "a", "fence": 1, "reason": ""});
    refused(&[start("t"), ("step.skip", skip)], "invalid");
}

#[test]
fn a_cost_or_a_number_of_turns_that_cannot_be() {
    let begin = ("step.begin", json!({"task": "t", "step": "a", "fence": 1}));
    for (field, value) in [
        ("cost", json!("1e3")),
        ("cost", json!("0.")),
        ("cost", json!("9300000000000.5")),
        ("turns", json!(i64::MAX as u64 + 1)),
    ] {
        let mut end = json!({"task": "t", "step": "a", "fence": 1});
        end[field] = value.clone();
        refused(&[start("t"), begin.clone(), ("step.end", end)], "invalid");
        let mut spend = json!({"task": "t", "fence": 1});
        spend[field] = value;
        refused(&[start("t"), ("task.spend", spend)], "invalid");
    }
}

#[test]
fn a_fence_that_is_not_the_newest_on_a_persons_verb() {
    let release = ("task.release", json!({"task": "t", "force": true}));
    for verb in ["cancel", "retry", "release"] {
        let mut front = Front::all()
            .into_iter()
            .find(|front| front.name() == "http")
            .unwrap();
        for (operation, fields) in [start("t"), release.clone(), start("t")] {
            front.call(operation, &fields).unwrap().unwrap();
        }
        let fields = json!({"task": "t", "fence": 1, "force": true});
        let fields = if verb == "cancel" {
            json!({"task": "t", "fence": 1})
        } else {
            fields
        };
        let error = front
            .call(&format!("task.{verb}"), &fields)
            .unwrap()
            .unwrap_err();
        assert_eq!(error["code"], "fenced", "{verb}: {error}");
        assert_eq!(front.ground().task_status("t"), "in_progress", "{verb}");
    }
}

#[test]
fn a_text_that_is_empty_is_not_left_out() {
    let begin = (
        "step.begin",
        json!({"task": "t", "step": "a", "fence": 1, "rule": ""}),
    );
    refused(&[start("t"), begin], "invalid");
    refused(&[start("")], "invalid");
}

#[test]
fn a_task_that_cannot_be_added() {
    let add = |field: &str, value: Value| {
        let mut fields = json!({"task": "t"});
        fields[field] = value;
        ("task.add", fields)
    };
    refused(&[add("strategy", json!("exec"))], "invalid");
    refused(&[add("ttl", json!("soon"))], "invalid");
    refused(&[add("agent", json!("a b"))], "invalid");
    refused(&[add("steps", json!(["a\nb"]))], "invalid");
    refused(
        &[add("title", json!("a")), add("title", json!("b"))],
        "conflict",
    );
    let done = ("task.done", json!({"task": "t", "fence": 1, "force": true}));
    refused(&[start("t"), done, add("steps", json!(["a"]))], "ended");
}
