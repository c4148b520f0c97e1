//! Agents in a file: whose thread commits them, and what is saved of them.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use relight_core::agent::AttemptTag;
use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_store::sqlite::salvage::salvage;
use relight_store::sqlite::{SqliteStore, Use};
use relight_store::{AgentCommit, AgentQuery, AttemptQuery, EventQuery, Store};
use serde_json::json;

fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a good name")
}

/// A new agent with its first attempt.
fn created(name: &str) -> AgentCommit {
    let tag = AttemptTag::from_text(format!("{name}.1.0"));
    let changes = vec![
        AgentChange::Created(Box::default()),
        AgentChange::Begun { number: 1, tag },
    ];
    AgentCommit {
        agent: agent(name),
        guard: Guard::default(),
        at: Time::from_ms(1),
        changes,
    }
}

fn events_of(name: &str) -> EventQuery {
    let (task, agent, kinds) = (None, Some(agent(name)), Vec::new());
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

fn all_attempts() -> AttemptQuery {
    AttemptQuery {
        agent: None,
        ended: false,
        limit: usize::MAX,
        before: None,
    }
}

/// Writes into the file behind the store's back.
fn tamper(file: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).expect("the file opens");
    connection.execute_batch(sql).expect("the statement runs");
}

async fn names(store: &SqliteStore) -> Vec<String> {
    let agents = store
        .agents(AgentQuery::default())
        .await
        .expect("a store that can be read");
    agents.iter().map(|agent| agent.name.to_string()).collect()
}

#[tokio::test]
async fn an_agents_commit_never_holds_up_its_thread() {
    for usage in [Use::Long, Use::Short] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("relight.db");
        let store = SqliteStore::open(&file, usage).unwrap();
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // The file is locked: whoever commits waits, and it is not this thread.
        let mut commits = Vec::new();
        for number in 0..10 {
            commits.push(Box::pin(store.commit_agent(created(&format!("a{number}")))));
        }
        let mut context = Context::from_waker(Waker::noop());
        for commit in &mut commits {
            assert!(pin!(commit).poll(&mut context).is_pending());
        }
        other.execute_batch("COMMIT").unwrap();
        for commit in commits {
            assert_eq!(commit.await.unwrap().seq, 1);
        }
        assert_eq!(names(&store).await.len(), 10);
    }
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_any_more_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.db");
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut commit = Box::pin(store.commit_agent(created("a")));
    assert_eq!(
        commit
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .map(drop),
        Poll::Pending
    );
    drop(commit);
    other.execute_batch("COMMIT").unwrap();
    drop(store);
    assert_eq!(
        names(&SqliteStore::open(&file, Use::Long).unwrap()).await,
        ["a"]
    );
}

#[tokio::test]
async fn one_bad_agent_hides_no_other_and_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.db");
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    for name in ["a", "b", "c"] {
        store.commit_agent(created(name)).await.unwrap();
    }
    tamper(&file, "UPDATE agent SET body = 'x' WHERE name = 'b'");
    tamper(&file, "UPDATE attempt SET body = 'x' WHERE agent = 3");
    assert_eq!(names(&store).await, ["a", "c"]);
    assert_eq!(store.attempts(all_attempts()).await.unwrap().len(), 2);
    let damage = store.inventory(true).await.unwrap().damage;
    for what in ["agent b cannot be read", "attempt c.1.0 cannot be read"] {
        assert!(damage.iter().any(|line| line.contains(what)), "{damage:?}");
    }
}

#[tokio::test]
async fn salvage_carries_agents_attempts_and_records_over() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved) = (
        folder.path().join("relight.db"),
        folder.path().join("saved.db"),
    );
    let store = SqliteStore::open(&file, Use::Long).unwrap();
    for name in ["a", "lost"] {
        store.commit_agent(created(name)).await.unwrap();
    }
    assert!(store.keep("boots", None, json!([1, 2])).await.unwrap());
    let (before, events) = (
        store.agent(&agent("a")).await,
        store.events(events_of("a")).await,
    );
    tamper(&file, "DELETE FROM agent WHERE name = 'lost'");
    let report = salvage(&file, &saved).unwrap();
    assert!(
        report.iter().all(|table| table.errors.is_empty()),
        "{report:?}"
    );
    let store = SqliteStore::open(&saved, Use::Long).unwrap();
    assert_eq!(store.agent(&agent("a")).await.unwrap(), before.unwrap());
    assert_eq!(store.events(events_of("a")).await.unwrap(), events.unwrap());
    assert_eq!(store.kept("boots").await.unwrap(), Some(json!([1, 2])));
    // A new agent takes the lost one's place, and nothing of it.
    let changes = vec![AgentChange::Created(Box::default())];
    store
        .commit_agent(AgentCommit {
            changes,
            ..created("new")
        })
        .await
        .unwrap();
    assert_eq!(store.events(events_of("new")).await.unwrap().len(), 1);
    assert_eq!(store.attempts(all_attempts()).await.unwrap().len(), 1);
}
