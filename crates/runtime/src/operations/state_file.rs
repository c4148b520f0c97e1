//! The state file of a supervised agent, which follows its task.

use std::path::Path;

use relight_core::task::Task;

use crate::dialect::FileCopyError;
use crate::engine::Engine;
use crate::supervise::successor::{RefreshError, refresh_state};

/// Brings it up to date; why it could not be.
pub(super) async fn refresh(home: &Path, engine: &Engine, task: &Task) -> Option<FileCopyError> {
    Some(match refresh_state(home, engine, task).await.err()? {
        RefreshError::File { path, source } => FileCopyError {
            path,
            reason: source.to_string(),
        },
        RefreshError::Store(error) => FileCopyError {
            path: "the state file".to_owned(),
            reason: error.to_string(),
        },
    })
}
