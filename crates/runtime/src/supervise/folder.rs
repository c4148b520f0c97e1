//! The files of one agent beside the store: lock, shim socket, exit records, brief, state and logs.
//! Folder 0700, files 0600.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use relight_core::ids::AgentName;

use crate::checkpoint_files::encoded_name;

/// The folder of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder(PathBuf);

impl AgentFolder {
    /// The folder of this agent, below the store's folder.
    pub fn of(home: &Path, agent: &AgentName) -> Self {
        Self(home.join("agents").join(encoded_name(agent.as_str())))
    }

    /// The folders of all agents that ever ran here.
    pub fn all(home: &Path) -> io::Result<Vec<Self>> {
        let folders = match std::fs::read_dir(home.join("agents")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders?,
        };
        folders.map(|folder| Ok(Self(folder?.path()))).collect()
    }

    /// The folder at this path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Creates it with its log folder.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.logs())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The lock, held by all live processes of the agent.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// The shim's socket.
    pub fn shim_socket(&self) -> PathBuf {
        self.0.join("shim.sock")
    }

    /// The socket for `sd_notify` datagrams.
    pub fn notify_socket(&self) -> PathBuf {
        self.0.join("notify.sock")
    }

    /// The exit record of an attempt; two files alternate.
    pub fn exit_record(&self, number: u32) -> PathBuf {
        self.0.join(format!("exit-{}.json", number % 2))
    }

    /// The brief of a resumed attempt.
    pub fn brief(&self) -> PathBuf {
        self.0.join("brief.md")
    }

    /// `active_state.json`.
    pub fn state(&self) -> PathBuf {
        self.0.join("active_state.json")
    }

    /// The declared waits of its live attempt.
    pub fn waiting(&self) -> PathBuf {
        self.0.join("waiting")
    }

    /// The log folder.
    pub fn logs(&self) -> PathBuf {
        self.0.join("log")
    }
}
