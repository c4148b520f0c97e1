//! What the tools take, as it comes.

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;

/// `task_start`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskStart {
    pub(super) task: Option<String>,
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) steps: Vec<String>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, String>,
    pub(super) agent: Option<String>,
    pub(super) fence: Option<u64>,
    pub(super) lease: Option<String>,
}

/// A task, and the right to write to it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskDone {
    #[serde(default)]
    pub(super) force: bool,
    pub(super) task: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `task_block`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskBlock {
    pub(super) reason: String,
    pub(super) task: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `step_begin`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepBegin {
    pub(super) step: String,
    pub(super) rule: Option<String>,
    pub(super) occurrence: Option<u32>,
    pub(super) task: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `step_end`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepEnd {
    pub(super) step: String,
    #[serde(default)]
    pub(super) failed: bool,
    pub(super) output: Option<String>,
    pub(super) cost: Option<String>,
    pub(super) turns: Option<u64>,
    pub(super) occurrence: Option<u32>,
    pub(super) task: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `step_skip`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepSkip {
    pub(super) step: String,
    pub(super) reason: String,
    pub(super) occurrence: Option<u32>,
    pub(super) task: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `checkpoint_save`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointSave {
    pub(super) workflow: String,
    pub(super) step: Option<String>,
    #[serde(default)]
    pub(super) complete: Vec<String>,
    #[serde(default)]
    pub(super) remaining: Vec<String>,
    pub(super) status: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) handoff: Option<String>,
    pub(super) idempotency: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) fence: Option<u64>,
}

/// `checkpoint_resume`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointResume {
    pub(super) workflow: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) fence: Option<u64>,
    pub(super) lease: Option<String>,
}

/// `heartbeat`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Heartbeat {
    pub(super) status: Option<String>,
    pub(super) waiting_until: Option<String>,
    pub(super) agent: Option<String>,
}

/// `inflight`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inflight {}

/// `resume_brief`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeBrief {
    pub(super) task: Option<String>,
    pub(super) agent: Option<String>,
}

/// Reads them. What a model filled in with null, or an empty text, it did not mean to give.
pub(super) fn read<T: DeserializeOwned>(mut given: JsonObject) -> Result<T, Problem> {
    given.retain(|_, value| !value.is_null() && *value != "");
    serde_json::from_value(Value::Object(given)).map_err(|error| {
        Problem::invalid(error.to_string()).hint("give what the tool's input schema says")
    })
}

/// Whether a tool takes these.
#[cfg(test)]
pub(super) fn check(tool: super::tool::Tool, given: JsonObject) -> Result<(), Problem> {
    use super::tool::Tool;
    match tool {
        Tool::TaskStart => read::<TaskStart>(given).map(drop),
        Tool::TaskDone => read::<TaskDone>(given).map(drop),
        Tool::TaskBlock => read::<TaskBlock>(given).map(drop),
        Tool::StepBegin => read::<StepBegin>(given).map(drop),
        Tool::StepEnd => read::<StepEnd>(given).map(drop),
        Tool::StepSkip => read::<StepSkip>(given).map(drop),
        Tool::CheckpointSave => read::<CheckpointSave>(given).map(drop),
        Tool::CheckpointResume => read::<CheckpointResume>(given).map(drop),
        Tool::Heartbeat => read::<Heartbeat>(given).map(drop),
        Tool::Inflight => read::<Inflight>(given).map(drop),
        Tool::ResumeBrief => read::<ResumeBrief>(given).map(drop),
    }
}
