//! Set-up of the suite: names, commits and shorthands, so that each behaviour shows its point.

use relight_core::change::{Change, StepMark};
use relight_core::claimant::Claimant;
use relight_core::decide::Guard;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepOutcome};
use relight_core::task::{NewTask, Task};
use relight_core::time::{Span, Time};

use relight_store::{Commit, CommitError, Committed, EventQuery, Store};

/// Leases are measured in steps of this, for a store's clock may go on by itself.
pub(super) const CLOCK_NOISE_MS_MAX: u64 = 100_000;

/// Any guard.
pub(super) const FREE: Guard = Guard {
    fence: None,
    seq: None,
};

pub(super) fn fenced(fence: Fence) -> Guard {
    Guard {
        fence: Some(fence),
        seq: None,
    }
}

pub(super) fn at_seq(seq: u64) -> Guard {
    Guard {
        fence: None,
        seq: Some(seq),
    }
}

/// The moment at which everything happens unless a behaviour says otherwise.
pub(super) fn noon() -> Time {
    Time::from_ms(1_777_636_800_000)
}

pub(super) fn later(secs: u64) -> Time {
    noon().plus(Span::from_secs(secs))
}

pub(super) fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a valid id")
}

pub(super) fn agent(text: &str) -> AgentName {
    AgentName::new(text).expect("a valid name")
}

/// One of whom nothing but the name is known.
pub(super) fn claimant(text: &str) -> Claimant {
    Claimant::new(agent(text))
}

pub(super) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a valid key")
}

pub(super) fn step_key(text: &str) -> StepKey {
    StepKey::first(StepName::new(text).expect("a valid name"))
}

/// A task of which nothing but the id is known, with something added to it.
pub(super) fn new_task(text: &str, with: impl FnOnce(&mut NewTask)) -> NewTask {
    let mut new = NewTask::bare(id(text));
    with(&mut new);
    new
}

pub(super) fn created(new: NewTask) -> Commit {
    let task = new.id.clone();
    commit_of(&task, FREE, vec![Change::Created(Box::new(new))])
}

pub(super) fn commit_of(task: &TaskId, guard: Guard, changes: Vec<Change>) -> Commit {
    Commit {
        task: task.clone(),
        guard,
        at: noon(),
        changes,
    }
}

pub(super) async fn put(
    store: &dyn Store,
    task: &str,
    guard: Guard,
    changes: Vec<Change>,
) -> Result<Committed, CommitError> {
    store.commit(commit_of(&id(task), guard, changes)).await
}

/// Commits what must be taken.
pub(super) async fn done(
    store: &dyn Store,
    task: &str,
    guard: Guard,
    changes: Vec<Change>,
) -> Committed {
    put(store, task, guard, changes)
        .await
        .expect("a commit that must be taken")
}

pub(super) async fn add(store: &dyn Store, task: &str) -> Committed {
    add_with(store, task, |_| {}).await
}

pub(super) async fn add_with(
    store: &dyn Store,
    task: &str,
    with: impl FnOnce(&mut NewTask),
) -> Committed {
    store
        .commit(created(new_task(task, with)))
        .await
        .expect("a new task is taken")
}

/// Adds a task and takes a lease of a thousand seconds on it.
pub(super) async fn add_held(store: &dyn Store, task: &str) -> Fence {
    add(store, task).await;
    done(store, task, FREE, vec![lease_of(Some(1_000))])
        .await
        .fence
}

pub(super) fn lease_of(secs: Option<u64>) -> Change {
    let holder = Holder::Time {
        by: "somebody".to_owned(),
    };
    Change::LeaseTaken {
        holder,
        ttl: secs.map(Span::from_secs),
    }
}

pub(super) fn to(status: TaskStatus) -> Change {
    Change::Status {
        to: status,
        reason: None,
    }
}

pub(super) fn note(value: &str) -> Change {
    Change::ContextSet([("note".to_owned(), value.to_owned())].into())
}

pub(super) fn mark(step: &str, tries: u32, was_open: bool) -> StepMark {
    let rule = RepeatRule::Keyed;
    StepMark {
        key: step_key(step),
        rule,
        tries,
        fingerprint: None,
        was_open,
        call: None,
    }
}

pub(super) fn begun(step: &str) -> Change {
    Change::StepBegun(mark(step, 1, false))
}

pub(super) fn ended(step: &str, body: &str) -> Change {
    let output = Some(Output::keep(0, body.as_bytes().to_vec()));
    Change::StepEnded {
        mark: mark(step, 1, true),
        outcome: StepOutcome::Done,
        output,
    }
}

pub(super) fn failed(step: &str, exit_code: i32, body: &str) -> Change {
    let output = Some(Output::keep(exit_code, body.as_bytes().to_vec()));
    Change::StepEnded {
        mark: mark(step, 1, true),
        outcome: StepOutcome::Failed,
        output,
    }
}

pub(super) async fn read(store: &dyn Store, task: &str) -> Task {
    look(store, task).await.expect("the task is there")
}

/// The task, without the noise of a clock that goes on by itself.
async fn look(store: &dyn Store, task: &str) -> Option<Task> {
    let mut task = store
        .task(&id(task))
        .await
        .expect("a store that can be read")?;
    if let Some(left) = task.lease.held.as_mut().and_then(|held| held.left.as_mut()) {
        let whole = left.as_ms().div_ceil(CLOCK_NOISE_MS_MAX) * CLOCK_NOISE_MS_MAX;
        *left = Span::from_ms(whole);
    }
    Some(task)
}

pub(super) async fn left(store: &dyn Store, task: &str) -> Option<Span> {
    read(store, task)
        .await
        .lease
        .held
        .expect("the task is held")
        .left
}

pub(super) async fn step(store: &dyn Store, task: &str, step: &str) -> Option<Step> {
    store
        .step(&id(task), &step_key(step))
        .await
        .expect("a store that can be read")
}

pub(super) async fn output(store: &dyn Store, task: &str, step: &str) -> Option<Output> {
    store
        .output(&id(task), &step_key(step))
        .await
        .expect("a store that can be read")
}

/// The names of the task's steps, in the store's order.
pub(super) async fn steps(store: &dyn Store, task: &str) -> Vec<String> {
    let steps = store
        .steps(&id(task))
        .await
        .expect("a store that can be read");
    steps.iter().map(|step| step.key.to_string()).collect()
}

pub(super) fn all_events() -> EventQuery {
    EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: usize::MAX,
        newest: false,
    }
}

pub(super) async fn events(store: &dyn Store, query: EventQuery) -> Vec<Event> {
    store.events(query).await.expect("a store that can be read")
}

/// Everything that a store tells of one task, for comparing before and after.
pub(super) async fn all_of(
    store: &dyn Store,
    task: &str,
) -> (Option<Task>, Vec<Step>, Vec<Event>, u64) {
    let query = EventQuery {
        task: Some(id(task)),
        agent: None,
        ..all_events()
    };
    (
        look(store, task).await,
        store
            .steps(&id(task))
            .await
            .expect("a store that can be read"),
        events(store, query).await,
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
    )
}
