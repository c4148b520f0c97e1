//! Copies of brief and state for an agent with a user of its own, which cannot reach the home (0700).
//!
//! The folders belong to the supervisor (0711), so nobody else puts anything there; the files belong to the
//! agent's user (0400), so nobody else reads them. They are gone with the next boot, and written anew before
//! each start.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::file;
use crate::checkpoint_files::encoded_name;
use crate::supervise::folder::AgentFolder;

const PLACE: &str = "/run/relight";

/// Where the copies of an agent are.
pub fn user_folder(folder: &AgentFolder) -> AgentFolder {
    let name = encoded_name(&folder.path().to_string_lossy());
    AgentFolder::at(Path::new(PLACE).join(name))
}

/// Copies brief and state for this user.
pub fn copy_for_user(folder: &AgentFolder, uid: u32) -> io::Result<()> {
    let copies = user_folder(folder);
    make_folder(Path::new(PLACE))?;
    make_folder(copies.path())?;
    for (from, to) in [
        (folder.brief(), copies.brief()),
        (folder.state(), copies.state()),
    ] {
        match file::read(&from) {
            Some(text) => copy(&to, &text, uid)?,
            None => file::remove(&to)?,
        }
    }
    Ok(())
}

fn copy(to: &Path, text: &str, uid: u32) -> io::Result<()> {
    let (beside, mut copy) = file::create_beside(to)?;
    let written = copy
        .write_all(text.as_bytes())
        .and_then(|()| copy.set_permissions(Permissions::from_mode(0o400)))
        .and_then(|()| std::os::unix::fs::fchown(&copy, Some(uid), None))
        .and_then(|()| std::fs::rename(&beside, to));
    if written.is_err() {
        file::remove(&beside)?;
    }
    written
}

/// A folder that everybody may pass and only this user may change.
fn make_folder(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o711).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(path)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours {
        let text = format!("{} belongs to another user or is no folder", path.display());
        return Err(io::Error::other(text));
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o711))
}
