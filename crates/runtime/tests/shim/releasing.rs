//! A supervisor that gives agents back: never one that lives, or is about to.

use std::sync::Arc;

use relight_core::agent::change::AgentChange;
use relight_core::agent::{Agent, AgentPlan, AgentStateKind};
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::engine::Engine;
use relight_runtime::presets::Preset;
use relight_runtime::supervise::notices::{Notice, What};
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::{AcquireMode, Supervisor, SupervisorSettings};
use relight_runtime::supervise::unnoticed_deaths::spec_of;
use relight_store::{MemoryStore, Store};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

fn x() -> AgentName {
    AgentName::new("x").unwrap()
}

/// An agent that lives until it is told to end.
fn spec(home: &TempDir) -> AgentSpec {
    let folder = home.path().display().to_string();
    let plan = AgentPlan {
        folder,
        ..AgentPlan::default()
    };
    let agent: Agent = AgentChange::first(&x(), &plan, Time::from_ms(0));
    let preset = Preset::by_name("generic", None).unwrap();
    AgentSpec {
        command: vec!["/bin/sleep".into(), "600".into()],
        ..spec_of(agent, preset)
    }
}

/// What is heard of a supervisor.
type Heard = UnboundedReceiver<Notice>;

/// One that supervises an agent which has come to rest.
async fn at_rest(home: &TempDir, store: &Arc<dyn Store>) -> (Supervisor, Heard) {
    let engine = Engine::new(Arc::clone(store), Redactor::new(MarkKey::new([0; 32])));
    let settings = SupervisorSettings {
        home: home.path().to_owned(),
        program: Some(env!("CARGO_BIN_EXE_relight-shim").into()),
        ..SupervisorSettings::default()
    };
    let (mut supervisor, notices) = Supervisor::new(engine, settings).unwrap();
    supervisor
        .acquire(spec(home), AcquireMode::HoldBack, false)
        .await
        .unwrap();
    let stopped = supervisor.stop(&x()).unwrap().await.unwrap();
    assert_eq!(stopped.state, AgentStateKind::Stopped);
    (supervisor, notices)
}

async fn is_held(store: &Arc<dyn Store>) -> bool {
    store
        .agent(&x())
        .await
        .unwrap()
        .unwrap()
        .lease
        .held
        .is_some()
}

#[tokio::test]
async fn what_rests_is_given_back() {
    let (home, store) = (
        tempfile::tempdir().unwrap(),
        Arc::new(MemoryStore::new()) as _,
    );
    let (mut supervisor, _notices) = at_rest(&home, &store).await;
    supervisor.release_at_rest().await;
    assert!(!is_held(&store).await && supervisor.names().next().is_none());
}

#[tokio::test]
async fn what_was_just_told_to_start_is_not_given_back() {
    let (home, store) = (
        tempfile::tempdir().unwrap(),
        Arc::new(MemoryStore::new()) as _,
    );
    let (mut supervisor, _notices) = at_rest(&home, &store).await;
    let started = supervisor.start(&x()).unwrap();
    supervisor.release_at_rest().await;
    assert!(is_held(&store).await, "it lives, or is about to");
    assert_eq!(supervisor.names().count(), 1);
    assert_eq!(started.await.unwrap().state, AgentStateKind::Running);
    supervisor.stop(&x()).unwrap().await.unwrap();
    supervisor.release_at_rest().await;
    assert!(!is_held(&store).await, "once it has come to rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_supervisor_took_is_over_as_soon_as_that_is_heard() {
    let (home, store) = (
        tempfile::tempdir().unwrap(),
        Arc::new(MemoryStore::new()) as _,
    );
    for _ in 0..20 {
        let (mut first, mut notices) = at_rest(&home, &store).await;
        let (second, _) = at_rest(&home, &store).await;
        drop(first.start(&x()));
        while notices.recv().await.unwrap().what != What::Lost {}
        assert_eq!(first.lost(), [x()]);
        drop(second);
    }
}
