//! In place of `state_file` where there is no supervision: agents have no state files.

use std::path::Path;

use relight_core::task::Task;

use crate::dialect::FileCopyError;
use crate::engine::Engine;

/// Nothing can go wrong.
pub(super) async fn refresh(_home: &Path, _engine: &Engine, _task: &Task) -> Option<FileCopyError> {
    None
}
