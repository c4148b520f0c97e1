//! The key by which equal secrets stay comparable, kept beside the store.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use relight_redact::MarkKey;

use crate::os::{file, random};

const FILE: &str = "redact.key";

/// Reads the key in this folder, making one when there is none. Losing it loses nothing but the
/// likeness of old and new marks, so a torn one is replaced.
pub fn mark_key_beside(folder: &Path) -> io::Result<MarkKey> {
    let path = folder.join(FILE);
    match read(&path) {
        Ok(key) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(folder, &path),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            fs::remove_file(&path)?;
            make(folder, &path)
        }
        Err(error) => Err(io::Error::new(error.kind(), format!("{FILE}: {error}"))),
    }
}

fn read(path: &Path) -> io::Result<MarkKey> {
    let mut key = [0; 32];
    file::open_own(path)?.read_exact(&mut key)?;
    Ok(MarkKey::new(key))
}

/// Whoever links it into place first wins; everybody reads that one.
fn make(folder: &Path, path: &Path) -> io::Result<MarkKey> {
    let unlike_any = random::number();
    let draft = folder.join(format!("{FILE}.new-{}-{unlike_any:x}", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&random::bytes::<32>())?;
    // Else the store's own sync makes the name durable and a power cut leaves it without content.
    file.sync_data()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_key_is_replaced_and_a_whole_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, b"").unwrap();
        mark_key_beside(folder.path()).unwrap();
        let made = fs::read(&path).unwrap();
        assert_eq!(made.len(), 32);
        mark_key_beside(folder.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), made);
    }
}
