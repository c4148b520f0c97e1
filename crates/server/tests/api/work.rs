//! Tasks, steps and sessions over HTTP.

use std::time::Duration;

use relight_core::alert::Alert;
use relight_core::decide::{Right, StartLimits, TaskEvent};
use relight_core::event::EventKind;
use relight_core::ids::{StepName, TaskId, in_path};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::step::{RepeatRule, StepKey};
use relight_core::task::NewTask;
use relight_runtime::engine::{ActError, TaskSnapshot};
use relight_runtime::os::process;
use relight_runtime::running_step::RunningStep;
use serde_json::{Value, json};

use crate::ground::{Ground, block_on, now};

/// Starts a task; its fence.
fn started(ground: &Ground, id: &str) -> u64 {
    let answer = ground
        .post(&format!("/api/tasks/{id}/start"), &json!({"agent": "a"}))
        .ok();
    answer["fence"].as_u64().unwrap()
}

#[test]
fn a_task_is_added_once() {
    let ground = Ground::new();
    let task =
        json!({"id": "org/repo", "title": "t", "steps": ["a", "b"], "key": "k", "set": {"x": "y"}});
    assert_eq!(ground.post("/api/tasks", &task).status, 201);
    assert_eq!(ground.post("/api/tasks", &task).status, 200);
    let differs = ground.post("/api/tasks", &json!({"id": "org/repo", "title": "other"}));
    assert_eq!((differs.status, differs.code().as_str()), (409, "conflict"));
    let same_key = ground.post("/api/tasks", &json!({"id": "another", "key": "k"}));
    assert_eq!(
        (same_key.status, same_key.json()["id"].as_str()),
        (200, Some("org/repo"))
    );
    let shown = ground.get("/api/tasks/org%2Frepo").ok();
    assert_eq!(
        (&shown["next_step"], &shown["context"]),
        (&json!("a"), &json!({"x": "y"}))
    );
    for bad in [
        json!({}),
        json!({"id": "../x"}),
        json!({"id": "a", "odd": 1}),
        json!({"id": 7}),
    ] {
        assert_eq!(ground.post("/api/tasks", &bad).status, 422, "{bad}");
    }
    assert_eq!(
        ground
            .post("/api/tasks", &json!({"id": "a", "strategy": "odd"}))
            .status,
        422
    );
}

#[test]
fn a_step_is_done_once_and_its_output_is_kept() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let step = |verb: &str, body: Value| {
        ground.post(&format!("/api/tasks/t/steps/build%20it/{verb}"), &body)
    };
    let begun = step("begin", json!({"fence": fence})).ok();
    assert_eq!(begun["advice"], "go");
    assert_eq!(
        step("begin", json!({"fence": fence})).ok()["advice"],
        "again"
    );
    let end = json!({"fence": fence, "output": "made\n", "cost": "0.25", "turns": 3});
    assert_eq!(step("end", end.clone()).status, 200);
    assert_eq!(step("end", end).status, 200);
    let finished = step("begin", json!({"fence": fence})).ok();
    assert_eq!(
        (&finished["advice"], &finished["output"]),
        (&json!("finished"), &json!("made\n"))
    );
    assert_eq!(finished["idempotency_key"], begun["idempotency_key"]);
    let task = ground
        .post("/api/tasks/t/done", &json!({"fence": fence}))
        .ok();
    assert_eq!(
        (&task["status"], &task["steps_done"]),
        (&json!("completed"), &json!(1))
    );
    assert_eq!((&task["cost"], &task["turns"]), (&json!("0.25"), &json!(3)));
}

#[test]
fn a_list_asked_for_by_name_has_the_limits_of_its_route() {
    let ground = Ground::new();
    for (name, path) in [
        ("task.list", "/api/tasks"),
        ("agent.list", "/api/agents"),
        ("session.list", "/api/sessions"),
        ("events", "/api/events"),
    ] {
        for (limit, status) in [(0, 422), (1, 200), (1_000, 200), (1_001, 422), (5_000, 422)] {
            let by_name = format!("/api/operations/{name}");
            let by_name = ground.post(&by_name, &json!({"limit": limit}));
            let by_route = ground.get(&format!("{path}?limit={limit}"));
            let statuses = (by_name.status, by_route.status);
            assert_eq!(statuses, (status, status), "{name} {limit}");
            assert_eq!(
                by_name.json()["error"],
                by_route.json()["error"],
                "{name} {limit}"
            );
        }
    }
}

#[test]
fn what_no_task_can_contain_is_not_looked_for() {
    let ground = Ground::new();
    ground.post("/api/tasks", &json!({"id": "t"}));
    for find in ["%00", "t%00"] {
        let refused = ground.get(&format!("/api/tasks?find={find}"));
        let told = (refused.status, refused.code());
        assert_eq!(told, (422, "invalid".to_owned()), "{find}");
    }
}

#[test]
fn an_operation_that_is_not_there_is_404() {
    let ground = Ground::new();
    let refused = ground.post("/api/operations/task.lst", &json!({}));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (404, "not_found")
    );
    let error = refused.json()["error"].clone();
    assert_eq!(error["hint"], "did you mean task.list?", "{error}");
}

#[test]
fn a_late_writer_is_fenced() {
    let ground = Ground::new();
    let old = started(&ground, "t");
    ground
        .post("/api/tasks/t/release", &json!({"force": true}))
        .ok();
    let new = started(&ground, "t");
    assert!(new > old);
    for (path, body) in [
        ("/api/tasks/t/done", json!({"fence": old})),
        ("/api/tasks/t/start", json!({"fence": old})),
        ("/api/tasks/t/steps/a/begin", json!({"fence": old})),
        ("/api/tasks/t/fail", json!({"fence": old, "reason": "late"})),
    ] {
        let answer = ground.post(path, &body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "fenced"),
            "{path}"
        );
    }
    let held = ground.post("/api/tasks/t/start", &json!({}));
    assert_eq!((held.status, held.code().as_str()), (409, "held"));
    let continued = ground
        .post("/api/tasks/t/start", &json!({"fence": new}))
        .ok();
    assert_eq!(
        (&continued["fence"], &continued["resumed"]),
        (&json!(new), &json!(true))
    );
}

#[test]
fn verbs_say_what_they_lack_and_what_is_not_allowed() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let verb = |verb: &str, body: Value| ground.post(&format!("/api/tasks/t/{verb}"), &body);
    assert_eq!(verb("block", json!({})).status, 422);
    assert_eq!(verb("fail", json!({"reason": " "})).status, 422);
    assert_eq!(verb("defer", json!({})).status, 422);
    assert_eq!(verb("defer", json!({"until": "never"})).status, 422);
    assert_eq!(
        verb("block", json!({"fence": fence, "reason": "needs a key"})).ok()["status"],
        "blocked"
    );
    let needs = ground.get("/api/stats").ok()["needs_me"][0].clone();
    assert_eq!(
        (&needs["kind"], &needs["subject"]),
        (&json!("blocked"), &json!("task/t"))
    );
    assert_eq!(
        verb("cancel", json!({"reason": "enough"})).ok()["status"],
        "cancelled"
    );
    let ended = verb("retry", json!({}));
    assert_eq!((ended.status, ended.code().as_str()), (409, "ended"));
    assert_eq!(ground.post("/api/tasks/none/done", &json!({})).status, 404);
}

#[test]
fn a_step_in_doubt_waits_for_a_person() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let step =
        |verb: &str, body: Value| ground.post(&format!("/api/tasks/t/steps/pay/{verb}"), &body);
    let once = json!({"fence": fence, "rule": "once"});
    let stats = || ground.get("/api/stats").ok();
    assert_eq!(step("begin", once.clone()).ok()["advice"], "go");
    assert_eq!(stats()["in_doubt"], 0, "it is under way");
    assert_eq!(step("begin", once).ok()["advice"], "wait");
    assert_eq!(
        ground.get("/api/tasks?in_doubt=true").ok()["items"][0]["id"],
        "t"
    );
    assert_eq!(
        (&stats()["in_doubt"], &stats()["needs_me_total"]),
        (&json!(1), &json!(1))
    );
    let need = stats()["needs_me"][0].clone();
    assert_eq!(need["kind"], "in_doubt");
    let command = "relight step resolve pay --task t";
    assert_eq!(
        need["hint"],
        format!("{command} --happened, or {command} --did-not")
    );
    assert_eq!(step("resolve", json!({})).status, 422);
    assert_eq!(step("resolve", json!({"happened": true})).status, 200);
    assert_eq!(step("begin", json!({})).ok()["advice"], "finished");
    assert_eq!(step("begin", json!({"occurrence": 0})).status, 422);
    assert_eq!(step("begin", json!({"rule": "twice"})).status, 422);
}

#[test]
fn what_needs_a_person_is_capped_and_counted() {
    let ground = Ground::new();
    for number in 0..105 {
        let task = json!({"id": format!("t{number}"), "max_retries": 0});
        assert_eq!(ground.post("/api/tasks", &task).status, 201);
        let verb = if number % 2 == 0 { "fail" } else { "block" };
        let reason = json!({"reason": "no key"});
        assert_eq!(
            ground
                .post(&format!("/api/tasks/t{number}/{verb}"), &reason)
                .status,
            200
        );
    }
    let stats = ground.get("/api/stats").ok();
    assert_eq!(stats["needs_me"].as_array().unwrap().len(), 100);
    assert_eq!(stats["needs_me_total"], 105);
    assert_eq!(stats["needs_me"][0]["subject"], "task/t104");
    assert_eq!(stats["needs_me"][0]["kind"], "given_up");
}

/// A task of which a step took its supervisor down too often.
fn park(ground: &Ground, id: &str) {
    let id = TaskId::new(id).unwrap();
    let plan = |_: &TaskSnapshot| -> Result<Vec<TaskEvent>, ActError> {
        let alert = Alert::task_parked(&id, "it died too often").detail();
        let reason = "it died too often".to_owned();
        Ok(vec![
            TaskEvent::Note(EventKind::Alert, alert),
            TaskEvent::Block {
                reason,
                is_told: true,
            },
        ])
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(ground.engine.act_in_turn(&id, Right::Unfenced, plan))
        .unwrap();
}

#[test]
fn a_parked_task_is_told_apart_from_one_that_a_person_blocked() {
    let ground = Ground::new();
    let need = || ground.get("/api/stats").ok()["needs_me"][0].clone();
    assert_eq!(ground.post("/api/tasks", &json!({"id": "t"})).status, 201);
    park(&ground, "t");
    assert_eq!(need()["kind"], "parked");
    assert_eq!(
        need()["hint"],
        "relight task show t, then relight recover t --resume"
    );
    assert_eq!(
        ground
            .post("/api/tasks/t/start", &json!({"force": true}))
            .status,
        200
    );
    assert_eq!(
        ground
            .post("/api/tasks/t/block", &json!({"reason": "no key"}))
            .status,
        200
    );
    assert_eq!(
        need()["kind"],
        "blocked",
        "the alert was about an earlier time"
    );
}

#[test]
fn a_claim_waits_for_work() {
    let ground = Ground::new();
    assert_eq!(
        ground
            .post("/api/tasks/claim", &json!({"agent": "a"}))
            .status,
        204
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            ground
                .post("/api/tasks/claim", &json!({"agent": "a", "wait": "20s"}))
                .ok()
        });
        ground.post("/api/tasks", &json!({"id": "fresh"}));
        let claimed = waiting.join().unwrap();
        assert_eq!(
            (&claimed["task"], &claimed["resumed"]),
            (&json!("fresh"), &json!(false))
        );
    });
    assert_eq!(
        ground
            .post("/api/tasks/claim", &json!({"agent": "a", "wait": "soon"}))
            .status,
        422
    );
}

#[test]
fn the_same_key_gets_the_same_answer_and_does_nothing_again() {
    let ground = Ground::new();
    let send = |key: &str, id: &str| {
        let ask = ground.ask("POST", "/api/tasks").token(&ground.token);
        ask.header("Idempotency-Key", key)
            .json(&json!({"id": id}))
            .send()
    };
    let (first, again) = (send("k", "a"), send("k", "a"));
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.text, again.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(send("k", "b").status, 422);
    assert_eq!(ground.get("/api/tasks/b").status, 404);
    assert_eq!(send("other", "b").status, 201);
    assert_eq!(send(&"x".repeat(201), "c").status, 422);
}

#[test]
fn the_owner_of_a_turn_is_a_short_text_that_can_be_read() {
    let ground = Ground::new();
    let begin = |owner: &str| {
        ground.post(
            "/api/sessions/chat/begin",
            &json!({"id": "s1", "owner": owner}),
        )
    };
    for bad in [
        "",
        " ",
        "a\nb",
        "\u{1b}[2J",
        "a\u{202e}b",
        &"x".repeat(900_000),
    ] {
        let refused = begin(bad);
        assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    }
    assert_eq!(ground.get("/api/sessions").ok()["items"], json!([]));
    begin("gateway 7").ok();
}

#[test]
fn a_secret_in_the_owner_of_a_turn_is_marked() {
    let ground = Ground::new();
    let secret = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    let owner = format!("gateway {secret}");
    ground
        .post(
            "/api/sessions/chat/begin",
            &json!({"id": "s1", "owner": owner}),
        )
        .ok();
    let session = ground.get("/api/sessions/chat").ok().to_string();
    assert!(
        session.contains("gateway [redacted:") && !session.contains(secret),
        "{session}"
    );
    let events = ground.get("/api/events").ok().to_string();
    assert!(
        events.contains("session.begun") && !events.contains(secret),
        "{events}"
    );
}

#[test]
fn a_turn_is_begun_and_only_its_own_generation_ends_it() {
    let ground = Ground::new();
    let act =
        |verb: &str, body: Value| ground.post(&format!("/api/sessions/chat%2F1/{verb}"), &body);
    let first = act("begin", json!({"id": "s1"})).ok()["generation"]
        .as_u64()
        .unwrap();
    let busy = act("begin", json!({"id": "s1", "owner": "another gateway"}));
    assert_eq!((busy.status, busy.code().as_str()), (409, "held"));
    assert_eq!(act("end", json!({"generation": first})).status, 200);
    let second = act("begin", json!({"id": "s1"})).ok()["generation"]
        .as_u64()
        .unwrap();
    let late = act("end", json!({"generation": first}));
    assert_eq!(
        (second, late.status, late.code().as_str()),
        (first + 1, 409, "fenced")
    );
    assert_eq!(
        act("suspend", json!({"reason": "later"})).ok()["state"],
        "suspended"
    );
    assert_eq!(
        ground.get("/api/sessions?state=suspended").ok()["items"][0]["reason"],
        "later"
    );
    assert_eq!(act("resume", json!({})).status, 200);
    assert_eq!(
        ground.post("/api/sessions/none/resume", &json!({})).status,
        404
    );
    assert_eq!(act("begin", json!({})).status, 422);
}

#[test]
fn a_session_may_have_any_key_without_control_characters() {
    let ground = Ground::new();
    for key in [
        "agent:main:signal:dm:+15551234567",
        "!room:server.org",
        "部屋 🚀 #1",
        "a?b%2F&c",
    ] {
        let act = |verb: &str, body: Value| {
            ground.post(&format!("/api/sessions/{}/{verb}", in_path(key)), &body)
        };
        let generation = act("begin", json!({"id": "chat 1"})).ok()["generation"].clone();
        assert_eq!(
            act("end", json!({"generation": generation})).status,
            200,
            "{key}"
        );
        assert_eq!(act("suspend", json!({})).ok()["key"], key);
        assert_eq!(act("resume", json!({})).status, 200, "{key}");
    }
    assert_eq!(
        ground.get("/api/sessions").ok()["items"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    assert_eq!(
        ground
            .post("/api/sessions/a%0Ab/begin", &json!({"id": "c"}))
            .status,
        422
    );
    assert_eq!(ground.post("/api/tasks", &json!({"id": "a b"})).status, 422);
    assert_eq!(
        ground
            .post("/api/tasks", &json!({"id": "t", "agent": "a b"}))
            .status,
        422
    );
}

#[test]
fn hostile_texts_come_back_as_they_went_and_run_nowhere() {
    let ground = Ground::new();
    for (at, text) in ["<script>alert(1)</script>", "$(id); `id`", "-rf /", "a\nb"]
        .iter()
        .enumerate()
    {
        let id = format!("t{at}");
        let made = ground.post("/api/tasks", &json!({"id": id, "title": text}));
        assert_eq!(made.status, 201);
        let shown = ground.get(&format!("/api/tasks/{id}"));
        assert_eq!(shown.json()["title"], json!(text));
        assert_eq!(shown.header("content-type"), Some("application/json"));
    }
}

#[test]
fn a_daemon_that_ends_lets_no_claim_hang() {
    let mut ground = Ground::new();
    let body = json!({"agent": "a", "wait": "60s"});
    let mut waiting = ground
        .ask("POST", "/api/tasks/claim")
        .token(&ground.token)
        .json(&body)
        .open();
    // Answered after the claim was taken in, for it came later on a connection of its own.
    assert_eq!(ground.get("/api/health").status, 200);
    let begun = now();
    ground.stop();
    let mut rest = String::new();
    let _ = std::io::Read::read_to_string(&mut waiting, &mut rest);
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_task_is_not_done_over_open_steps_and_a_skip_closes_one() {
    let ground = Ground::new();
    let start = json!({"agent": "a", "steps": ["build", "push"]});
    let fence = ground.post("/api/tasks/t/start", &start).ok()["fence"].clone();
    let done = |force: bool| {
        ground.post(
            "/api/tasks/t/done",
            &json!({"fence": fence, "force": force}),
        )
    };
    let refused = done(false);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "steps_left_open")
    );
    let message = refused.json()["error"]["message"].clone();
    assert!(
        message.as_str().unwrap().ends_with("build, push"),
        "{message}"
    );
    let skip = |body: Value| ground.post("/api/tasks/t/steps/build/skip", &body);
    assert_eq!(skip(json!({"fence": fence})).status, 422);
    assert_eq!(skip(json!({"fence": fence, "reason": " "})).status, 422);
    assert_eq!(skip(json!({"fence": 9, "reason": "no"})).code(), "fenced");
    let skipped = skip(json!({"fence": fence, "reason": "no"})).ok();
    assert_eq!(
        (&skipped["outcome"], &skipped["next_step"]),
        (&json!("skipped"), &json!("push"))
    );
    let listed = ground.get("/api/tasks").ok()["items"][0].clone();
    assert_eq!(
        (&listed["steps_declared_done"], &listed["steps_declared"]),
        (&json!(1), &json!(["build", "push"]))
    );
    let shown = ground.get("/api/tasks/t").ok();
    assert_eq!(shown["steps_declared_done"], 1);
    assert_eq!(
        (&shown["skipped_steps"], &shown["next_step"]),
        (&json!(["build"]), &json!("push"))
    );
    assert_eq!(done(false).code(), "steps_left_open");
    assert_eq!(done(true).ok()["reason"], "steps left open: push");
}

#[test]
fn a_start_keeps_to_the_limits_and_a_retry_leaves_live_holders_alone() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let retry = |force: bool| ground.post("/api/tasks/t/retry", &json!({"force": force}));
    assert_eq!(retry(false).code(), "held");
    let block = json!({"fence": fence, "reason": "why"});
    ground.post("/api/tasks/t/block", &block).ok();
    let start = |force: bool| ground.post("/api/tasks/t/start", &json!({"force": force}));
    let refused = start(false);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "waits_for_person")
    );
    start(true).ok();
    retry(true).ok();
    assert_eq!(ground.get("/api/tasks/t").ok()["status"], "assigned");
}

#[test]
fn a_task_that_has_ended_is_not_added_again_and_0s_is_no_lifetime() {
    let ground = Ground::new();
    let task = json!({"id": "t", "ttl": "0s"});
    assert_eq!(
        ground.post("/api/tasks", &task).json()["expires_at"],
        json!(null)
    );
    ground.post("/api/tasks/t/cancel", &json!({})).ok();
    let again = ground.post("/api/tasks", &task);
    assert_eq!((again.status, again.code().as_str()), (409, "ended"));
}

#[test]
fn the_step_of_a_live_holder_is_refused_to_who_shows_no_fence() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let step =
        |verb: &str, body: Value| ground.post(&format!("/api/tasks/t/steps/pay/{verb}"), &body);
    assert_eq!(
        step("begin", json!({"fence": fence, "rule": "once"})).ok()["advice"],
        "go"
    );
    for verb in ["begin", "end"] {
        let refused = step(verb, json!({}));
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "held"),
            "{verb}"
        );
    }
    assert_eq!(ground.get("/api/tasks/t").ok()["status"], "in_progress");
    assert_eq!(step("end", json!({"fence": fence})).status, 200);
}

#[test]
fn the_end_of_a_step_and_its_cost_are_one_commit() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let id = TaskId::new("t").unwrap();
    let seq = || block_on(ground.engine.task(&id)).unwrap().seq;
    ground
        .post("/api/tasks/t/steps/a/begin", &json!({"fence": fence}))
        .ok();
    let before = seq();
    let end = json!({"fence": fence, "cost": "0.25", "turns": 3});
    assert_eq!(ground.post("/api/tasks/t/steps/a/end", &end).status, 200);
    assert_eq!(seq(), before + 1);
}

#[test]
fn a_step_that_an_orphan_still_runs_keeps_its_task_from_being_started() {
    let ground = Ground::new();
    let gone = ProcessIdentity {
        pid: 1,
        start: 1,
        boot: process::boot_id(),
        node: None,
    };
    let (id, key) = (
        TaskId::new("t").unwrap(),
        StepKey::first(StepName::new("a").unwrap()),
    );
    block_on(async {
        let (new, holder) = (NewTask::bare(id.clone()), Holder::Process(gone));
        let limits = StartLimits::OwnBudget;
        let started = ground
            .engine
            .start(new, Right::Unfenced, holder, None, limits)
            .await;
        let right = Right::Fence(started.unwrap().fence);
        let (key, rule) = (key.clone(), RepeatRule::Keyed);
        let begin = TaskEvent::StepBegin {
            key,
            rule,
            fingerprint: None,
        };
        ground.engine.act(&id, right, begin).await.unwrap();
    });
    let running = RunningStep::take(ground.home.path(), &id, &key).unwrap();
    let refused = ground.post("/api/tasks/t/start", &json!({}));
    assert_eq!((refused.status, refused.code().as_str()), (409, "held"));
    drop(running);
    assert_eq!(
        ground.post("/api/tasks/t/start", &json!({})).ok()["fence"],
        2
    );
}

#[test]
fn a_refusal_has_the_same_fields_as_on_the_command_line() {
    let ground = Ground::new();
    started(&ground, "t");
    let error = |answer: Value| {
        let error = &answer["error"];
        (
            error["code"].clone(),
            error["exit"].clone(),
            error["status"].clone(),
        )
    };
    let refused = |path: &str, body: Value| error(ground.post(path, &body).json());
    for (path, body, code, exit, status) in [
        ("/api/tasks/t/start", json!({"agent": "a"}), "held", 75, 409),
        ("/api/tasks/t/done", json!({"fence": 9}), "fenced", 77, 409),
        ("/api/tasks/none/done", json!({}), "not_found", 1, 404),
        ("/api/tasks", json!({"id": "../x"}), "invalid", 2, 422),
    ] {
        assert_eq!(
            refused(path, body),
            (json!(code), json!(exit), json!(status)),
            "{path}"
        );
    }
}

#[test]
fn a_task_that_is_started_while_draining_is_added_and_deferred() {
    let ground = Ground::new();
    let fence = started(&ground, "held");
    ground.post("/api/tasks", &json!({"id": "free"})).ok();
    block_on(relight_runtime::drain::begin(
        ground.engine.store().as_ref(),
    ))
    .unwrap();
    let refused = ground.post("/api/tasks/t/start", &json!({"agent": "a"}));
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    assert_eq!(ground.get("/api/tasks/t").ok()["status"], "deferred");
    let begun = ground.post("/api/tasks/free/steps/s/begin", &json!({}));
    assert_eq!((begun.status, begun.code().as_str()), (503, "draining"));
    // Whoever holds a task continues.
    ground
        .post("/api/tasks/held/start", &json!({"fence": fence}))
        .ok();
    ground
        .post("/api/tasks/held/steps/s/begin", &json!({"fence": fence}))
        .ok();
    block_on(relight_runtime::drain::cancel(
        ground.engine.store().as_ref(),
    ))
    .unwrap();
    ground
        .post("/api/tasks/t/start", &json!({"agent": "a"}))
        .ok();
}

#[test]
fn a_step_is_shown_with_what_it_wrote() {
    let ground = Ground::new();
    let fence = started(&ground, "org%2Frepo");
    let step = |name: &str, verb: &str, body: &Value| {
        ground
            .post(&format!("/api/tasks/org%2Frepo/steps/{name}/{verb}"), body)
            .ok()
    };
    step("fetch", "begin", &json!({"fence": fence}));
    let shown = ground.get("/api/tasks/org%2Frepo/steps/fetch").ok();
    assert_eq!(
        (&shown["state"], &shown["output"]),
        (&json!("begun"), &json!(null))
    );
    let wrote = "one\npassword=hunter2-and-more\n";
    step(
        "fetch",
        "end",
        &json!({"fence": fence, "output": wrote, "cost": "0.25"}),
    );
    let shown = ground.get("/api/tasks/org%2Frepo/steps/fetch").ok();
    assert_eq!(
        (&shown["task"], &shown["state"], &shown["redacted"]),
        (&json!("org/repo"), &json!("done"), &json!(true))
    );
    let output = shown["output"].as_str().unwrap();
    assert!(output.starts_with("one\npassword=[redacted:"), "{output}");
    for (path, status) in [
        ("/api/tasks/org%2Frepo/steps/fetch?occurrence=2", 404),
        ("/api/tasks/org%2Frepo/steps/fetch?occurrence=0", 422),
        ("/api/tasks/org%2Frepo/steps/other", 404),
        ("/api/tasks/none/steps/fetch", 404),
    ] {
        assert_eq!(ground.get(path).status, status, "{path}");
    }
    let stats = ground.get("/api/stats").ok();
    assert_eq!(stats["cost_per_hour"][0]["cost"], "0.25");
}

#[test]
fn a_brief_tells_what_the_next_one_would_be_told() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    for (name, verb) in [("a", "begin"), ("a", "end"), ("b", "begin")] {
        let path = format!("/api/tasks/t/steps/{name}/{verb}");
        ground.post(&path, &json!({"fence": fence})).ok();
    }
    let brief = ground.get("/api/tasks/t/brief").ok();
    assert_eq!(brief["given_to"], json!(null));
    let text = brief["text"].as_str().unwrap();
    assert!(
        text.contains("never to repeat") && text.contains("\"a\""),
        "{text}"
    );
    assert_eq!(ground.get("/api/tasks/none/brief").status, 404);
}

#[test]
fn tasks_are_found_and_come_newest_first() {
    let ground = Ground::new();
    for (id, title) in [("a", "Weekly report"), ("report-2", "x"), ("c", "y")] {
        let task = json!({"id": id, "title": title});
        assert_eq!(ground.post("/api/tasks", &task).status, 201);
    }
    let ids = |query: &str| -> Vec<String> {
        let list = ground.get(&format!("/api/tasks?{query}")).ok();
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("newest=true"), ["c", "report-2", "a"]);
    assert_eq!(ids("newest=true&after=report-2"), ["a"]);
    assert_eq!(ids("find=REPORT"), ["a", "report-2"]);
    assert_eq!(ids("find=report&newest=true&limit=1"), ["report-2"]);
}

#[test]
fn steps_in_doubt_are_counted_not_their_tasks() {
    let ground = Ground::new();
    let fence = started(&ground, "t");
    let begin = |step: &str| {
        let rule = json!({"fence": fence, "rule": "once"});
        ground.post(&format!("/api/tasks/t/steps/{step}/begin"), &rule)
    };
    assert_eq!(begin("pay").ok()["advice"], "go");
    assert_eq!(begin("mail").ok()["advice"], "go");
    assert_eq!(begin("pay").ok()["advice"], "wait", "it is blocked now");
    assert_eq!(ground.get("/api/stats").ok()["in_doubt"], 2);
}
