//! Reads and replaces whole files that belong to the user: a crash at any point leaves the old
//! content or the new one, never half of either.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};

/// No text of a person is longer; a larger file is something else.
const BYTES_MAX: u64 = 16 << 20;

/// The content; none when there is no such file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a file")),
        Ok(_) => File::open(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(Some(bytes))
}

/// Writes it beside, syncs, renames and syncs the folder. The mode and owner of an existing file
/// stay; a link stays a link, and its target is replaced. Missing folders are made.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_as(path, bytes, None)
}

/// The same for a file in the home: nobody but this user reads it.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_as(path, bytes, Some(Permissions::from_mode(0o600)))
}

fn replace_as(path: &Path, bytes: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let path = link_target(path)?;
    let folder = folder_of(&path);
    create_folder(folder)?;
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it is not a file"));
    }
    // Renaming over it needs no right to write it; whoever took that right away meant it.
    let old = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => Some(file.metadata()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let draft = draft_beside(&path);
    let done =
        write_draft(&draft, bytes, old.as_ref(), mode).and_then(|()| fs::rename(&draft, &path));
    if done.is_err() {
        // The caller hears of the failure that led here.
        let _ = fs::remove_file(&draft);
    }
    done?;
    File::open(folder)?.sync_all()
}

/// Removes it for good; whether there was one.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => File::open(folder_of(path))?.sync_all().map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Names the file in an error of the system.
pub(crate) fn failure(deed: &str, path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(
        Exit::Io,
        format!("cannot {deed} {}: {error}", path.display()),
    );
    let (flag, place) = match path.symlink_metadata() {
        Ok(_) => ("-l", path),
        Err(_) => ("-ld", folder_of(path)),
    };
    match error.kind() {
        io::ErrorKind::PermissionDenied => failure.hint(format!("ls {flag} {}", place.display())),
        _ => failure,
    }
}

fn write_draft(
    draft: &Path,
    bytes: &[u8],
    old: Option<&Metadata>,
    mode: Option<Permissions>,
) -> io::Result<()> {
    // Left by a dead process that had our pid.
    let _ = fs::remove_file(draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)?;
    if let Some(old) = old {
        keep_owner(&file, old);
    }
    if let Some(mode) = mode.or(old.map(Metadata::permissions)) {
        file.set_permissions(mode)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Only root may give a file away; for everybody else the file becomes theirs, as with any editor.
fn keep_owner(file: &File, old: &Metadata) {
    let (owner, group) = (
        rustix::fs::Uid::from_raw(old.uid()),
        rustix::fs::Gid::from_raw(old.gid()),
    );
    let _ = rustix::fs::fchown(file, Some(owner), Some(group));
}

fn draft_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".relight-{}", std::process::id()));
    folder_of(path).join(name)
}

/// Where a link leads, also when nothing is there yet.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => Ok(folder_of(path).join(target)),
            Err(_) => Ok(path.to_owned()),
        },
        other => other,
    }
}

/// Makes a folder and those above it, each one's entry synced.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    create_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(above)?.sync_all(),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mode_and_link_stay_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.md"), folder.path().join("link.md"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.md", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_to_nothing_gets_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link.md");
        symlink("sub/real.md", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(folder.path().join("sub/real.md")).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_folder_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_err());
        assert!(replace(folder.path(), b"new").is_err());
        assert_eq!(read(&folder.path().join("none")).unwrap(), None);
    }
}
