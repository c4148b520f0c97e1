//! The product as the benches see it: everything they call of Relight is in this file.
//!
//! Not linked yet: the types have no values, so `Library::open` answers None and
//! what needs the library is reported as not measured.

use std::path::Path;

/// A store opened through the library, in a home of its own.
pub(crate) enum Library {}

impl Library {
    /// Opens (and makes) the SQLite store of `home`, with the library's defaults.
    pub(crate) async fn open(_home: &Path) -> anyhow::Result<Option<Library>> {
        Ok(None)
    }

    /// Adds a task and takes its lease: it is `in_progress` and this process holds it.
    pub(crate) async fn start_task(&self, _id: &str) -> anyhow::Result<Task> {
        match *self {}
    }

    /// Adds a task that `relight check` must name once it is older than `--stale`.
    pub(crate) async fn add_unfinished_task(&self, _id: &str) -> anyhow::Result<()> {
        match *self {}
    }
}

/// A task this process holds.
pub(crate) enum Task {}

impl Task {
    /// Runs one step whose work is nothing and whose result is `result`; durable on return.
    pub(crate) async fn step(&mut self, _name: &str, _result: &str) -> anyhow::Result<()> {
        match *self {}
    }
}

/// The text of a checkpoint file of an unfinished workflow, saved just now and verified by its hash.
pub(crate) fn checkpoint_text(_workflow: &str) -> Option<String> {
    None
}

/// `text` as it may be written to the disk: every recognised secret replaced.
pub(crate) fn redact(_text: &str) -> Option<String> {
    None
}
