//! Lists of tasks, and forgetting them.

use relight_core::change::Change;
use relight_core::ids::{StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::task::{CheckpointSettings, NewTask, Task};

use super::Harness;
use super::given::{
    FREE, add, add_with, agent, all_events, all_of, at_seq, begun, done, ended, events, id, key,
    later, noon, note, output, put, read, step, to,
};
use relight_store::{Store, TaskGlance, TaskQuery};

async fn list(store: &dyn Store, query: TaskQuery) -> Vec<String> {
    let found = store.tasks(query).await.expect("a store that can be read");
    found
        .into_iter()
        .map(|task: Task| task.id.to_string())
        .collect()
}

/// Not by name, nor by what moved last.
pub async fn tasks_come_in_the_order_they_were_added(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["c", "a", "b"] {
        add(&*store, task).await;
    }
    done(&*store, "c", FREE, vec![note("x")]).await;
    assert_eq!(list(&*store, TaskQuery::default()).await, ["c", "a", "b"]);
    let whole = store
        .tasks(TaskQuery::default())
        .await
        .expect("a store that can be read");
    assert_eq!(whole[0], read(&*store, "c").await);
}

/// Each page begins after the last task of the one before, also when that one has moved.
pub async fn tasks_can_be_read_in_pages(harness: &dyn Harness) {
    let store = harness.open().await;
    let names: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
    for name in &names {
        add(&*store, name).await;
    }
    let mut paged: Vec<String> = Vec::new();
    for _ in 0..4 {
        let after = paged.last().map(|last| id(last));
        paged.extend(
            list(
                &*store,
                TaskQuery {
                    after,
                    limit: Some(3),
                    ..Default::default()
                },
            )
            .await,
        );
        let last = paged.last().expect("a page has a task");
        done(&*store, last, FREE, vec![to(TaskStatus::Cancelled)]).await;
    }
    assert_eq!(paged, names);
    let none = TaskQuery {
        limit: Some(0),
        ..Default::default()
    };
    assert_eq!(list(&*store, none).await, [""; 0]);
}

/// A pager that lost its place stops; it does not begin anew.
pub async fn a_page_after_a_task_that_is_gone_is_empty(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let query = TaskQuery {
        after: Some(id("gone")),
        ..Default::default()
    };
    assert_eq!(list(&*store, query).await, [""; 0]);
}

/// All conditions hold together.
pub async fn tasks_can_be_asked_for_by_status_agent_and_folder(harness: &dyn Harness) {
    let store = harness.open().await;
    let with = |name: Option<&str>, folder: Option<&str>| {
        let (name, folder) = (name.map(agent), folder.map(str::to_owned));
        move |new: &mut NewTask| {
            new.agent = name;
            new.checkpoint = folder.map(|folder| CheckpointSettings {
                folder,
                ..CheckpointSettings::default()
            });
        }
    };
    add(&*store, "bare").await;
    add_with(&*store, "a", with(Some("ann"), None)).await;
    add_with(&*store, "a-in-x", with(Some("ann"), Some("/x"))).await;
    add_with(&*store, "in-x", with(None, Some("/x"))).await;
    add_with(&*store, "in-y", with(None, Some("/x/y"))).await;
    let ann = Some(agent("ann"));
    let x = Some("/x".to_owned());
    let query = TaskQuery {
        agent: ann.clone(),
        ..Default::default()
    };
    assert_eq!(list(&*store, query).await, ["a", "a-in-x"]);
    let query = TaskQuery {
        checkpoint_folder: x.clone(),
        ..Default::default()
    };
    assert_eq!(list(&*store, query).await, ["a-in-x", "in-x"]);
    let query = TaskQuery {
        agent: ann,
        checkpoint_folder: x,
        ..Default::default()
    };
    assert_eq!(list(&*store, query).await, ["a-in-x"]);
    let statuses = vec![TaskStatus::Created, TaskStatus::Failed];
    let query = TaskQuery {
        statuses,
        ..Default::default()
    };
    assert_eq!(list(&*store, query.clone()).await, ["bare", "in-x", "in-y"]);
    done(&*store, "bare", FREE, vec![to(TaskStatus::Cancelled)]).await;
    done(&*store, "a", FREE, vec![to(TaskStatus::Failed)]).await;
    assert_eq!(list(&*store, query.clone()).await, ["a", "in-x", "in-y"]);
    let query = TaskQuery {
        after: Some(id("a")),
        limit: Some(1),
        ..query
    };
    assert_eq!(list(&*store, query).await, ["in-x"]);
}

/// The id, the title and the names of declared and recorded steps, and nothing else that is stored with
/// them. Steps that were cleared are history.
pub async fn tasks_can_be_found_by_a_part_of_their_text(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "report-17").await;
    add_with(&*store, "b", |new| {
        new.spec.title = Some("Quarterly Report 100%".to_owned());
    })
    .await;
    add_with(&*store, "c", |new| {
        new.spec.steps = vec![StepName::new("report").expect("a good name")];
    })
    .await;
    add_with(&*store, "d_e", |new| new.spec.title = Some("x".to_owned())).await;
    add(&*store, "f").await;
    let steps = vec![begun("Deploy 5%"), ended("Deploy 5%", "out")];
    done(&*store, "f", FREE, steps).await;
    add(&*store, "g").await;
    done(&*store, "g", FREE, vec![begun("deploy")]).await;
    done(&*store, "g", FREE, vec![Change::StepsCleared]).await;
    for (find, wanted) in [
        ("report", &["report-17", "b", "c"][..]),
        ("REPORT 100%", &["b"]),
        ("0%", &["b"]),
        ("d_e", &["d_e"]),
        ("dePLOY", &["f"]),
        ("y 5%", &["f"]),
        ("out", &[]),
        ("t_17", &[]),
        ("title", &[]),
        ("!", &[]),
    ] {
        let query = TaskQuery {
            find: Some(find.to_owned()),
            ..Default::default()
        };
        assert_eq!(list(&*store, query).await, wanted, "{find}");
    }
}

/// In pages too.
pub async fn tasks_can_be_read_newest_first(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["c", "a", "b"] {
        add(&*store, task).await;
    }
    let query = TaskQuery {
        newest: true,
        limit: Some(2),
        ..Default::default()
    };
    assert_eq!(list(&*store, query.clone()).await, ["b", "a"]);
    let query = TaskQuery {
        after: Some(id("a")),
        ..query
    };
    assert_eq!(list(&*store, query.clone()).await, ["c"]);
    let query = TaskQuery {
        after: Some(id("gone")),
        ..query
    };
    assert_eq!(list(&*store, query).await, [""; 0]);
}

/// Whoever holds them, whatever became of them.
pub async fn tasks_can_be_asked_for_by_lease_and_doubt(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["bare", "over", "sure"] {
        add(&*store, task).await;
    }
    for task in ["held", "held-in-doubt"] {
        super::given::add_held(&*store, task).await;
    }
    done(&*store, "held-in-doubt", FREE, vec![begun("s")]).await;
    done(
        &*store,
        "over",
        FREE,
        vec![begun("s"), to(TaskStatus::Cancelled)],
    )
    .await;
    done(&*store, "sure", FREE, vec![begun("s"), ended("s", "x")]).await;
    let held = TaskQuery {
        held: true,
        ..Default::default()
    };
    assert_eq!(list(&*store, held.clone()).await, ["held", "held-in-doubt"]);
    let in_doubt = TaskQuery {
        in_doubt: true,
        ..Default::default()
    };
    assert_eq!(list(&*store, in_doubt).await, ["over", "held-in-doubt"]);
    let both = TaskQuery {
        in_doubt: true,
        ..held
    };
    assert_eq!(list(&*store, both).await, ["held-in-doubt"]);
}

/// Failed ones too; completed and cancelled ones not.
pub async fn unfinished_lists_every_non_terminal_task(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut expected = Vec::new();
    for (count, status) in TaskStatus::ALL.into_iter().enumerate() {
        let at = later(count as u64);
        let (owner, expires_at) = (Some(agent("ann")), Some(later(1_000)));
        add_with(&*store, status.as_str(), |new| {
            (new.agent, new.expires_at) = (owner.clone(), expires_at);
        })
        .await;
        let task = id(status.as_str());
        let not_before = Some(later(500));
        let changes = vec![to(status), Change::NotBefore(not_before)];
        let commit = relight_store::Commit {
            task: task.clone(),
            guard: FREE,
            at,
            changes,
        };
        store.commit(commit).await.expect("a free commit is taken");
        if !status.is_terminal() {
            let agent = owner;
            expected.push(TaskGlance {
                id: task,
                status,
                agent,
                updated_at: at,
                not_before,
                expires_at,
            });
        }
    }
    assert_eq!(
        store.unfinished().await.expect("a store that can be read"),
        expected
    );
}

/// Who saw an older state removes nothing; the others are removed all the same.
pub async fn forget_leaves_a_task_that_moved_on(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["moved", "same", "kept"] {
        add(&*store, task).await;
    }
    done(&*store, "moved", FREE, vec![note("x")]).await;
    let asked = vec![
        (id("moved"), 1),
        (id("absent"), 1),
        (id("same"), 1),
        (id("same"), 1),
    ];
    let gone = store
        .forget(asked, noon())
        .await
        .expect("a store that can be written");
    assert_eq!(gone, [id("same")]);
    assert_eq!(list(&*store, TaskQuery::default()).await, ["moved", "kept"]);
    assert_eq!(read(&*store, "moved").await.context["note"], "x");
    let nothing: Vec<TaskId> = store
        .forget(Vec::new(), noon())
        .await
        .expect("a store that can be written");
    assert_eq!(nothing, []);
}

/// Steps, outputs and events go with it; those of others stay.
pub async fn a_forgotten_task_leaves_nothing_behind(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["t", "u"] {
        add(&*store, task).await;
        done(&*store, task, FREE, vec![begun("s"), ended("s", task)]).await;
    }
    let other = all_of(&*store, "u").await;
    store
        .forget(vec![(id("t"), 2)], noon())
        .await
        .expect("a store that can be written");
    let (task, steps, told, _) = all_of(&*store, "t").await;
    assert_eq!((task, steps, told), (None, Vec::new(), Vec::new()));
    assert_eq!(step(&*store, "t", "s").await, None);
    assert_eq!(output(&*store, "t", "s").await, None);
    let (task, steps, told, _) = all_of(&*store, "u").await;
    assert_eq!((task, steps, told), (other.0, other.1, other.2));
    assert_eq!(
        events(&*store, all_events()).await.len(),
        4,
        "one tells of the removal"
    );
    put(&*store, "t", FREE, vec![note("x")])
        .await
        .expect_err("there is no such task");
}

/// As if it had never been: first sequence number, last place, its key free.
pub async fn a_forgotten_task_can_be_added_anew(harness: &dyn Harness) {
    let store = harness.open().await;
    let keyed = |new: &mut NewTask| new.spec.key = Some(key("k"));
    add_with(&*store, "t", keyed).await;
    add(&*store, "u").await;
    done(&*store, "t", at_seq(1), vec![begun("s"), ended("s", "old")]).await;
    store
        .forget(vec![(id("t"), 2)], noon())
        .await
        .expect("a store that can be written");
    assert_eq!(
        store
            .task_with_key(&key("k"))
            .await
            .expect("a store that can be read"),
        None
    );
    assert_eq!(add_with(&*store, "t", keyed).await.seq, 1);
    assert_eq!(list(&*store, TaskQuery::default()).await, ["u", "t"]);
    assert_eq!(step(&*store, "t", "s").await, None);
    let first = Task {
        seq: 1,
        ..Change::first(&super::given::new_task("t", keyed), noon())
    };
    assert_eq!(read(&*store, "t").await, first);
}

/// By status, with events and what is in doubt.
pub async fn the_inventory_counts_what_is_there(harness: &dyn Harness) {
    let store = harness.open().await;
    for task in ["a", "b", "c"] {
        add(&*store, task).await;
    }
    done(&*store, "b", FREE, vec![begun("s"), begun("r")]).await;
    done(&*store, "c", FREE, vec![to(TaskStatus::Cancelled)]).await;
    for whole in [false, true] {
        let inventory = store
            .inventory(whole)
            .await
            .expect("a store that can be read");
        assert_eq!(
            inventory.tasks,
            [(TaskStatus::Created, 2), (TaskStatus::Cancelled, 1)]
        );
        assert_eq!((inventory.events, inventory.in_doubt), (6, 1));
        assert_eq!(inventory.damage, [""; 0]);
        assert!(!inventory.backend.is_empty());
    }
}
