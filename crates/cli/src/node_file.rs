//! `node.json` in the home folder: which node of a fleet this installation is.
//!
//! Whoever uses the home belongs to that node, the daemon and every command. Its `instance` tells two
//! machines apart that were given one name.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use relight_core::ids::NodeName;
use relight_runtime::os::random;
use serde::{Deserialize, Serialize};

use crate::whole_file;

const FILE: &str = "node.json";
/// More is not ours.
const BYTES_MAX: u64 = 4_096;

/// Which node this installation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFile {
    /// By which everybody knows it.
    pub(crate) name: NodeName,
    /// Which installation; made once.
    pub(crate) instance: String,
    /// The store that its daemon uses, where that is a file; none where commands ask the daemon for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<String>,
}

impl NodeFile {
    /// What this home is; none where it was never a node.
    pub(crate) fn of(home: &Path) -> Option<Self> {
        let text = relight_runtime::os::file::read_regular(&home.join(FILE), BYTES_MAX)?;
        serde_json::from_slice(&text).ok()
    }

    /// What this home would be as that node, on that store. The installation stays the same one. The
    /// folder is there when it returns, and nothing new in it.
    pub(crate) fn planned(home: &Path, name: &NodeName, store: Option<String>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let instance = Self::of(home).map_or_else(
            || {
                random::bytes::<16>()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect()
            },
            |known| known.instance,
        );
        Ok(Self {
            name: name.clone(),
            instance,
            store,
        })
    }

    /// Makes this home that node, on disk when it returns. For whoever has the daemon's socket: every
    /// command there is of this node from then on.
    pub(crate) fn keep(&self, home: &Path) -> io::Result<()> {
        if Self::of(home).as_ref() == Some(self) {
            return Ok(());
        }
        let (path, text) = (home.join(FILE), serde_json::to_string(self)? + "\n");
        whole_file::replace(&path, text.as_bytes())?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
    }

    /// This home is no node any more. For whoever has the daemon's socket.
    pub(crate) fn remove(home: &Path) -> io::Result<()> {
        match fs::remove_file(home.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_is_of_the_same_installation() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(NodeFile::of(home.path()), None);
        let (a, b) = (NodeName::new("a").unwrap(), NodeName::new("b").unwrap());
        let first = NodeFile::planned(home.path(), &a, None).unwrap();
        assert_eq!(NodeFile::of(home.path()), None, "a plan changes nothing");
        first.keep(home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), Some(first.clone()));
        let renamed = NodeFile::planned(home.path(), &b, Some("sqlite:/x".to_owned())).unwrap();
        renamed.keep(home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), Some(renamed.clone()));
        assert_eq!((renamed.name, &renamed.instance), (b, &first.instance));
        assert_eq!(first.instance.len(), 32);
        NodeFile::remove(home.path()).unwrap();
        NodeFile::remove(home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), None);
    }
}
