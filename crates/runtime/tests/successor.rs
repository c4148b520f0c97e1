//! What a death leaves in the store and the log, and the state that follows its task.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use relight_redact::{MarkKey, Redactor};
use relight_runtime::core::agent::active_state::ActiveState;
use relight_runtime::core::agent::change::AgentChange;
use relight_runtime::core::agent::death::{Death, HowEnded};
use relight_runtime::core::agent::{
    AgentPlan, AgentState, Attempt, AttemptTag, Cause, PostMortem, RecordedDeath,
};
use relight_runtime::core::decide::{Guard, Right, StartLimits, TaskEvent};
use relight_runtime::core::ids::{AgentName, StepName, TaskId};
use relight_runtime::core::lease::{Fence, Holder, ProcessIdentity};
use relight_runtime::core::step::{RepeatRule, StepKey, StepOutcome};
use relight_runtime::core::task::{NewTask, Task};
use relight_runtime::core::time::{Span, Time};
use relight_runtime::engine::Engine;
use relight_runtime::os::{clock, process};
use relight_runtime::store::{AgentCommit, MemoryStore};
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::post_mortem::{DeathFindings, LOG_END_BYTES, take};
use relight_runtime::supervise::shim::wire::ExitRecord;
use relight_runtime::supervise::successor::refresh_state;

fn engine() -> Engine {
    Engine::new(
        Arc::new(MemoryStore::new()),
        Redactor::new(MarkKey::new([0; 32])),
    )
}

fn agent() -> AgentName {
    AgentName::new("team.writer").expect("a name")
}

fn tag(number: u32) -> AttemptTag {
    AttemptTag::new(&agent(), number, 7)
}

fn this_process() -> ProcessIdentity {
    process::identity(std::process::id()).expect("this process lives")
}

fn attempt(number: u32, begun_at: Time) -> Attempt {
    let begun = AgentChange::Begun {
        number,
        tag: tag(number),
    };
    begun
        .apply_to_attempt(&agent(), None, begun_at)
        .expect("a begin makes an attempt")
}

fn key(name: &str) -> StepKey {
    StepKey::first(StepName::new(name).expect("a name"))
}

/// A task with these steps that the attempt holds.
async fn held_task(engine: &Engine, id: &str, steps: &[&str], number: u32) -> (TaskId, Fence) {
    let id = TaskId::new(id).expect("an id");
    let mut new = NewTask::bare(id.clone());
    new.spec.steps = steps.iter().map(|name| key(name).name).collect();
    let holder = Holder::Attempt {
        process: None,
        attempt: tag(number).to_string(),
        shim: this_process(),
    };
    let started = engine
        .start(new, Right::Unfenced, holder, None, StartLimits::OwnBudget)
        .await
        .expect("it starts");
    (id, started.fence)
}

async fn begin(engine: &Engine, task: &(TaskId, Fence), step: &str) {
    let event = TaskEvent::StepBegin {
        key: key(step),
        rule: RepeatRule::Keyed,
        fingerprint: None,
    };
    engine
        .act(&task.0, Right::Fence(task.1), event)
        .await
        .expect("the step begins");
}

async fn finish(engine: &Engine, task: &(TaskId, Fence), step: &str) {
    begin(engine, task, step).await;
    let event = TaskEvent::StepEnd {
        key: key(step),
        outcome: StepOutcome::Done,
        output: None,
    };
    engine
        .act(&task.0, Right::Fence(task.1), event)
        .await
        .expect("the step ends");
}

async fn found(engine: &Engine, log_end: &[u8]) -> DeathFindings {
    take(engine, log_end, &attempt(1, clock::now()), None)
        .await
        .expect("the store answers")
}

#[tokio::test]
async fn an_attempt_without_a_task_leaves_its_output_and_its_use() {
    let record = ExitRecord {
        tag: tag(1),
        number: 1,
        process: None,
        how: HowEnded::Signal(9),
        note: None,
        at: clock::now(),
        lived: Span::ZERO,
        memory_max_kib: Some(5_000),
        cpu_ms: Some(12),
        oom: false,
        leftovers: 2,
        survivors: 0,
        lease_ended: false,
        exhausted: false,
    };
    let attempt = attempt(1, clock::now());
    let found = take(
        &engine(),
        b"one\n\x1b[31mtwo\x1b[0m\n",
        &attempt,
        Some(&record),
    )
    .await;
    let expected = PostMortem {
        last_output: "one\ntwo".to_owned(),
        memory_max_kib: Some(5_000),
        cpu_ms: Some(12),
        leftovers: 2,
        ..PostMortem::default()
    };
    let found = found.expect("the store answers");
    assert_eq!(found.post_mortem, expected);
    assert_eq!(
        (found.made_progress, found.unfinished_task, found.held.len()),
        (false, None, 0)
    );
}

#[tokio::test]
async fn the_task_it_held_is_told_with_what_is_done_in_doubt_and_next() {
    let engine = engine();
    let task = held_task(&engine, "deploy", &["build", "push", "tell"], 1).await;
    finish(&engine, &task, "build").await;
    begin(&engine, &task, "push").await;
    let found = found(&engine, b"").await;
    let told = PostMortem {
        task: Some("deploy".to_owned()),
        last_step: Some("push".to_owned()),
        done: vec!["build".to_owned()],
        done_count: 1,
        in_doubt: vec!["push".to_owned()],
        next: Some("push".to_owned()),
        ..PostMortem::default()
    };
    assert_eq!(found.post_mortem, told);
    assert_eq!(found.unfinished_task.as_deref(), Some("deploy"));
    assert!(found.made_progress);
}

#[tokio::test]
async fn what_an_earlier_attempt_finished_is_no_progress_of_this_one() {
    let engine = engine();
    let task = held_task(&engine, "deploy", &["build"], 1).await;
    finish(&engine, &task, "build").await;
    engine
        .act(
            &task.0,
            Right::Fence(task.1),
            TaskEvent::Release { force: false },
        )
        .await
        .unwrap();
    held_task(&engine, "deploy", &["build"], 2).await;
    let begun_later = clock::now().plus(Span::from_secs(1));
    let found = take(&engine, b"", &attempt(2, begun_later), None)
        .await
        .unwrap();
    assert_eq!(
        (found.made_progress, found.post_mortem.done_count),
        (false, 1)
    );
}

#[tokio::test]
async fn a_clock_set_back_hides_no_progress() {
    let engine = engine();
    let task = held_task(&engine, "deploy", &[], 1).await;
    finish(&engine, &task, "build").await;
    let begun_in_the_future = clock::now().plus(Span::from_secs(3_600));
    let found = take(&engine, b"", &attempt(1, begun_in_the_future), None)
        .await
        .unwrap();
    assert!(found.made_progress);
}

#[tokio::test]
async fn a_task_that_it_finished_or_put_aside_is_not_left_unfinished() {
    let engine = engine();
    let done = held_task(&engine, "done", &[], 1).await;
    engine
        .act(
            &done.0,
            Right::Fence(done.1),
            TaskEvent::Done { force: false },
        )
        .await
        .unwrap();
    let blocked = held_task(&engine, "blocked", &[], 1).await;
    let block = TaskEvent::Block {
        reason: "waits for a person".to_owned(),
        is_told: false,
    };
    engine
        .act(&blocked.0, Right::Fence(blocked.1), block)
        .await
        .unwrap();
    assert_eq!(found(&engine, b"").await.unfinished_task, None);
}

#[tokio::test]
async fn only_the_last_names_of_many_steps_are_kept() {
    let engine = engine();
    let task = held_task(&engine, "deploy", &[], 1).await;
    for n in 0..25 {
        finish(&engine, &task, &format!("step {n}")).await;
    }
    let post_mortem = found(&engine, b"").await.post_mortem;
    assert_eq!((post_mortem.done.len(), post_mortem.done_count), (20, 25));
    assert_eq!(post_mortem.done[19], "step 24");
}

#[tokio::test]
async fn the_last_output_is_bounded_and_has_no_secret() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let split = format!("token {}\x1b[1m{}\n", &token[..10], &token[10..]);
    let mut log = "x".repeat(300) + "\n";
    log = log.repeat(200) + &split + "last\n";
    let log_end = &log.as_bytes()[log.len() - LOG_END_BYTES..];
    let last_output = found(&engine(), log_end).await.post_mortem.last_output;
    assert!(last_output.len() <= 8 << 10 && last_output.lines().count() <= 40);
    assert!(
        last_output.ends_with("last") && last_output.contains("[redacted:"),
        "{last_output}"
    );
    assert!(!last_output.contains(&token[10..]));
    let short = found(&engine(), &b"a\n".repeat(100))
        .await
        .post_mortem
        .last_output;
    assert_eq!(short.lines().count(), 40);
    let foreign = found(&engine(), b"\xff\xfe broken\n\n\n")
        .await
        .post_mortem
        .last_output;
    assert_eq!(foreign, "\u{fffd}\u{fffd} broken");
}

/// The agent's attempt with this number lives.
async fn let_run(engine: &Engine, changes: Vec<AgentChange>, number: u32) {
    let running = AgentState::Running {
        attempt: tag(number),
        since: clock::now(),
        ending: None,
    };
    let begun = [
        AgentChange::Begun {
            number,
            tag: tag(number),
        },
        AgentChange::State(running),
    ];
    let changes = changes.into_iter().chain(begun).collect();
    let commit = AgentCommit {
        agent: agent(),
        guard: Guard::default(),
        at: clock::now(),
        changes,
    };
    engine
        .store()
        .commit_agent(commit)
        .await
        .expect("the agent is kept");
}

fn created() -> AgentChange {
    AgentChange::Created(Box::<AgentPlan>::default())
}

fn killed(number: u32) -> AgentChange {
    let death = Death {
        how: HowEnded::Signal(9),
        note: None,
        ..Death::lost(clock::now(), "")
    };
    let ended = Box::new(RecordedDeath {
        cause: Cause::Signal,
        death,
    });
    AgentChange::Ended {
        number,
        ended,
        post_mortem: Box::default(),
    }
}

fn state_in(home: &Path) -> Option<ActiveState> {
    let text = std::fs::read_to_string(AgentFolder::of(home, &agent()).state()).ok()?;
    ActiveState::from_text(&text)
}

async fn set(engine: &Engine, task: &(TaskId, Fence), name: &str, value: &str) -> Task {
    let pairs = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    engine
        .act(&task.0, Right::Fence(task.1), TaskEvent::Set(pairs))
        .await
        .expect("it is set");
    engine.task(&task.0).await.expect("it is there")
}

#[tokio::test]
async fn the_state_follows_the_context_of_the_task() {
    let (home, engine) = (tempfile::tempdir().unwrap(), engine());
    AgentFolder::of(home.path(), &agent()).create().unwrap();
    let_run(&engine, vec![created()], 1).await;
    let session = AgentChange::Session(Some("s-1".to_owned()));
    let_run(&engine, vec![killed(1), session], 2).await;
    let task = held_task(&engine, "deploy", &[], 2).await;
    let old = set(&engine, &task, "stage", "build").await;
    assert!(refresh_state(home.path(), &engine, &old).await.unwrap());
    set(&engine, &task, "stage", "push").await;
    assert!(
        refresh_state(home.path(), &engine, &old).await.unwrap(),
        "read anew from the store"
    );
    assert!(
        !refresh_state(home.path(), &engine, &old).await.unwrap(),
        "nothing changed since"
    );
    let state = state_in(home.path()).unwrap();
    assert_eq!(
        (state.task_id.as_deref(), state.progress_stage.as_deref()),
        (Some("deploy"), Some("push"))
    );
    assert_eq!(
        (state.attempt, state.session_id.as_deref()),
        (Some(tag(2)), Some("s-1"))
    );
    assert_eq!(state.reason.as_deref(), Some("signal: signal 9 (KILL)"));
}

#[tokio::test]
async fn a_task_of_nobody_or_of_a_dead_attempt_writes_nothing() {
    let (home, engine) = (tempfile::tempdir().unwrap(), engine());
    AgentFolder::of(home.path(), &agent()).create().unwrap();
    let_run(&engine, vec![created()], 1).await;
    let_run(&engine, vec![killed(1)], 2).await;
    let of_the_dead = held_task(&engine, "old", &[], 1).await;
    let of_the_dead = set(&engine, &of_the_dead, "stage", "x").await;
    assert!(
        !refresh_state(home.path(), &engine, &of_the_dead)
            .await
            .unwrap()
    );
    let free = engine
        .add(NewTask::bare(TaskId::new("free").unwrap()))
        .await
        .unwrap();
    assert!(
        !refresh_state(home.path(), &engine, free.task())
            .await
            .unwrap()
    );
    assert_eq!(state_in(home.path()), None);
}
