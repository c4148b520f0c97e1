//! The post-mortem of an attempt: its last output and the progress of its task.
//!
//! Costs one read of the store, and one more per task that it held; two more if it held none.

use std::borrow::Cow;
use std::collections::BTreeSet;

use relight_core::agent::plain::plain_lines;
use relight_core::agent::{Attempt, PostMortem};
use relight_core::event::{Event, EventKind};
use relight_core::ids::TaskId;
use relight_core::progress::progress;
use relight_core::status::TaskStatus;
use relight_core::step::{Step, StepState, from_a_line};
use relight_core::task::Task;
use relight_redact::Redactor;
use relight_store::{EventQuery, StoreError, TaskQuery};

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::clock;
use crate::supervise::shim::wire::ExitRecord;

/// Bytes read from the end of the log.
pub const LOG_END_BYTES: usize = 32 << 10;

const OUTPUT_LINES_MAX: usize = 40;
const OUTPUT_BYTES_MAX: usize = 8 << 10;
const DONE_NAMES_MAX: usize = 20;
/// Recent events searched for the work of an attempt.
const EVENTS_LOOKED_AT: usize = 1_000;
/// Maximum number of tasks whose steps are read; all tasks are released.
const LOOKED_AT_MAX: usize = 100;

/// Findings about a dead attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeathFindings {
    /// The post-mortem to store.
    pub post_mortem: PostMortem,
    /// A step was finished under this attempt's lease.
    pub made_progress: bool,
    /// A task that it held and did not finish.
    pub unfinished_task: Option<String>,
    /// All tasks whose lease it held, most recently changed first.
    pub held: Vec<Task>,
}

impl DeathFindings {
    /// Findings without the store.
    pub(super) fn nothing() -> Self {
        let post_mortem = PostMortem::default();
        Self {
            post_mortem,
            made_progress: false,
            unfinished_task: None,
            held: Vec::new(),
        }
    }
}

/// Examines a dead attempt. `log_end` is the end of its own output, at most [`LOG_END_BYTES`].
#[boxed]
pub async fn take(
    engine: &Engine,
    log_end: &[u8],
    attempt: &Attempt,
    record: Option<&ExitRecord>,
) -> Result<DeathFindings, StoreError> {
    let held_by = Some(attempt.tag.clone());
    let query = TaskQuery {
        held_by,
        ..TaskQuery::default()
    };
    let mut held = engine.store().tasks(query).await?;
    held.sort_by_key(|task| std::cmp::Reverse((task.updated_at, task.seq)));
    let mut post_mortem = from_record(record);
    post_mortem.last_output = last_output(engine.redactor(), log_end);
    let mut made_progress = false;
    for (at, task) in held.iter().take(LOOKED_AT_MAX).enumerate() {
        let steps = engine.store().steps(&task.id).await?;
        made_progress |= has_advanced(task, &steps, attempt);
        if at == 0 {
            tell_task(&mut post_mortem, task, &steps);
        }
    }
    if held.is_empty()
        && let Some(workflow) = workflow_left(engine, attempt).await?
    {
        tell_task(
            &mut post_mortem,
            &workflow,
            &engine.store().steps(&workflow.id).await?,
        );
    }
    // A conversation that hooks observe is nothing that an agent has to finish.
    // Blocked, deferred and reviewed tasks were left so on purpose.
    let unfinished = held.iter().find(|task| {
        matches!(task.status, TaskStatus::Assigned | TaskStatus::InProgress) && !task.spec.observed
    });
    let unfinished_task = unfinished.map(|task| task.id.to_string());
    Ok(DeathFindings {
        post_mortem,
        made_progress,
        unfinished_task,
        held,
    })
}

/// The unfinished workflow of the agent that was written last. Nobody needs to hold a workflow.
async fn workflow_left(engine: &Engine, attempt: &Attempt) -> Result<Option<Task>, StoreError> {
    let statuses = vec![
        TaskStatus::InProgress,
        TaskStatus::Interrupted,
        TaskStatus::Blocked,
    ];
    let agent = Some(attempt.agent.clone());
    let query = TaskQuery {
        statuses,
        agent,
        ..TaskQuery::default()
    };
    let mut workflows = engine.store().tasks(query).await?;
    let now = clock::now();
    workflows.retain(|task| {
        task.checkpoint.is_some() && task.lease.held.is_none() && !task.is_expired(now)
    });
    Ok(workflows
        .into_iter()
        .max_by_key(|task| (task.updated_at, task.seq)))
}

/// Whether the attempt finished a task that it released, or a step of it, or one of a workflow of its
/// agent, which nobody needs to hold. Reads the journal since the attempt's begin.
pub(super) async fn has_finished_work(
    engine: &Engine,
    attempt: &Attempt,
) -> Result<bool, StoreError> {
    let store = engine.store();
    // By time: a process may be faster than the record that its attempt was begun.
    let since_its_begin = async |kinds: Vec<EventKind>| {
        let limit = EVENTS_LOOKED_AT;
        let (after, before, task, agent) = (0, None, None, None);
        let query = EventQuery {
            after,
            kinds,
            limit,
            newest: true,
            before,
            task,
            agent,
        };
        let events = store.events(query).await?.into_iter();
        Ok::<_, StoreError>(events.filter(|event| event.at >= attempt.begun_at))
    };
    let is_its_own = |event: &Event| event.detail["holder"]["attempt"] == attempt.tag.as_str();
    let released = since_its_begin(vec![EventKind::LeaseEnded])
        .await?
        .filter(is_its_own);
    let released: BTreeSet<TaskId> = released.filter_map(|event| event.task).collect();
    let moved = since_its_begin(vec![EventKind::StepDone, EventKind::TaskStatus]).await?;
    let mut ids: BTreeSet<TaskId> = moved.filter_map(|event| event.task).collect();
    ids.extend(released.iter().cloned());
    let tasks = store
        .tasks_by_id(&ids.into_iter().collect::<Vec<_>>())
        .await?;
    let went_forward = |task: &Task| {
        let is_finished = matches!(task.status, TaskStatus::Completed | TaskStatus::InReview);
        is_finished
            || task
                .tally
                .progress_at
                .is_some_and(|at| at >= attempt.begun_at)
    };
    let is_its_workflow =
        |task: &Task| task.checkpoint.is_some() && task.agent.as_ref() == Some(&attempt.agent);
    let is_its_own = |task: &Task| released.contains(&task.id) || is_its_workflow(task);
    Ok(tasks
        .iter()
        .any(|task| is_its_own(task) && went_forward(task)))
}

fn from_record(record: Option<&ExitRecord>) -> PostMortem {
    let Some(record) = record else {
        return PostMortem::default();
    };
    PostMortem {
        memory_max_kib: record.memory_max_kib,
        cpu_ms: record.cpu_ms,
        leftovers: record.leftovers,
        survivors: record.survivors,
        ..PostMortem::default()
    }
}

/// Adds the progress of a held task.
pub(super) fn tell_task(post_mortem: &mut PostMortem, task: &Task, steps: &[Step]) {
    let mut progress = progress(&task.spec.steps, steps);
    let last = steps.iter().max_by_key(|step| step.at);
    post_mortem.task = Some(task.id.to_string());
    post_mortem.last_step = last.map(|step| step.key.to_string());
    post_mortem.done_count = progress.done_steps.len() as u64;
    let older = progress.done_steps.len().saturating_sub(DONE_NAMES_MAX);
    post_mortem.done = progress.done_steps.split_off(older);
    post_mortem.in_doubt = progress.in_doubt;
    post_mortem.next = progress.next_step;
}

/// Whether a step was finished in this attempt. The newest fence is its own; older fences are
/// judged by time.
fn has_advanced(task: &Task, steps: &[Step], attempt: &Attempt) -> bool {
    let is_ours = |step: &Step| step.fence == task.lease.fence || step.at >= attempt.begun_at;
    // Calls that hooks observed are no progress: a crash loop makes them too.
    steps
        .iter()
        .any(|step| step.state == StepState::Done && step.call.is_none() && is_ours(step))
}

/// The last lines without control sequences and secrets. Redacted after cleaning, because colours
/// may split a secret; cut after redaction, because half a secret is not recognised.
fn last_output(redactor: &Redactor, log_end: &[u8]) -> String {
    let is_cut = log_end.len() >= LOG_END_BYTES;
    let whole_lines = if is_cut {
        from_a_line(log_end)
    } else {
        log_end
    };
    let lines: Vec<String> = plain_lines(&String::from_utf8_lossy(whole_lines)).collect();
    let text = lines.join("\n");
    let clean = match redactor.text(text.trim_end()) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    let lines: Vec<&str> = clean.lines().collect();
    let last = lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join("\n");
    let mut start = last.len().saturating_sub(OUTPUT_BYTES_MAX);
    while !last.is_char_boundary(start) {
        start += 1;
    }
    last[start..].to_owned()
}
