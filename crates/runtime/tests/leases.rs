//! Leases of a program that embeds Relight: held, renewed, lost.

use std::sync::Arc;
use std::time::Duration;

use relight_redact::{MarkKey, Redactor};
use relight_runtime::EngineAccess as _;
use relight_runtime::core::decide::{Refusal, Right, StartLimits, TaskEvent};
use relight_runtime::core::ids::TaskId;
use relight_runtime::core::lease::Holder;
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::time::Span;
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::os::clock;
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::store::MemoryStore;
use relight_runtime::{Relight, RunningTask, StepError, TaskPolicy};

type Never = std::convert::Infallible;

const MINUTE: Duration = Duration::from_secs(60);

/// A store in memory whose lease clock can be moved.
fn in_memory() -> (Arc<MemoryStore>, Relight) {
    let store = Arc::new(MemoryStore::new());
    let redactor = Redactor::new(MarkKey::new([0; 32]));
    (
        Arc::clone(&store),
        Relight::with_recoverer(Recoverer::new(
            Engine::new(store, redactor),
            Strategies::default(),
            TaskPolicy::default(),
        )),
    )
}

/// A store in a file, as programs use it.
async fn in_file() -> (tempfile::TempDir, Relight) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let url = format!("sqlite:{}/relight.db", folder.path().display());
    let relight = Relight::open(&url).await.expect("the store opens");
    (folder, relight)
}

fn id() -> TaskId {
    TaskId::new("t").expect("an id")
}

async fn start(relight: &Relight) -> Result<RunningTask, ActError> {
    relight.task("t").expect("an id").start().await
}

async fn start_for(relight: &Relight, lease: Span) -> RunningTask {
    relight
        .task("t")
        .expect("an id")
        .lease(lease)
        .start()
        .await
        .expect("the task starts")
}

/// Somebody on another machine asks for the task.
async fn other_asks(relight: &Relight) -> Result<(), ActError> {
    let holder = Holder::Time {
        by: "another machine".to_owned(),
    };
    let ttl = Some(Span::from_secs(3600));
    let limits = StartLimits::OwnBudget;
    let right = Right::Unfenced;
    relight
        .engine()
        .take(&id(), right, holder, ttl, false, limits)
        .await
        .map(|_| ())
}

/// A person takes the task away.
async fn take_away(relight: &Relight) {
    let event = TaskEvent::Release { force: true };
    relight
        .engine()
        .act(&id(), Right::Unfenced, event)
        .await
        .expect("a person may");
}

async fn step(task: &RunningTask) -> Result<u32, StepError<Never>> {
    task.step("s", || async { Ok(1) }).await
}

fn is_held(result: &Result<impl Sized, ActError>) -> bool {
    matches!(result, Err(ActError::Refused(Refusal::Held { .. })))
}

#[tokio::test]
async fn two_handles_of_one_process_do_not_hold_one_task() {
    let (_, relight) = in_memory();
    let first = start(&relight).await.unwrap();
    assert!(is_held(&start(&relight).await));
    drop(first);
    assert!(start(&relight).await.unwrap().resumed());
}

#[tokio::test]
async fn two_openings_of_one_file_do_not_hold_one_task() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/relight.db", folder.path().display());
    let (one, two) = (
        Relight::open(&url).await.unwrap(),
        Relight::open(&url).await.unwrap(),
    );
    let first = start(&one).await.unwrap();
    assert!(is_held(&start(&two).await));
    drop(first);
    assert!(start(&two).await.is_ok());
}

#[tokio::test]
async fn two_stores_have_tasks_of_the_same_name() {
    let ((_, one), (_, two)) = (in_memory(), in_memory());
    let _first = start(&one).await.unwrap();
    assert!(start(&two).await.is_ok());
}

#[tokio::test]
async fn a_fenced_handle_stops_with_the_typed_error() {
    let (_, relight) = in_memory();
    let task = start(&relight).await.unwrap();
    take_away(&relight).await;
    let error = step(&task).await.unwrap_err();
    assert!(
        matches!(error, StepError::Fenced(Refusal::Fenced { .. })),
        "{error}"
    );
    let set = task.set("a", "b").await.unwrap_err();
    assert!(
        matches!(set, ActError::Refused(Refusal::Fenced { .. })),
        "{set}"
    );
    let done = task.done().await.unwrap_err();
    assert!(
        matches!(done, ActError::Refused(Refusal::Fenced { .. })),
        "{done}"
    );
}

#[tokio::test]
async fn a_step_that_runs_while_the_lease_goes_records_nothing() {
    let (_folder, relight) = in_file().await;
    let task = start(&relight).await.unwrap();
    let run = || async {
        take_away(&relight).await;
        Ok::<_, Never>(1)
    };
    let error = task.step("s", run).await.unwrap_err();
    assert!(matches!(error, StepError::Fenced(_)), "{error}");
    assert_eq!(relight.engine().task(&id()).await.unwrap().steps_done, 0);
}

#[tokio::test]
async fn lost_completes_as_soon_as_a_write_was_refused() {
    let (_, relight) = in_memory();
    let task = start(&relight).await.unwrap();
    take_away(&relight).await;
    step(&task).await.unwrap_err();
    let lost = tokio::time::timeout(MINUTE, task.lost()).await.unwrap();
    assert!(matches!(lost, Refusal::Fenced { .. }));
}

#[tokio::test]
async fn lost_completes_by_renewal_alone() {
    let (_, relight) = in_memory();
    let task = start_for(&relight, Span::from_ms(300)).await;
    take_away(&relight).await;
    tokio::time::timeout(MINUTE, task.lost()).await.unwrap();
}

#[tokio::test]
async fn lost_completes_for_a_handle_that_follows_its_process() {
    let (_, relight) = in_memory();
    let task = start(&relight).await.unwrap();
    take_away(&relight).await;
    tokio::time::timeout(MINUTE, task.lost()).await.unwrap();
}

#[tokio::test]
async fn renewal_keeps_a_lease_beyond_its_length() {
    let (_folder, relight) = in_file().await;
    let task = start_for(&relight, Span::from_secs(4)).await;
    let over = clock::now().plus(Span::from_secs(6));
    while clock::now() < over {
        assert!(is_held(&other_asks(&relight).await));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    step(&task).await.unwrap();
}

#[tokio::test]
async fn a_frozen_holder_is_refused_once_another_took_the_task() {
    let (store, relight) = in_memory();
    let task = start_for(&relight, Span::from_secs(3600)).await;
    store.advance(Span::from_secs(3599));
    assert!(is_held(&other_asks(&relight).await));
    store.advance(Span::from_secs(2));
    other_asks(&relight).await.unwrap();
    assert!(matches!(step(&task).await, Err(StepError::Fenced(_))));
}

#[tokio::test]
async fn a_frozen_holder_whose_task_nobody_took_goes_on() {
    let (store, relight) = in_memory();
    let task = start_for(&relight, Span::from_secs(3600)).await;
    store.advance(Span::from_secs(7200));
    assert_eq!(step(&task).await.unwrap(), 1);
    assert!(is_held(&other_asks(&relight).await));
}

#[tokio::test]
async fn dropping_a_fenced_handle_leaves_the_new_holder_alone() {
    let (_, relight) = in_memory();
    let task = start(&relight).await.unwrap();
    take_away(&relight).await;
    other_asks(&relight).await.unwrap();
    drop(task);
    let now = relight.engine().task(&id()).await.unwrap();
    assert_eq!(now.status, TaskStatus::InProgress);
    assert!(
        now.lease
            .held
            .is_some_and(|held| held.holder.to_string() == "another machine")
    );
}

#[tokio::test]
async fn a_finished_task_has_no_lease() {
    let (_, relight) = in_memory();
    start(&relight).await.unwrap().done().await.unwrap();
    assert!(
        relight
            .engine()
            .task(&id())
            .await
            .unwrap()
            .lease
            .held
            .is_none()
    );
}

#[tokio::test]
async fn each_lease_has_a_larger_number() {
    let (_, relight) = in_memory();
    let mut last = 0;
    for _ in 0..3 {
        let task = start(&relight).await.unwrap();
        assert!(task.fence().0 > last);
        last = task.fence().0;
    }
}

#[tokio::test]
async fn a_skill_that_is_a_secret_is_refused() {
    let (_, relight) = in_memory();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let refused = relight
        .task("t")
        .expect("an id")
        .needs(&secret)
        .start()
        .await
        .err();
    let error = refused.expect("a secret is not stored").to_string();
    assert!(
        error.contains("the skill looks like it contains a secret"),
        "{error}"
    );
    assert!(!error.contains(&secret), "{error}");
    relight
        .task("t")
        .expect("an id")
        .needs("gpu")
        .start()
        .await
        .expect("a word is a skill");
}
