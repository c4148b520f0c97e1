//! An attempt, as far as a timeline needs it.

use relight_core::agent;
use relight_core::time::Time;
use relight_runtime::os::clock;
use serde::Serialize;

/// One run of an agent's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = Attempt))]
pub(crate) struct AttemptView {
    pub(crate) agent: String,
    pub(crate) number: u32,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) begun_at: Time,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) ended_at: Option<Time>,
    /// Its last sign of life, or its end: recovery time counts from here.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) down_since: Option<Time>,
    pub(crate) cause: Option<String>,
    /// The same in words.
    pub(crate) how: Option<String>,
    pub(crate) lived_ms: u64,
    /// Identifies the attempt; holders of tasks name it.
    pub(crate) tag: String,
    /// The node of a fleet that it ran on.
    pub(crate) node: Option<String>,
    /// The task that it held at its end.
    pub(crate) task: Option<String>,
    /// Peak memory of its main process; known after its end.
    pub(crate) memory_max_kib: Option<u64>,
    /// CPU time; known after its end.
    pub(crate) cpu_ms: Option<u64>,
}

impl From<agent::Attempt> for AttemptView {
    fn from(attempt: agent::Attempt) -> Self {
        let ended = attempt.ended.as_ref();
        let lived = match ended {
            Some(ended) => ended.death.lived,
            None => clock::now().since(attempt.begun_at),
        };
        let found = attempt.post_mortem.as_ref();
        Self {
            how: ended.map(|ended| ended.in_words()),
            tag: attempt.tag.to_string(),
            node: attempt.node().map(ToString::to_string),
            task: found.and_then(|found| found.task.clone()),
            memory_max_kib: found.and_then(|found| found.memory_max_kib),
            cpu_ms: found.and_then(|found| found.cpu_ms),
            agent: attempt.agent.to_string(),
            number: attempt.number,
            begun_at: attempt.begun_at,
            ended_at: ended.map(|ended| ended.death.at),
            down_since: ended.map(|ended| ended.down_since()),
            cause: ended.map(|ended| ended.cause.to_string()),
            lived_ms: lived.as_ms(),
        }
    }
}
