//! Stores that another version wrote: an older one is brought up whole, a newer one is refused.

use std::path::Path;

use relight_core::agent::change::AgentChange;
use relight_core::change::{Change, StepMark};
use relight_core::decide::Guard;
use relight_core::ids::{AgentName, StepName, TaskId};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::NewTask;
use relight_core::time::Time;
use relight_store::sqlite::salvage::salvage;
use relight_store::sqlite::{SqliteStore, Use};
use relight_store::{AgentCommit, AgentQuery, Commit, EventQuery, Store, StoreError, TaskQuery};

const TASKS: usize = 20;

fn all_events() -> EventQuery {
    let (task, agent, kinds) = (None, None, Vec::new());
    EventQuery {
        after: 0,
        before: None,
        task,
        agent,
        kinds,
        limit: usize::MAX,
        newest: false,
    }
}

/// Tasks with a step each, a large output and a lease among them.
async fn fill(store: &SqliteStore) {
    for number in 0..TASKS {
        let id = TaskId::new(format!("t{number}")).expect("a good id");
        let key = StepKey::first(StepName::new("build").expect("a good name"));
        let rule = RepeatRule::Keyed;
        let mark = StepMark {
            key,
            rule,
            tries: 1,
            fingerprint: Some(7),
            was_open: false,
            call: None,
        };
        let output = Some(Output::keep(0, vec![b'x'; number * 1_000]));
        let process = ProcessIdentity {
            pid: 7,
            start: 8,
            boot: "boot".to_owned(),
            node: None,
        };
        let changes = vec![
            Change::Created(Box::new(NewTask::bare(id.clone()))),
            Change::LeaseTaken {
                holder: Holder::Process(process),
                ttl: None,
            },
            Change::StepEnded {
                mark,
                outcome: StepOutcome::Done,
                output,
            },
        ];
        let commit = Commit {
            task: id,
            guard: Guard::default(),
            at: Time::from_ms(1),
            changes,
        };
        store.commit(commit).await.expect("a new task is taken");
    }
}

/// The same rows in a file that only the first migration was run on.
fn as_schema_1(file: &Path, old: &Path) {
    let db = rusqlite::Connection::open(old).expect("the file opens");
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL;
         PRAGMA application_id = {};
         PRAGMA user_version = 1;
         {};
         ATTACH '{}' AS new;
         INSERT INTO task SELECT n, id, status, agent, fence, held, lease_ttl, lease_until, lease_boot,
             seq, steps_done, steps_open, steps_from, starts, retries, max_retries, priority,
             created_at, updated_at, not_before, expires_at FROM new.task;
         INSERT INTO task_body SELECT * FROM new.task_body;
         INSERT INTO lease SELECT n, holder, since FROM new.lease;
         INSERT INTO journal SELECT id, at, kind, task, fence, name, occurrence, rule, tries,
             fingerprint, exit_code, detail, body, output FROM new.journal;
         INSERT INTO output SELECT * FROM new.output;",
        0x524c_4854,
        include_str!("../src/sqlite/migrations/0001_foundation.sql"),
        file.display(),
    ))
    .expect("the script runs");
}

/// Everything that a store tells of its tasks.
async fn everything(store: &SqliteStore) -> String {
    let tasks = store
        .tasks(TaskQuery::default())
        .await
        .expect("a store that can be read");
    let mut told = format!(
        "{tasks:?}\n{:?}",
        store.events(all_events()).await.expect("events")
    );
    for task in tasks {
        for step in store.steps(&task.id).await.expect("steps") {
            let output = store.output(&task.id, &step.key).await.expect("an output");
            told += &format!("\n{step:?} {output:?}");
        }
    }
    told
}

async fn add_agent(store: &SqliteStore) {
    let agent = AgentName::new("a").expect("a good name");
    let changes = vec![AgentChange::Created(Box::default())];
    let (guard, at) = (Guard::default(), Time::from_ms(1));
    let commit = AgentCommit {
        agent,
        guard,
        at,
        changes,
    };
    store
        .commit_agent(commit)
        .await
        .expect("a new agent is taken");
}

/// A reader that never gets past such an event would ask for it for ever.
#[tokio::test]
async fn events_that_only_a_newer_version_can_read_are_given_all_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("relight.db");
    let store = SqliteStore::open(&file, Use::Long).expect("the store opens");
    let db = rusqlite::Connection::open(&file).expect("the file opens");
    db.execute_batch(
        "INSERT INTO journal (at, kind, detail)
         VALUES (1, 200, '{\"a\": 1}'), (2, 37, '{'), (3, 300, NULL)",
    )
    .expect("the test's own statement");
    let events = store
        .events(all_events())
        .await
        .expect("a store that can be read");
    let read: Vec<_> = events
        .iter()
        .map(|event| (event.id, event.kind.as_str()))
        .collect();
    assert_eq!(read, [(1, "unknown"), (2, "unknown"), (3, "unknown")]);
    assert_eq!(events[0].detail["a"], 1, "what can be read is told");
    assert!(events[1].detail["unreadable"].is_string());
}

#[tokio::test]
async fn a_store_of_the_first_schema_is_brought_up_with_all_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let (file, old) = (
        folder.path().join("relight.db"),
        folder.path().join("old.db"),
    );
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    fill(&store).await;
    as_schema_1(&file, &old);
    let brought_up = SqliteStore::open(&old, Use::Short).unwrap();
    assert_eq!(everything(&brought_up).await, everything(&store).await);
    let (inventory, anew) = (
        brought_up.inventory(true).await.unwrap(),
        store.inventory(true).await.unwrap(),
    );
    assert_eq!(
        (inventory.schema, inventory.damage),
        (anew.schema, Vec::new())
    );
    assert_eq!(brought_up.agents(AgentQuery::default()).await.unwrap(), []);
    add_agent(&brought_up).await;
    assert_eq!(
        brought_up
            .agents(AgentQuery::default())
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_store_of_the_first_schema_is_salvaged_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [file, old, saved] = ["relight.db", "old.db", "saved.db"].map(|n| folder.path().join(n));
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    fill(&store).await;
    as_schema_1(&file, &old);
    let report = salvage(&old, &saved).unwrap();
    assert!(
        report.iter().all(|table| table.errors.is_empty()),
        "{report:?}"
    );
    let saved = SqliteStore::open(&saved, Use::Long).unwrap();
    assert_eq!(everything(&saved).await, everything(&store).await);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.db");
    drop(SqliteStore::open(&file, Use::Long).unwrap());
    let db = rusqlite::Connection::open(&file).unwrap();
    let ours: u32 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    db.pragma_update(None, "user_version", ours + 1).unwrap();
    match SqliteStore::open(&file, Use::Long) {
        Err(StoreError::Newer { found, known, .. }) => assert_eq!((found, known), (ours + 1, ours)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn migrations_are_numbered_alike_in_both_backends() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = |backend: &str| {
        let files = std::fs::read_dir(source.join(backend).join("migrations")).expect("a folder");
        let mut names: Vec<_> = files
            .map(|file| file.expect("a file").file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("sqlite"), names("postgres"));
}
