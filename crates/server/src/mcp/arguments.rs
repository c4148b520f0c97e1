//! What the tools take, as it comes.

#[cfg(test)]
use rmcp::model::JsonObject;
use serde::Deserialize;

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

/// Whether a tool takes these.
#[cfg(test)]
pub(super) fn check(
    tool: super::tool::Tool,
    given: JsonObject,
) -> Result<(), relight_runtime::engine::ActError> {
    use relight_runtime::operations::read;
    use relight_runtime::operations::step::{StepBegin, StepEnd, StepSkip};
    use relight_runtime::operations::task::{TaskBlock, TaskDone};
    use relight_runtime::operations::work::TaskStart;

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
