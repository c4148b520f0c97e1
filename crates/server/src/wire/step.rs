//! A step.

use relight_core::ids::TaskId;
use relight_core::step;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use super::number;

/// One recorded piece of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) occurrence: u32,
    /// `begun`, `done`, `failed` or `skipped`.
    pub(crate) state: String,
    /// `keyed`, `repeatable`, `verify` or `once`.
    pub(crate) rule: String,
    pub(crate) tries: u32,
    /// Number of the lease under which it was begun.
    pub(crate) fence: u64,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) at: Time,
    pub(crate) exit_code: Option<i32>,
    /// Stays the same however often the step is tried.
    pub(crate) idempotency_key: String,
}

impl Step {
    pub(crate) fn new(task: &TaskId, step: &step::Step) -> Self {
        Self {
            idempotency_key: step.key.idempotency_key(task),
            name: step.key.name.to_string(),
            occurrence: step.key.occurrence,
            state: step.state.as_str().to_owned(),
            rule: step.rule.to_string(),
            tries: step.tries,
            fence: step.fence.0,
            at: step.at,
            exit_code: step.exit_code,
        }
    }
}

/// A step that is about to act.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginStep {
    /// The right to write.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// `keyed` when none.
    pub(crate) rule: Option<String>,
    /// 1 when none.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// What to do with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Advice {
    /// `go`, `again`, `ask`, `wait` or `finished`.
    pub(crate) advice: String,
    /// Stays the same however often the step is tried.
    pub(crate) idempotency_key: String,
    /// Of a finished step.
    pub(crate) output: Option<String>,
    /// Of a finished step.
    pub(crate) exit_code: Option<i32>,
}

/// A step that has acted.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct EndStep {
    /// The right to write.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// It is known not to have worked.
    #[serde(default)]
    pub(crate) failed: bool,
    /// What it gave.
    pub(crate) output: Option<String>,
    /// 0, or 1 for one that failed, when none.
    pub(crate) exit_code: Option<i32>,
    /// What it cost, such as `0.25`.
    pub(crate) cost: Option<String>,
    /// Turns of a model that it took.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) turns: Option<u64>,
    /// 1 when none.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// What a person found out about a step in doubt.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveStep {
    pub(crate) happened: bool,
    /// 1 when none.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// A step that is not to be done.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SkipStep {
    /// The right to write.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// Why.
    pub(crate) reason: String,
    /// 1 when none.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}
