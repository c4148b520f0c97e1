//! Writes `node.json`, which says which node of a fleet this installation is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use relight_core::ids::NodeName;
use relight_runtime::fleet::node_file::{FILE, NodeFile};
use relight_runtime::os::random;

use crate::whole_file;

/// What this home would be as that node, on that store. The installation stays the same one. The
/// folder is there when it returns, and nothing new in it.
pub(crate) fn planned(home: &Path, name: &NodeName, store: Option<String>) -> io::Result<NodeFile> {
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let instance = NodeFile::of(home).map_or_else(
        || {
            random::bytes::<16>()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        },
        |known| known.instance,
    );
    Ok(NodeFile {
        name: name.clone(),
        instance,
        store,
    })
}

/// Makes this home that node, on disk when it returns. For whoever has the daemon's socket: every
/// command there is of this node from then on.
pub(crate) fn keep(node: &NodeFile, home: &Path) -> io::Result<()> {
    if NodeFile::of(home).as_ref() == Some(node) {
        return Ok(());
    }
    let (path, text) = (home.join(FILE), serde_json::to_string(node)? + "\n");
    whole_file::replace_private(&path, text.as_bytes())
}

/// This home is no node any more. For whoever has the daemon's socket.
pub(crate) fn remove(home: &Path) -> io::Result<()> {
    match fs::remove_file(home.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
        let first = planned(home.path(), &a, None).unwrap();
        assert_eq!(NodeFile::of(home.path()), None, "a plan changes nothing");
        keep(&first, home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), Some(first.clone()));
        let renamed = planned(home.path(), &b, Some("sqlite:/x".to_owned())).unwrap();
        keep(&renamed, home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), Some(renamed.clone()));
        assert_eq!((renamed.name, &renamed.instance), (b, &first.instance));
        assert_eq!(first.instance.len(), 32);
        remove(home.path()).unwrap();
        remove(home.path()).unwrap();
        assert_eq!(NodeFile::of(home.path()), None);
    }
}
