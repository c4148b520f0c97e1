//! What a checkpoint says, in the names of the dialect that agents and skills already speak.
//!
//! Everything about bytes, hashes and damage is in `envelope`.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::envelope::Damage;
use super::fields::{Fields, floor_ms};
use super::json_value::Members;
use super::schema::SchemaVersion;

/// A task's saved progress.
///
/// Times are kept to the millisecond. There is no `Deserialize`: the only way in is
/// [`Checkpoint::open`], which verifies.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The version of the document, `"1.0"` for what this code writes.
    pub schema_version: SchemaVersion,
    /// The id of the task, which the dialect calls a workflow.
    pub workflow_id: String,
    /// The agent that works on it.
    pub agent_id: String,
    /// How far it is.
    pub status: WorkflowStatus,
    /// The step being worked on.
    pub current_step: Option<String>,
    /// The finished steps, in order.
    pub completed_steps: Vec<String>,
    /// The steps still to do, in order.
    pub remaining_steps: Vec<String>,
    /// Who goes on afterwards.
    pub handoff_to: Option<String>,
    /// Free text for whoever resumes.
    pub notes: Option<String>,
    /// The key under which the work is started at most once.
    pub idempotency_key: String,
    /// When this was written.
    #[serde(serialize_with = "write_time")]
    pub updated_at: Timestamp,
    /// When it stops counting as unfinished work; `None` is never.
    #[serde(serialize_with = "write_time_or_null")]
    pub expires_at: Option<Timestamp>,
    /// The fence of the writer; 0 when it had none.
    pub fence: u64,
    /// Counts the writes of this task.
    pub seq: u64,
    /// What a successor needs: issue, branch, workspace …
    pub context: BTreeMap<String, String>,
    /// The fields of a newer minor version, kept as they were read.
    #[serde(flatten)]
    pub extra: Extra,
    /// Another tool wrote the file it was read from; not a member of the document.
    #[serde(skip)]
    pub foreign: bool,
}

/// The dialect's word for how far a workflow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    /// Unfinished; somebody works on it or should.
    InProgress,
    /// Unfinished; waits for something.
    Blocked,
    /// Finished.
    Done,
    /// Given up, until it is tried again.
    Failed,
}

impl WorkflowStatus {
    const ALL: [WorkflowStatus; 4] = [
        WorkflowStatus::InProgress,
        WorkflowStatus::Blocked,
        WorkflowStatus::Done,
        WorkflowStatus::Failed,
    ];

    /// The word as it stands in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkflowStatus::InProgress => "in_progress",
            WorkflowStatus::Blocked => "blocked",
            WorkflowStatus::Done => "done",
            WorkflowStatus::Failed => "failed",
        }
    }
}

/// A word that is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a status; known are in_progress, blocked, done, failed")]
pub struct UnknownWorkflowStatus(String);

impl FromStr for WorkflowStatus {
    type Err = UnknownWorkflowStatus;

    fn from_str(text: &str) -> Result<Self, UnknownWorkflowStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownWorkflowStatus(text.to_owned()))
    }
}

/// Members that this version does not know.
///
/// Only reading a document makes one that is not empty, so it never hides a known member.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Extra(Map<String, Value>);

impl Extra {
    /// The unknown members.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl Checkpoint {
    /// Reads the members of a verified document without its hash.
    pub(super) fn from_members(members: Members<'_>) -> Result<Self, Damage> {
        let mut fields = Fields::new(members);
        Ok(Checkpoint {
            schema_version: SchemaVersion::read(&fields.text("schemaVersion")?)?,
            workflow_id: fields.text("workflowId")?,
            agent_id: fields.text("agentId")?,
            status: fields.text("status")?.parse().map_err(|_| {
                let expected = "in_progress, blocked, done or failed";
                Damage::BadField {
                    field: "status",
                    expected,
                }
            })?,
            current_step: fields.text_or_null("currentStep")?,
            completed_steps: fields.texts("completedSteps")?,
            remaining_steps: fields.texts("remainingSteps")?,
            handoff_to: fields.text_or_null("handoffTo")?,
            notes: fields.text_or_null("notes")?,
            idempotency_key: fields.text("idempotencyKey")?,
            updated_at: fields.time("updatedAt")?,
            expires_at: fields.time_or_null("expiresAt")?,
            fence: fields.count_or_zero("fence")?,
            seq: fields.count_or_zero("seq")?,
            context: fields.text_table("context")?,
            extra: Extra(fields.into_rest()),
            foreign: false,
        })
    }
}

/// RFC 3339 in UTC with at most three digits of a second.
fn write_time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::from_millisecond(floor_ms(*time)).map_err(serde::ser::Error::custom)?;
    serializer.collect_str(&time)
}

fn write_time_or_null<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => write_time(time, serializer),
        None => serializer.serialize_none(),
    }
}
