//! The folder on a real file system.

mod naming;
mod quarantining;
mod reading;
mod scanning;
mod sweeping;
mod writing;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use relight_core::checkpoint::{Checkpoint, Extra, SchemaVersion, WorkflowStatus};
use tempfile::TempDir;

use super::CheckpointFolder;

/// A folder that does not exist yet, two levels below a temporary one.
fn absent_folder() -> (TempDir, CheckpointFolder) {
    let top = tempfile::tempdir().unwrap();
    let folder = CheckpointFolder::at(top.path().join("memory/checkpoints"));
    (top, folder)
}

/// A folder with a good checkpoint of each workflow.
fn folder_with(workflow_ids: &[&str]) -> (TempDir, CheckpointFolder) {
    let (top, folder) = absent_folder();
    fs::create_dir_all(folder.path()).unwrap();
    for workflow_id in workflow_ids {
        folder
            .write(workflow_id, &checkpoint(workflow_id).seal())
            .unwrap();
    }
    (top, folder)
}

fn checkpoint(workflow_id: &str) -> Checkpoint {
    Checkpoint {
        schema_version: SchemaVersion::default(),
        workflow_id: workflow_id.into(),
        agent_id: "writer".into(),
        status: WorkflowStatus::InProgress,
        current_step: Some("migrate".into()),
        completed_steps: vec!["build".into(), "test".into()],
        remaining_steps: vec!["deploy".into()],
        handoff_to: None,
        notes: Some("go on".into()),
        idempotency_key: "deploy-42".into(),
        updated_at: noon(),
        expires_at: None,
        fence: 3,
        seq: 7,
        context: BTreeMap::from([("branch".into(), "main".into())]),
        extra: Extra::default(),
        foreign: false,
    }
}

fn noon() -> Timestamp {
    "2026-03-24T12:00:00Z".parse().unwrap()
}

/// The names in a directory, sorted.
fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
