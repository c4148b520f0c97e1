//! `node.json` in the home folder: which node of a fleet this installation is.
//!
//! Whoever uses the home belongs to that node, the daemon and every command. Its `instance` tells two
//! machines apart that were given one name.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use relight::doors::random;
use relight_core::ids::NodeName;
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
}

impl NodeFile {
    /// What this home is; none where it was never a node.
    pub(crate) fn of(home: &Path) -> Option<Self> {
        let text = relight::doors::file::read_regular(&home.join(FILE), BYTES_MAX)?;
        serde_json::from_slice(&text).ok()
    }

    /// Makes this home that node, on disk when it returns. The installation stays the same one.
    pub(crate) fn keep(home: &Path, name: &NodeName) -> io::Result<Self> {
        let known = Self::of(home);
        if let Some(known) = known.clone().filter(|known| known.name == *name) {
            return Ok(known);
        }
        let instance = known.map_or_else(
            || random::bytes::<16>().iter().map(|byte| format!("{byte:02x}")).collect(),
            |known| known.instance,
        );
        let file = Self { name: name.clone(), instance };
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let (path, text) = (home.join(FILE), serde_json::to_string(&file)? + "\n");
        whole_file::replace(&path, text.as_bytes())?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(file)
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
        let first = NodeFile::keep(home.path(), &a).unwrap();
        assert_eq!(NodeFile::of(home.path()), Some(first.clone()));
        let renamed = NodeFile::keep(home.path(), &b).unwrap();
        assert_eq!((renamed.name, &renamed.instance), (b, &first.instance));
        assert_eq!(first.instance.len(), 32);
    }
}
