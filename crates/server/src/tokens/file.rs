//! Files of secrets: whole or not at all, and for their owner's eyes only.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use relight_runtime::os::{self, random};
use rustix::fs::{FlockOperation, flock};

use super::TokenError;

/// More is not ours.
const BYTES_MAX: u64 = 1 << 20;

/// What is in the file; none when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, TokenError> {
    let cannot = |source| TokenError::File {
        file: path.to_owned(),
        source,
    };
    let file = match os::file::open_own(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot)?,
    };
    let found = file.metadata().map_err(cannot)?;
    if found.mode() & 0o077 != 0 {
        return Err(TokenError::Open {
            file: path.to_owned(),
            mode: found.mode(),
        });
    }
    let mut text = String::new();
    file.take(BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    Ok(Some(text))
}

/// Writes beside, syncs, renames, syncs the folder.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), TokenError> {
    let cannot = |source| TokenError::File {
        file: path.to_owned(),
        source,
    };
    let folder = path.parent().expect("it is in the home folder");
    let chance = random::number();
    let beside = folder.join(format!(".token.{chance:016x}"));
    let written = (|| {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // What was not renamed is of no use to anybody.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(cannot)
}

/// Keeps others from changing tokens until it is dropped.
pub(super) fn lock(home: &Path) -> Result<File, TokenError> {
    let path = home.join("tokens.lock");
    let cannot = |source| TokenError::File {
        file: path.clone(),
        source,
    };
    let file = os::file::open_to_overwrite(&path).map_err(cannot)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| cannot(error.into()))?;
    Ok(file)
}
