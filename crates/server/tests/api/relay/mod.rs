//! A store that is asked through a daemon is a store like any other: it passes the suite of all
//! backends, and keeps its word when answers get lost and daemons are restarted.

mod lossy;
mod whole;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::{AgentName, NodeName, SessionId, SessionKey, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::session::{Session, SessionChange};
use relight_core::task::{NewTask, TaskSpec};
use relight_core::time::Span;
use relight_redact::Redactor;
use relight_runtime::engine::Engine;
use relight_runtime::os::clock;
use relight_runtime::supervise::control::daemon_socket;
use relight_server::{RelayedStore, Server, Settings};
use relight_store::{
    AgentCommit, Commit, CommitError, EventQuery, MemoryStore, Store, StoreError, TaskQuery,
};
use relight_testkit::conformance::Harness;
use serde_json::{Value, json};

use crate::ground::{Ground, block_on, serve};
use lossy::Lossy;
use whole::Whole;

relight_testkit::conformance_suite!(daemon);

/// What is waited for comes sooner, and a wait that is not ended comes later.
const LIMIT: Duration = Duration::from_secs(60);

fn daemon() -> Daemon {
    Daemon::over(&MemoryStore::new())
}

/// A daemon over a store in memory.
struct Daemon {
    memory: MemoryStore,
    home: tempfile::TempDir,
    server: Option<Server>,
}

impl Daemon {
    fn over(memory: &MemoryStore) -> Self {
        let home = tempfile::tempdir().unwrap();
        let key = relight_runtime::mark_key_beside(home.path()).unwrap();
        let engine = Engine::new(Arc::new(memory.clone()), Redactor::new(key));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Some(serve(
            home.path(),
            &engine,
            Settings::default(),
            false,
            &asked,
        ));
        Self {
            memory: memory.clone(),
            home,
            server,
        }
    }

    fn socket(&self) -> PathBuf {
        daemon_socket(self.home.path())
    }

    fn store(&self) -> RelayedStore {
        RelayedStore::open(&self.socket()).unwrap()
    }
}

#[async_trait]
impl Harness for Daemon {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Whole {
            relayed: self.store(),
            direct: self.memory.clone(),
        })
    }

    async fn advance(&self, span: Span) {
        self.memory.advance(span);
    }
}

fn task(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

/// Adds a task and takes its lease.
fn started(id: &str) -> Commit {
    let new = NewTask {
        id: task(id),
        agent: None,
        spec: TaskSpec::default(),
        context: Default::default(),
        expires_at: None,
        checkpoint: None,
    };
    let holder = Holder::Time {
        by: "somebody".to_owned(),
    };
    let changes = vec![
        Change::Created(Box::new(new)),
        Change::LeaseTaken {
            holder,
            ttl: Some(Span::from_secs(600)),
        },
    ];
    Commit {
        task: task(id),
        guard: Guard::default(),
        at: clock::now(),
        changes,
    }
}

/// Gives the lease back, after which its fence is worth nothing.
fn ended(id: &str) -> Commit {
    let guard = Guard {
        fence: Some(Fence(1)),
        seq: None,
    };
    Commit {
        task: task(id),
        guard,
        at: clock::now(),
        changes: vec![Change::LeaseEnded],
    }
}

async fn events_of(store: &dyn Store) -> usize {
    let all = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: 1_000,
        newest: false,
    };
    store.events(all).await.unwrap().len()
}

#[tokio::test]
async fn an_answer_that_was_lost_on_the_way_is_given_again() {
    let daemon = daemon();
    let line = Lossy::new(daemon.home.path(), vec![daemon.socket(), daemon.socket()]);
    let store = RelayedStore::open(&line.socket).unwrap();
    let committed = store.commit(started("t")).await.unwrap();
    assert_eq!((committed.seq, committed.fence), (1, Fence(1)));
    assert_eq!(events_of(&daemon.memory).await, 2, "it was made once");
    assert_eq!(line.lost(), 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_with_its_daemon_is_read_back() {
    for commit in [started("new"), ended("old")] {
        let daemon = daemon();
        daemon.memory.commit(started("old")).await.unwrap();
        let next = Daemon::over(&daemon.memory);
        let line = Lossy::new(daemon.home.path(), vec![daemon.socket(), next.socket()]);
        let store = RelayedStore::open(&line.socket).unwrap();
        let committed = store.commit(commit.clone()).await.unwrap();
        assert_eq!(committed.fence, Fence(1), "{commit:?}");
        assert_eq!(line.lost(), 1);
        // What was refused and never made stays refused.
        let line = Lossy::new(next.home.path(), vec![daemon.socket(), next.socket()]);
        let store = RelayedStore::open(&line.socket).unwrap();
        let later = Commit {
            at: commit.at.plus(Span::from_ms(1)),
            ..commit
        };
        let refused = store.commit(later).await.unwrap_err();
        assert!(
            matches!(refused, CommitError::Exists(_) | CommitError::Fenced { .. }),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn the_change_of_a_session_whose_answer_was_lost_with_its_daemon_is_read_back() {
    let daemon = daemon();
    let next = Daemon::over(&daemon.memory);
    let line = Lossy::new(daemon.home.path(), vec![daemon.socket(), next.socket()]);
    let store = RelayedStore::open(&line.socket).unwrap();
    let (key, id) = (SessionKey::new("k").unwrap(), SessionId::new("s").unwrap());
    let change = SessionChange {
        next: Session::new(key, id, clock::now()),
        told: Vec::new(),
        renews: false,
    };
    assert_eq!(
        store
            .commit_sessions(vec![change], clock::now())
            .await
            .unwrap(),
        [true]
    );
    assert_eq!(line.lost(), 1);
}

#[tokio::test]
async fn a_daemon_that_stays_away_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let socket = daemon_socket(folder.path());
    let store = RelayedStore::open_with_patience(&socket, Duration::from_millis(30)).unwrap();
    let error = store.tasks(TaskQuery::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("relight up on this node starts it"),
        "{error}"
    );
}

#[tokio::test]
async fn a_daemon_that_comes_back_answers_what_was_asked_meanwhile() {
    let mut daemon = daemon();
    let (store, socket) = (Arc::new(daemon.store()), daemon.socket());
    store.commit(started("t")).await.unwrap();
    daemon.server.take().unwrap().stop().await;
    assert!(!socket.exists(), "nobody listens");
    let asked = tokio::spawn(async move { store.task(&task("t")).await });
    // Polled at least once before the next daemon is there.
    tokio::task::yield_now().await;
    let next = Daemon::over(&daemon.memory);
    std::os::unix::fs::symlink(next.socket(), &socket).unwrap();
    let found = tokio::time::timeout(LIMIT, asked).await.unwrap().unwrap();
    assert_eq!(found.unwrap().unwrap().id, task("t"));
}

#[tokio::test]
async fn whoever_waits_for_a_change_does_not_hold_up_the_end_of_the_daemon() {
    let mut daemon = daemon();
    let store = daemon.store();
    store.commit(started("t")).await.unwrap();
    let server = daemon.server.take().unwrap();
    let waiting = tokio::spawn(async move { store.changed(1_000).await });
    tokio::task::yield_now().await;
    tokio::time::timeout(LIMIT, server.stop()).await.unwrap();
    // Told that it ended, or that it is away: both in less than a wait for a change.
    let _ = tokio::time::timeout(LIMIT * 2, waiting)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn what_only_daemons_do_is_refused() {
    let daemon = daemon();
    let (store, now) = (daemon.store(), clock::now());
    let agent = AgentName::new("a").unwrap();
    let node = NodeName::new("n").unwrap();
    let commit = AgentCommit {
        agent: agent.clone(),
        guard: Guard::default(),
        at: now,
        changes: vec![],
    };
    let refused = [
        store.commit_agent(commit).await.unwrap_err().to_string(),
        store
            .forget_agent(&agent, 1, now)
            .await
            .unwrap_err()
            .to_string(),
        store
            .drain_node(&node, true, now)
            .await
            .unwrap_err()
            .to_string(),
        store.forget_node(&node, now).await.unwrap_err().to_string(),
        store
            .forget(vec![(task("t"), 1)], now)
            .await
            .unwrap_err()
            .to_string(),
        store.forget_events(now).await.unwrap_err().to_string(),
        store.forget_attempts(now).await.unwrap_err().to_string(),
        store.forget_sessions(vec![]).await.unwrap_err().to_string(),
        store
            .keep("boots", None, json!(1))
            .await
            .unwrap_err()
            .to_string(),
        store
            .keep_and_tell("audit", None, json!(1), vec![])
            .await
            .unwrap_err()
            .to_string(),
    ];
    assert!(
        refused.iter().all(|text| text.contains("cannot be used")),
        "{refused:#?}"
    );
    assert_eq!(events_of(&daemon.memory).await, 0);
    assert_eq!(daemon.memory.kept("boots").await.unwrap(), None);
}

#[tokio::test]
async fn the_mark_of_a_drain_is_kept_and_nothing_is_not_null() {
    let daemon = daemon();
    let store = daemon.store();
    let name = relight_runtime::drain::NAME;
    assert!(store.keep(name, None, Value::Null).await.unwrap());
    assert_eq!(store.kept(name).await.unwrap(), Some(Value::Null));
    assert!(!store.keep(name, None, json!(1)).await.unwrap());
    assert!(store.keep(name, Some(Value::Null), json!(1)).await.unwrap());
}

#[test]
fn nobody_is_served_over_tcp() {
    let ground = Ground::new();
    let question = json!({"version": 1, "call": {"read": "newest_event"}});
    assert_eq!(ground.post("/relay", &question).status, 404);
    assert_eq!(
        ground.ask("POST", "/relay").json(&question).send().status,
        401
    );
    let asked = ground
        .ask("POST", "/relay")
        .over_socket()
        .json(&question)
        .send();
    assert_eq!(asked.text, r#"{"again":false,"answer":{"Ok":0}}"#);
}

#[test]
fn a_relight_of_another_version_is_told_so() {
    let ground = Ground::new();
    let ask = |question: Value| {
        let answer = ground
            .ask("POST", "/relay")
            .over_socket()
            .json(&question)
            .send();
        (answer.status, answer.text)
    };
    let (status, text) = ask(json!({"version": 2, "call": {"dance": {}}}));
    assert_eq!(status, 409);
    assert!(
        text.contains("other_version") && text.contains("restart the daemon"),
        "{text}"
    );
    let (status, text) = ask(json!({"version": 1, "call": {"dance": {}}}));
    assert_eq!(status, 422, "{text}");
    assert!(text.contains("does not understand"), "{text}");
    assert_eq!(ask(json!({"call": 7})).0, 409);
    assert_eq!(ask(json!("dance")).0, 422);
}

#[tokio::test]
async fn a_commit_that_is_none_is_refused_and_harms_nobody() {
    let daemon = daemon();
    let store = daemon.store();
    let mut commit = started("t");
    commit.task = task("other");
    let refused = store.commit(commit).await.unwrap_err().to_string();
    assert!(refused.contains("a commit is about one task"), "{refused}");
    store.commit(started("t")).await.unwrap();
}

#[test]
fn an_output_larger_than_any_other_body_is_taken() {
    let ground = Ground::new();
    let store = RelayedStore::open(&ground.socket()).unwrap();
    let mut commit = started("t");
    let note = Change::ContextSet([("large".to_owned(), "x".repeat(3 << 20))].into());
    commit.changes.push(note);
    block_on(store.commit(commit)).unwrap();
    let found = block_on(store.task(&task("t"))).unwrap().unwrap();
    assert_eq!(found.context["large"].len(), 3 << 20);
}
