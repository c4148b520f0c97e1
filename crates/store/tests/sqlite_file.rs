//! What only a store in a file can show: its log, its damage, and what is saved from it.

use std::path::Path;

use relight_core::change::{Change, StepMark};
use relight_core::decide::Guard;
use relight_core::ids::{StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::NewTask;
use relight_core::time::Time;
use relight_store::sqlite::salvage::salvage;
use relight_store::sqlite::{SqliteStore, Use};
use relight_store::{Commit, CommitError, Store, StoreError, TaskQuery};

fn id(task: &str) -> TaskId {
    TaskId::new(task).expect("a good id")
}

fn commit(task: &str, changes: Vec<Change>) -> Commit {
    Commit {
        task: id(task),
        guard: Guard::default(),
        at: Time::from_ms(1),
        changes,
    }
}

fn created(task: &str) -> Commit {
    commit(
        task,
        vec![Change::Created(Box::new(NewTask::bare(id(task))))],
    )
}

fn step_done(task: &str, step: &str) -> Commit {
    let key = StepKey::first(StepName::new(step).expect("a good name"));
    let rule = RepeatRule::Keyed;
    let mark = StepMark {
        key,
        rule,
        tries: 1,
        fingerprint: None,
        was_open: false,
        call: None,
    };
    let output = Some(Output::default());
    commit(
        task,
        vec![Change::StepEnded {
            mark,
            outcome: StepOutcome::Done,
            output,
        }],
    )
}

/// Writes into the file behind the store's back.
fn tamper(file: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).expect("the file opens");
    connection.execute_batch(sql).expect("the statement runs");
}

#[tokio::test]
async fn the_log_stays_short_between_many_short_lived_processes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.db");
    SqliteStore::open(&file, Use::Short)
        .unwrap()
        .commit(created("t"))
        .await
        .unwrap();
    for number in 0..60 {
        let store = SqliteStore::open(&file, Use::Short).unwrap();
        store
            .commit(step_done("t", &format!("s{number}")))
            .await
            .unwrap();
    }
    let log = std::fs::metadata(folder.path().join("relight.db-wal"))
        .unwrap()
        .len();
    assert!(log <= 60 * 4_120, "the log has {log} bytes");
    let store = SqliteStore::open(&file, Use::Short).unwrap();
    assert_eq!(store.steps(&id("t")).await.unwrap().len(), 60);
}

#[tokio::test]
async fn one_bad_row_hides_no_other_and_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.db");
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    for task in ["a", "b", "c"] {
        store.commit(created(task)).await.unwrap();
    }
    tamper(&file, "UPDATE task_body SET spec = 'x' WHERE n = 2");
    let tasks = store.tasks(TaskQuery::default()).await.unwrap();
    assert_eq!(
        tasks
            .iter()
            .map(|task| task.id.as_str())
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
    let pairs = || [("stage".to_owned(), "two".to_owned())].into();
    let touch = |task| commit(task, vec![Change::ContextSet(pairs())]);
    let (bad, good) = tokio::join!(store.commit(touch("b")), store.commit(touch("c")));
    assert!(bad.is_err() && good.is_ok(), "{bad:?} {good:?}");
    let damage = store.inventory(true).await.unwrap().damage;
    assert!(
        damage
            .iter()
            .any(|line| line.contains("task b cannot be read")),
        "{damage:?}"
    );
}

#[tokio::test]
async fn salvage_stops_a_task_that_lost_finished_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved) = (
        folder.path().join("relight.db"),
        folder.path().join("saved.db"),
    );
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    for task in ["whole", "torn"] {
        store.commit(created(task)).await.unwrap();
        for step in ["one", "two"] {
            store.commit(step_done(task, step)).await.unwrap();
        }
    }
    drop(store);
    tamper(&file, "DELETE FROM journal WHERE task = 2 AND name = 'two'");
    let report = salvage(&file, &saved).unwrap();
    assert!(
        report.iter().all(|table| table.errors.is_empty()),
        "{report:?}"
    );
    let store = SqliteStore::open(&saved, Use::Long).unwrap();
    let look = async |task| {
        let task = store.task(&id(task)).await.unwrap().unwrap();
        (task.status, task.steps_done)
    };
    assert_eq!(look("whole").await, (TaskStatus::Created, 2));
    assert_eq!(look("torn").await, (TaskStatus::Suspended, 1));
}

#[tokio::test]
async fn a_new_task_never_inherits_the_steps_of_one_that_salvage_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved) = (
        folder.path().join("relight.db"),
        folder.path().join("saved.db"),
    );
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    store.commit(created("lost")).await.unwrap();
    store.commit(step_done("lost", "build")).await.unwrap();
    drop(store);
    tamper(&file, "DELETE FROM task");
    salvage(&file, &saved).unwrap();
    let store = SqliteStore::open(&saved, Use::Long).unwrap();
    store.commit(created("new")).await.unwrap();
    assert_eq!(store.steps(&id("new")).await.unwrap(), []);
}

#[tokio::test]
async fn a_copy_by_vacuum_gets_its_log_back() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (
        folder.path().join("relight.db"),
        folder.path().join("copy.db"),
    );
    SqliteStore::open(&file, Use::Long)
        .unwrap()
        .commit(created("t"))
        .await
        .unwrap();
    tamper(&file, &format!("VACUUM INTO '{}'", copy.display()));
    let store = SqliteStore::open(&copy, Use::Long).unwrap();
    let settings = store.inventory(false).await.unwrap().settings;
    assert!(
        settings.contains(&("journal_mode".to_owned(), "wal".to_owned())),
        "{settings:?}"
    );
}

#[tokio::test]
async fn nothing_is_acknowledged_or_read_once_the_file_was_removed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    let (file, away) = (in_folder("relight.db"), in_folder("away.db"));
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    store.commit(created("a")).await.unwrap();
    std::fs::rename(&file, &away).unwrap();
    assert_replaced(&store, "removed").await;
    let other = in_folder("other.db");
    SqliteStore::open(&other, Use::Long)
        .unwrap()
        .commit(created("other"))
        .await
        .unwrap();
    std::fs::rename(&other, &file).unwrap();
    assert_replaced(&store, "replaced").await;
    // Put back, it is the store that it was.
    std::fs::rename(&away, &file).unwrap();
    store.commit(created("b")).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    let tasks = store.tasks(TaskQuery::default()).await.unwrap();
    assert_eq!(
        tasks
            .iter()
            .map(|task| task.id.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[tokio::test]
async fn nothing_is_acknowledged_once_the_log_was_removed() {
    for suffix in ["-wal", "-shm"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("relight.db");
        let store = SqliteStore::open(&file, Use::Long).unwrap();
        store.commit(created("a")).await.unwrap();
        std::fs::remove_file(folder.path().join(format!("relight.db{suffix}"))).unwrap();
        let refused = store.commit(created("b")).await;
        let is_refused = matches!(
            refused,
            Err(CommitError::Store(StoreError::Replaced { .. }))
        );
        assert!(is_refused, "{suffix}: {refused:?}");
    }
}

async fn assert_replaced(store: &SqliteStore, task: &str) {
    let written = store.commit(created(task)).await;
    let is_refused = matches!(
        written,
        Err(CommitError::Store(StoreError::Replaced { .. }))
    );
    assert!(is_refused, "{written:?}");
    let read = store.task(&id("a")).await;
    assert!(matches!(read, Err(StoreError::Replaced { .. })), "{read:?}");
}
