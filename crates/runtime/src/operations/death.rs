//! A death, with its post-mortem: the one form that every front shows.

#![expect(missing_docs, reason = "the fields are those of the documented JSON")]

use relight_core::agent::death::HowEnded;
use relight_core::agent::{self, RecordedDeath};
use relight_core::time::Time;
use serde::Serialize;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Death))]
pub struct DeathView {
    pub agent: String,
    /// The attempt's number.
    pub attempt: u32,
    pub tag: String,
    /// The node of a fleet that it ran on.
    pub node: Option<String>,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub begun_at: Time,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub ended_at: Time,
    /// Its last sign of life, or its end: recovery time counts from here.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub down_since: Time,
    pub lived_ms: u64,
    /// `completed`, `failed`, `signal`, `oom`, `hung`, `timeout`, `stopped`, `lost` or `deferred`.
    pub cause: String,
    /// The same in words.
    pub how: String,
    /// The exit code.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// A task that it left behind.
    pub unfinished_task: Option<String>,
    /// A step was finished in it.
    pub made_progress: bool,
    pub note: Option<String>,
    pub post_mortem: PostMortemView,
}

/// What was found at the death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PostMortem))]
pub struct PostMortemView {
    /// The last lines, redacted.
    pub output: Vec<String>,
    /// The task it held.
    pub task: Option<String>,
    /// The last step that was recorded.
    pub last_step: Option<String>,
    /// The last of the finished steps.
    pub done_steps: Vec<String>,
    /// How many steps are finished.
    pub steps_done: u64,
    pub in_doubt: Vec<String>,
    pub next_step: Option<String>,
    pub memory_max_kib: Option<u64>,
    pub cpu_ms: Option<u64>,
    /// Processes that outlived the leader and were stopped.
    pub leftovers: u32,
    /// Processes that could not be stopped.
    pub survivors: u32,
}

/// How the newest ended attempt died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastDeath {
    /// The attempt's number.
    pub attempt: u32,
    pub cause: String,
    /// The same in words.
    pub how: String,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub at: Time,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub note: Option<String>,
    /// Its command could not be started, which the note explains.
    #[serde(skip)]
    pub not_started: bool,
}

impl DeathView {
    /// Of an attempt that ended.
    pub fn of(attempt: agent::Attempt) -> Option<Self> {
        let node = attempt.node().map(ToString::to_string);
        let (ended, found) = (attempt.ended?, attempt.post_mortem.unwrap_or_default());
        let (code, signal) = how(&ended);
        Some(Self {
            agent: attempt.agent.to_string(),
            attempt: attempt.number,
            tag: attempt.tag.to_string(),
            node,
            begun_at: attempt.begun_at,
            ended_at: ended.death.at,
            down_since: ended.down_since(),
            lived_ms: ended.death.lived.as_ms(),
            cause: ended.cause.to_string(),
            how: ended.in_words(),
            code,
            signal,
            unfinished_task: ended.death.unfinished_task,
            made_progress: ended.death.made_progress,
            note: ended.death.note,
            post_mortem: PostMortemView {
                output: found.last_output.lines().map(str::to_owned).collect(),
                task: found.task,
                last_step: found.last_step,
                steps_done: found.done_count.max(found.done.len() as u64),
                done_steps: found.done,
                in_doubt: found.in_doubt,
                next_step: found.next,
                memory_max_kib: found.memory_max_kib,
                cpu_ms: found.cpu_ms,
                leftovers: found.leftovers,
                survivors: found.survivors,
            },
        })
    }
}

impl LastDeath {
    /// Of an attempt that ended.
    pub(super) fn of(attempt: &agent::Attempt) -> Option<Self> {
        let ended = attempt.ended.as_ref()?;
        let (code, signal) = how(ended);
        Some(Self {
            attempt: attempt.number,
            cause: ended.cause.to_string(),
            how: ended.in_words(),
            at: ended.death.at,
            code,
            signal,
            note: ended.death.note.clone(),
            not_started: attempt.why_not_started().is_some(),
        })
    }
}

fn how(ended: &RecordedDeath) -> (Option<i32>, Option<i32>) {
    match ended.death.how {
        HowEnded::Code(code) => (Some(code), None),
        HowEnded::Signal(signal) => (None, Some(signal)),
        HowEnded::Unknown => (None, None),
    }
}
