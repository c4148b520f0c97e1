//! A step.

use relight_core::ids::TaskId;
use relight_core::step;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use super::number;

/// One recorded part of a task.
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
    /// The fence of the lease under which it began.
    pub(crate) fence: u64,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) at: Time,
    pub(crate) exit_code: Option<i32>,
    /// The same for every try of the step.
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

/// A step that is about to run.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginStep {
    /// The fence of the lease.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// Default: `keyed`.
    pub(crate) rule: Option<String>,
    /// Default: 1.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// What to do with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Advice {
    /// `go`, `again`, `ask`, `wait` or `finished`.
    pub(crate) advice: String,
    /// The same for every try of the step.
    pub(crate) idempotency_key: String,
    /// For a finished step.
    pub(crate) output: Option<String>,
    /// For a finished step.
    pub(crate) exit_code: Option<i32>,
}

/// A step that has run.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct EndStep {
    /// The fence of the lease.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// It failed.
    #[serde(default)]
    pub(crate) failed: bool,
    /// Its output.
    pub(crate) output: Option<String>,
    /// Default: 0, or 1 if it failed.
    pub(crate) exit_code: Option<i32>,
    /// Its cost, such as `0.25`.
    pub(crate) cost: Option<String>,
    /// Model turns that it took.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) turns: Option<u64>,
    /// Default: 1.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// Whether a step in doubt happened.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveStep {
    pub(crate) happened: bool,
    /// Default: 1.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}

/// A step to skip.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SkipStep {
    /// The fence of the lease.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// Why.
    pub(crate) reason: String,
    /// Default: 1.
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
    pub(crate) occurrence: Option<u32>,
}
