//! The key by which equal secrets stay comparable, kept beside the store.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use relight_core::redact::MarkKey;

use crate::doors::random;

const FILE: &str = "redact.key";

/// Reads the key in this folder, making one when there is none. Losing it loses nothing but the
/// likeness of old and new marks, so it is not worth a sync.
pub fn mark_key_beside(folder: &Path) -> io::Result<MarkKey> {
    let path = folder.join(FILE);
    match read(&path) {
        Ok(key) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(folder, &path),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<MarkKey> {
    let mut key = [0; 32];
    fs::File::open(path)?.read_exact(&mut key)?;
    Ok(MarkKey::new(key))
}

/// Whoever links it into place first wins; everybody reads that one.
fn make(folder: &Path, path: &Path) -> io::Result<MarkKey> {
    let draft = folder.join(format!("{FILE}.new-{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(&random::bytes::<32>())?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path),
    }
}
