//! What the tools take, as it comes.

#[cfg(test)]
use rmcp::model::JsonObject;
use serde::Deserialize;

/// `heartbeat`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatTool {
    pub(super) status: Option<String>,
    pub(super) waiting_until: Option<String>,
    pub(super) task: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) agent: Option<String>,
}

/// `inflight`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InflightTool {}

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
    use relight_runtime::operations::checkpoint::{CheckpointResume, CheckpointSave};
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
        Tool::Heartbeat => read::<HeartbeatTool>(given).map(drop),
        Tool::Inflight => read::<InflightTool>(given).map(drop),
        Tool::ResumeBrief => read::<ResumeBrief>(given).map(drop),
    }
}
