//! A waiting claim is woken by the end of a lease. The sweep, which is far away here, has no part in it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relight_redact::{MarkKey, Redactor};
use relight_runtime::TaskPolicy;
use relight_runtime::core::decide::{Right, StartLimits};
use relight_runtime::core::ids::{AgentName, TaskId};
use relight_runtime::core::lease::Holder;
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::task::NewTask;
use relight_runtime::core::time::Span;
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::os::process::{command, identity};
use relight_runtime::queue::{Claimed, Queue};
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::store::MemoryStore;

const HOUR: Span = Span::from_secs(3_600);
/// Far above what it takes, far below the time to the next sweep.
const BOUND: Duration = Duration::from_secs(60);
/// Within so many turns a claim on a store in memory has come to wait.
const TURNS: usize = 1_000;

fn stage() -> (Arc<MemoryStore>, Engine, Queue) {
    let redactor = Redactor::new(MarkKey::new([0; 32]));
    let store = Arc::new(MemoryStore::new());
    let engine = Engine::new(store.clone(), redactor);
    let policy = TaskPolicy::default();
    let recoverer = Recoverer::new(engine.clone(), Strategies::default(), policy);
    (store, engine, Queue::new(recoverer).with_sweep(HOUR))
}

async fn start(engine: &Engine, id: &str, holder: Holder, ttl: Option<Span>) {
    let new = NewTask::bare(TaskId::new(id).unwrap());
    let started = engine.start(new, Right::Unfenced, holder, ttl, StartLimits::OwnBudget);
    started.await.unwrap();
}

type Claiming<'q> = Pin<Box<dyn Future<Output = Result<Claimed, ActError>> + 'q>>;

/// A claim that has found nothing and waits.
async fn waiting(queue: &Queue) -> Claiming<'_> {
    let mut claiming: Claiming<'_> = Box::pin(async {
        let agent = AgentName::new("b").unwrap();
        let holder = Holder::Time { by: "b".to_owned() };
        queue
            .claim_within(HOUR, &agent, &[], &holder, Some(HOUR))
            .await
    });
    until_it_waits(&mut claiming).await;
    claiming
}

async fn until_it_waits(claiming: &mut Claiming<'_>) {
    let turns = async {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        claimed = claiming => panic!("there is nothing to claim: {claimed:?}"),
        () = turns => {}
    }
}

async fn claimed(claiming: Claiming<'_>) -> String {
    let claimed = tokio::time::timeout(BOUND, claiming).await;
    match claimed.expect("an event wakes it").unwrap() {
        Claimed::Task(started) => started.view.task.id.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiting_claim_takes_over_from_each_process_that_is_killed() {
    let (_, engine, queue) = stage();
    let mut holders = Vec::new();
    for id in ["one", "two", "three"] {
        let child = command("sleep", &["3600"]).spawn().unwrap();
        let holder = Holder::Process(identity(child.id()).unwrap());
        start(&engine, id, holder, None).await;
        holders.push((id, child));
    }
    for (id, mut child) in holders {
        let claiming = waiting(&queue).await;
        child.kill().unwrap();
        assert_eq!(claimed(claiming).await, id);
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_waiting_claim_watches_who_took_a_task_meanwhile() {
    let (_, engine, queue) = stage();
    let mut claiming = waiting(&queue).await;
    let mut child = command("sleep", &["3600"]).spawn().unwrap();
    let holder = Holder::Process(identity(child.id()).unwrap());
    start(&engine, "t", holder, None).await;
    until_it_waits(&mut claiming).await;
    child.kill().unwrap();
    assert_eq!(claimed(claiming).await, "t");
    child.wait().unwrap();
}

#[tokio::test]
async fn a_waiting_claim_takes_over_when_a_lease_by_time_ends() {
    let (store, engine, queue) = stage();
    let holder = Holder::Time {
        by: "another machine".to_owned(),
    };
    let lease = Span::from_ms(500);
    start(&engine, "t", holder, Some(lease)).await;
    let claiming = waiting(&queue).await;
    // The clock of this store stands still otherwise.
    store.advance(lease);
    assert_eq!(claimed(claiming).await, "t");
}

#[tokio::test]
async fn a_waiting_claim_ends_with_the_process_that_it_claims_for() {
    let (_, engine, queue) = stage();
    let mut child = command("sleep", &["3600"]).spawn().unwrap();
    let holder = Holder::Process(identity(child.id()).unwrap());
    let agent = AgentName::new("b").unwrap();
    let mut claiming: Claiming<'_> = Box::pin(queue.claim_within(HOUR, &agent, &[], &holder, None));
    until_it_waits(&mut claiming).await;
    child.kill().unwrap();
    child.wait().unwrap();
    engine
        .add(NewTask::bare(TaskId::new("t").unwrap()))
        .await
        .unwrap();
    let claimed = tokio::time::timeout(BOUND, claiming).await;
    let error = claimed.expect("an event wakes it").unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    let task = engine.view(&TaskId::new("t").unwrap()).await.unwrap().task;
    assert_eq!((task.status, task.retries), (TaskStatus::Created, 0));
}
