//! A death, with its post-mortem.

use relight_core::agent::death::HowEnded;
use relight_core::agent::{Attempt, RecordedDeath};
use relight_core::time::Time;
use serde::Serialize;

use super::agent::LastDeath;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Death {
    pub(crate) agent: String,
    /// The attempt's number.
    pub(crate) attempt: u32,
    pub(crate) tag: String,
    /// The node of a fleet that it ran on.
    pub(crate) node: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) begun_at: Time,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) ended_at: Time,
    /// Its last sign of life, or its end: recovery time counts from here.
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) down_since: Time,
    pub(crate) lived_ms: u64,
    /// `completed`, `failed`, `signal`, `oom`, `hung`, `timeout`, `stopped`, `lost` or `deferred`.
    pub(crate) cause: String,
    /// The same in words.
    pub(crate) how: String,
    /// The exit code.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// A task that it left behind.
    pub(crate) unfinished_task: Option<String>,
    /// A step was finished in it.
    pub(crate) made_progress: bool,
    pub(crate) note: Option<String>,
    pub(crate) post_mortem: PostMortem,
}

/// What was found at the death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct PostMortem {
    /// The last lines, redacted.
    pub(crate) output: Vec<String>,
    /// The task it held.
    pub(crate) task: Option<String>,
    /// The last step that was recorded.
    pub(crate) last_step: Option<String>,
    /// The last of the finished steps.
    pub(crate) done_steps: Vec<String>,
    /// How many steps are finished.
    pub(crate) steps_done: u64,
    pub(crate) in_doubt: Vec<String>,
    pub(crate) next_step: Option<String>,
    pub(crate) memory_max_kib: Option<u64>,
    pub(crate) cpu_ms: Option<u64>,
    /// Processes that outlived the leader and were stopped.
    pub(crate) leftovers: u32,
    /// Processes that could not be stopped.
    pub(crate) survivors: u32,
}

impl Death {
    /// Of an attempt that ended.
    pub(crate) fn of(attempt: Attempt) -> Option<Self> {
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
            post_mortem: PostMortem {
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
    pub(crate) fn of(attempt: u32, ended: &RecordedDeath) -> Self {
        let (code, signal) = how(ended);
        Self {
            attempt,
            cause: ended.cause.to_string(),
            how: ended.in_words(),
            at: ended.death.at,
            code,
            signal,
            note: ended.death.note.clone(),
        }
    }
}

fn how(ended: &RecordedDeath) -> (Option<i32>, Option<i32>) {
    match ended.death.how {
        HowEnded::Code(code) => (Some(code), None),
        HowEnded::Signal(signal) => (None, Some(signal)),
        HowEnded::Unknown => (None, None),
    }
}
