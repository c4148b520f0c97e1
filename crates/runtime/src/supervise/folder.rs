//! Where the files of one agent are, beside the store: its lock, its shim's socket, exit records,
//! brief, state and logs. Folder 0700, files 0600.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use relight_core::ids::AgentName;

use crate::checkpoint_files::encoded_name;

/// The folder of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder(PathBuf);

impl AgentFolder {
    /// Of this agent, in the folder of the store.
    pub fn of(home: &Path, agent: &AgentName) -> Self {
        Self(home.join("agents").join(encoded_name(agent.as_str())))
    }

    /// Of all agents that ever ran here.
    pub fn all(home: &Path) -> io::Result<Vec<Self>> {
        let folders = match std::fs::read_dir(home.join("agents")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders?,
        };
        folders.map(|folder| Ok(Self(folder?.path()))).collect()
    }

    /// The one at this place.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Makes it, with its folder of logs.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.logs())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Held by whatever lives of the agent: its shim, its process, its grandchildren.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where its shim listens.
    pub fn shim_socket(&self) -> PathBuf {
        self.0.join("shim.sock")
    }

    /// Where its supervisor hears `sd_notify` datagrams.
    pub fn notify_socket(&self) -> PathBuf {
        self.0.join("notify.sock")
    }

    /// What its shim left about the end of an attempt; every second one has the same file.
    pub fn exit_record(&self, number: u32) -> PathBuf {
        self.0.join(format!("exit-{}.json", number % 2))
    }

    /// What a resumed attempt is told.
    pub fn brief(&self) -> PathBuf {
        self.0.join("brief.md")
    }

    /// `active_state.json`.
    pub fn state(&self) -> PathBuf {
        self.0.join("active_state.json")
    }

    /// Until when its live attempt said that it waits.
    pub fn waiting(&self) -> PathBuf {
        self.0.join("waiting")
    }

    /// The folder of its output.
    pub fn logs(&self) -> PathBuf {
        self.0.join("log")
    }
}
