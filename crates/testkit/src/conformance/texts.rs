//! What people and agents write comes back as it was.

use relight_core::change::Change;
use relight_core::ids::{AgentName, StepName};
use relight_core::status::TaskStatus;
use relight_core::task::CheckpointSettings;
use relight_core::time::Time;
use serde_json::json;

use super::Harness;
use super::given::{
    FREE, add, add_with, begun, claimant, commit_of, created, done, ended, id, key, mark, new_task,
    noon, output, read, step, steps,
};
use relight_store::TaskQuery;

const SCRIPTS: &str = "Grüße, Привет, こんにちは, 🏴󠁧󠁢󠁳󠁣󠁴󠁿, e\u{301}, \u{202e}rtl, \u{feff}bom, \u{10ffff}, tab\t, line\n, \u{1b}[31m";

/// Control characters and combined ones, in every field that takes free text.
pub async fn texts_of_every_script_come_back(harness: &dyn Harness) {
    let store = harness.open().await;
    let door = CheckpointSettings {
        folder: format!("/{SCRIPTS}"),
        handoff_to: Some(SCRIPTS.to_owned()),
        notes: Some(SCRIPTS.to_owned()),
        blocked: false,
    };
    add_with(&*store, "t", |new| {
        new.spec.title = Some(SCRIPTS.to_owned());
        new.spec.payload = Some(json!({ SCRIPTS: SCRIPTS }));
        new.spec.strategy = Some(SCRIPTS.to_owned());
        new.spec.key = Some(key("schlüssel 🔑"));
        new.spec.steps = vec![StepName::new("schritt 一").expect("a valid name")];
        new.context.insert(SCRIPTS.to_owned(), SCRIPTS.to_owned());
        new.checkpoint = Some(door.clone());
    })
    .await;
    let reason = Some(SCRIPTS.to_owned());
    done(
        &*store,
        "t",
        FREE,
        vec![Change::Status {
            to: TaskStatus::Blocked,
            reason,
        }],
    )
    .await;
    done(
        &*store,
        "t",
        FREE,
        vec![begun("schritt 一"), ended("schritt 一", SCRIPTS)],
    )
    .await;
    let task = read(&*store, "t").await;
    assert_eq!(task.reason.as_deref(), Some(SCRIPTS));
    assert_eq!(task.spec.title.as_deref(), Some(SCRIPTS));
    assert_eq!(task.spec.strategy.as_deref(), Some(SCRIPTS));
    assert_eq!(task.spec.payload, Some(json!({ SCRIPTS: SCRIPTS })));
    assert_eq!(task.context[SCRIPTS], SCRIPTS);
    assert_eq!(task.checkpoint, Some(door));
    let found = store
        .task_with_key(&key("schlüssel 🔑"))
        .await
        .expect("a store that can be read");
    assert_eq!(found.map(|task| task.id), Some(id("t")));
    let kept = output(&*store, "t", "schritt 一")
        .await
        .expect("an output is there");
    assert_eq!(kept.body, SCRIPTS.as_bytes());
}

/// Nothing is not none, and a megabyte is not too much.
pub async fn empty_and_long_texts_come_back(harness: &dyn Harness) {
    let store = harness.open().await;
    for (task, text) in [("empty", String::new()), ("long", "ü".repeat(1 << 19))] {
        add_with(&*store, task, |new| {
            new.spec.title = Some(text.clone());
            new.context.insert(String::new(), text.clone());
            new.checkpoint = Some(CheckpointSettings {
                folder: text.clone(),
                handoff_to: Some(text.clone()),
                notes: Some(text.clone()),
                blocked: false,
            });
        })
        .await;
        let reason = Some(text.clone());
        done(
            &*store,
            task,
            FREE,
            vec![Change::Status {
                to: TaskStatus::Failed,
                reason,
            }],
        )
        .await;
        let kept = read(&*store, task).await;
        assert!(kept.spec.title.as_ref() == Some(&text), "{task}: title");
        assert!(kept.reason.as_ref() == Some(&text), "{task}: reason");
        assert!(kept.context[""] == text, "{task}: context");
        let door = kept.checkpoint.expect("the door is there");
        assert!(
            door.folder == text && door.notes.as_ref() == Some(&text),
            "{task}: door"
        );
    }
    let longest = ("i".repeat(128), "s".repeat(200));
    add_with(&*store, &longest.0, |new| {
        new.spec.key = Some(key(&longest.1));
    })
    .await;
    done(&*store, &longest.0, FREE, vec![begun(&longest.1)]).await;
    assert_eq!(steps(&*store, &longest.0).await, [longest.1]);
}

/// Case and composition tell names apart; what looks alike is not the same.
pub async fn ids_are_compared_byte_by_byte(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["Task", "task", "task.", "task/1", "1", "01", "1.0"] {
        add(&*store, task).await;
    }
    assert_eq!(
        store
            .unfinished()
            .await
            .expect("a store that can be read")
            .len(),
        7
    );
    add_with(&*store, "nfc", |new| new.spec.key = Some(key("\u{e9}"))).await;
    add_with(&*store, "nfd", |new| new.spec.key = Some(key("e\u{301}"))).await;
    add_with(&*store, "upper", |new| new.spec.key = Some(key("\u{c9}"))).await;
    let names = ["s", "S", "\u{e9}", "e\u{301}", "1", "01"];
    done(&*store, "task", FREE, names.map(begun).into()).await;
    assert_eq!(steps(&*store, "task").await, names);
}

/// Workflows are named by other programs, and so are their agents.
pub async fn workflows_and_their_agents_have_any_name(harness: &dyn Harness) {
    let store = harness.open().await;
    let long = "é".repeat(256);
    for name in [
        "déploiement du soir",
        "!room:server.org +1",
        "部屋 🚀",
        "'; --",
        &long,
    ] {
        let agent = Some(AgentName::of_workflow(name).expect("a valid name"));
        add_with(&*store, name, |new| new.agent.clone_from(&agent)).await;
        assert_eq!(read(&*store, name).await.agent, agent);
        let of_agent = TaskQuery {
            agent,
            ..TaskQuery::default()
        };
        let found = store
            .tasks(of_agent)
            .await
            .expect("a store that can be read");
        assert_eq!(
            found
                .iter()
                .map(|task| task.id.as_str())
                .collect::<Vec<_>>(),
            [name]
        );
    }
}

/// The first and the last moment that can be written, and the time before 1970.
pub async fn the_far_ends_of_time_come_back(harness: &dyn Harness) {
    let store = harness.open().await;
    for (task, ms) in [
        ("first", i64::MIN),
        ("last", i64::MAX),
        ("before", -1),
        ("zero", 0),
    ] {
        let at = Time::from_ms(ms);
        let new = new_task(task, |new| new.expires_at = Some(at));
        let commit = relight_store::Commit { at, ..created(new) };
        store.commit(commit).await.expect("a new task is taken");
        let changes = vec![
            Change::NotBefore(Some(at)),
            begun("s"),
            super::given::lease_of(Some(100)),
        ];
        let commit = commit_of(&id(task), FREE, changes);
        store
            .commit(relight_store::Commit { at, ..commit })
            .await
            .expect("a free commit is taken");
        let kept = read(&*store, task).await;
        let since = kept.lease.held.expect("the task is held").since;
        assert_eq!([kept.created_at, kept.updated_at, since], [at; 3]);
        assert_eq!([kept.expires_at, kept.not_before], [Some(at); 2]);
        assert_eq!(step(&*store, task, "s").await.map(|step| step.at), Some(at));
    }
    let all = store.forget_events(Time::from_ms(i64::MAX)).await;
    assert_eq!(
        all.expect("a store that can be written"),
        8,
        "all but the last moment, the newest, the steps"
    );
    let nobody = store
        .claimable(&claimant("ann"), Time::from_ms(i64::MAX), 9)
        .await;
    assert_eq!(nobody.expect("a store that can be read"), []);
}

/// As large as their types.
pub async fn the_far_ends_of_numbers_come_back(harness: &dyn Harness) {
    let store = harness.open().await;
    for (task, priority) in [("least", i32::MIN), ("most", i32::MAX)] {
        add_with(&*store, task, |new| {
            new.spec.priority = priority;
            new.spec.max_retries = Some(u32::MAX);
            new.spec.payload = Some(json!([u64::MAX, i64::MIN, 0.1, 1e300, -0.5]));
        })
        .await;
        let kept = read(&*store, task).await.spec;
        assert_eq!(
            (kept.priority, kept.max_retries),
            (priority, Some(u32::MAX))
        );
        assert_eq!(
            kept.payload,
            Some(json!([u64::MAX, i64::MIN, 0.1, 1e300, -0.5]))
        );
    }
    for fingerprint in [0, 1 << 63, u64::MAX] {
        let was_open = fingerprint > 0;
        let fingerprint = Some(fingerprint);
        let wide = relight_core::change::StepMark {
            fingerprint,
            ..mark("s", u32::MAX, was_open)
        };
        done(&*store, "least", FREE, vec![Change::StepBegun(wide)]).await;
        let kept = step(&*store, "least", "s")
            .await
            .expect("the step is there");
        assert_eq!((kept.fingerprint, kept.tries), (fingerprint, u32::MAX));
    }
}

/// Also the order of its fields, for people compare texts.
pub async fn a_payload_keeps_its_shape_and_order(harness: &dyn Harness) {
    let store = harness.open().await;
    let payload = json!({"z": 1, "a": {"y": [], "b": {}}, "m": null, "": false, "t": "true"});
    add_with(&*store, "t", |new| new.spec.payload = Some(payload.clone())).await;
    let kept = read(&*store, "t")
        .await
        .spec
        .payload
        .expect("the payload is there");
    assert_eq!(kept.to_string(), payload.to_string());
    for (number, value) in [json!(0), json!(""), json!([]), json!(false)]
        .into_iter()
        .enumerate()
    {
        let task = format!("t{number}");
        add_with(&*store, &task, |new| new.spec.payload = Some(value.clone())).await;
        assert_eq!(read(&*store, &task).await.spec.payload, Some(value));
    }
}

/// And patterns are texts too.
pub async fn texts_that_look_like_sql_are_texts(harness: &dyn Harness) {
    let store = harness.open().await;
    let nasty = "x'); DROP TABLE tasks; --";
    for text in [
        nasty,
        "%",
        "_",
        "NULL",
        "?1",
        ":a",
        "$1",
        "{\"a\":1}",
        "\\",
        "\"",
        "`",
    ] {
        add_with(&*store, "t", |new| {
            new.spec.key = Some(key(text));
            new.spec.title = Some(text.to_owned());
        })
        .await;
        let found = store
            .task_with_key(&key(text))
            .await
            .expect("a store that can be read");
        assert_eq!(
            found.and_then(|task| task.spec.title).as_deref(),
            Some(text)
        );
        done(&*store, "t", FREE, vec![begun(text), ended(text, text)]).await;
        assert_eq!(steps(&*store, "t").await, [text]);
        store
            .forget(vec![(id("t"), 2)], noon())
            .await
            .expect("a store that can be written");
    }
}

/// None missing, none moved.
pub async fn a_thousand_declared_steps_come_back_in_order(harness: &dyn Harness) {
    let store = harness.open().await;
    let name = |number: u32| StepName::new(format!("step {number}")).expect("a valid name");
    let names: Vec<StepName> = (0..1_000).rev().map(name).collect();
    add_with(&*store, "t", |new| new.spec.steps.clone_from(&names)).await;
    assert_eq!(read(&*store, "t").await.spec.steps, names);
    let twice: Vec<StepName> = names.iter().chain(&names).cloned().collect();
    done(
        &*store,
        "t",
        FREE,
        vec![Change::StepsDeclared(twice.clone())],
    )
    .await;
    assert_eq!(read(&*store, "t").await.spec.steps, twice);
}
