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
    pub(crate) number: u32,
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
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) note: Option<String>,
    pub(crate) last_step: Option<String>,
    pub(crate) memory_max_kib: Option<u64>,
    pub(crate) post_mortem: PostMortem,
}

/// What was found at the death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct PostMortem {
    /// The last lines, redacted.
    pub(crate) output: Vec<String>,
    pub(crate) done_steps: Vec<String>,
    pub(crate) in_doubt: Vec<String>,
    pub(crate) next_step: Option<String>,
}

impl Death {
    /// Of an attempt that ended.
    pub(crate) fn of(attempt: Attempt) -> Option<Self> {
        let node = attempt.node().map(ToString::to_string);
        let (ended, found) = (attempt.ended?, attempt.post_mortem.unwrap_or_default());
        let (code, signal) = how(&ended);
        Some(Self {
            agent: attempt.agent.to_string(),
            number: attempt.number,
            node,
            begun_at: attempt.begun_at,
            ended_at: ended.death.at,
            down_since: ended.down_since(),
            lived_ms: ended.death.lived.as_ms(),
            cause: ended.cause.to_string(),
            code,
            signal,
            note: ended.death.note,
            last_step: found.last_step,
            memory_max_kib: found.memory_max_kib,
            post_mortem: PostMortem {
                output: found.last_output.lines().map(str::to_owned).collect(),
                done_steps: found.done,
                in_doubt: found.in_doubt,
                next_step: found.next,
            },
        })
    }
}

impl LastDeath {
    pub(crate) fn of(number: u32, ended: &RecordedDeath) -> Self {
        let (code, signal) = how(ended);
        let cause = ended.cause.to_string();
        Self { number, cause, at: ended.death.at, code, signal }
    }
}

fn how(ended: &RecordedDeath) -> (Option<i32>, Option<i32>) {
    match ended.death.how {
        HowEnded::Code(code) => (Some(code), None),
        HowEnded::Signal(signal) => (None, Some(signal)),
        HowEnded::Unknown => (None, None),
    }
}
