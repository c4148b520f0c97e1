//! `node.json` in the home folder: which node of a fleet this installation is.
//!
//! Whoever uses the home belongs to that node, the daemon and every command. Its `instance` tells two
//! machines apart that were given one name. The daemon writes it.

use std::path::Path;

use relight_core::ids::NodeName;
use serde::{Deserialize, Serialize};

use crate::os::file;

/// The name of the file.
pub const FILE: &str = "node.json";
/// More is not ours.
const BYTES_MAX: u64 = 4_096;

/// Which node this installation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    /// By which everybody knows it.
    pub name: NodeName,
    /// Which installation; made once.
    pub instance: String,
    /// The store that its daemon uses, where that is a file; none where commands ask the daemon for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

impl NodeFile {
    /// What this home is; none where it was never a node.
    pub fn of(home: &Path) -> Option<Self> {
        let text = file::read_regular(&home.join(FILE), BYTES_MAX)?;
        serde_json::from_slice(&text).ok()
    }
}
