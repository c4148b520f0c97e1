//! The key that signs webhooks: read from a user's file, or created beside the store.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::os::random;

/// The environment variable that overrides any file.
pub const VARIABLE: &str = "RELIGHT_WEBHOOK_SECRET";
/// The file that is created when no secret is configured.
pub const FILE_NAME: &str = "webhook.secret";
/// Prefix of the standard format.
const PREFIX: &str = "whsec_";
/// Minimum key length.
const KEY_BYTES_MIN: usize = 16;
/// Maximum file size.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// One key. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be used.
    #[error("cannot use {}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read the file.
    #[error("{} can be read by others (mode {:o})", .file.display(), .mode & 0o7777)]
    Open {
        /// Which.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is no key in it.
    #[error("the secret is empty")]
    Empty,
    /// It is too short.
    #[error("the secret is shorter than {KEY_BYTES_MIN} bytes")]
    Short,
    /// It is not valid base64.
    #[error("what follows {PREFIX} is not base64")]
    NotBase64,
}

/// Parses keys, one per line: `whsec_` and base64, or plain text.
pub fn parse(text: &str) -> Result<Vec<SigningKey>, SecretError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys = lines
        .map(key)
        .collect::<Result<Vec<SigningKey>, SecretError>>()?;
    if keys.is_empty() {
        Err(SecretError::Empty)
    } else {
        Ok(keys)
    }
}

fn key(line: &str) -> Result<SigningKey, SecretError> {
    let bytes = match line.strip_prefix(PREFIX) {
        Some(encoded) => BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| SecretError::NotBase64)?,
        None => line.as_bytes().to_vec(),
    };
    if bytes.len() < KEY_BYTES_MIN {
        Err(SecretError::Short)
    } else {
        Ok(SigningKey(bytes))
    }
}

/// Reads a file that only its owner can read.
pub fn read(path: &Path) -> Result<String, SecretError> {
    let cannot = |source| SecretError::File {
        file: path.to_owned(),
        source,
    };
    // Do not block on a pipe or another special file.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut open = File::options();
    let file = open
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(cannot(io::Error::other("it is not a file")));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(SecretError::Open {
            file: path.to_owned(),
            mode: metadata.mode(),
        });
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    Ok(text)
}

/// Reads the generated file; creates it if it does not exist.
pub fn read_or_make(folder: &Path) -> Result<String, SecretError> {
    let path = folder.join(FILE_NAME);
    if !path.exists() {
        make(folder, &path).map_err(|source| SecretError::File {
            file: path.clone(),
            source,
        })?;
    }
    read(&path)
}

/// Creates the file atomically; the first process wins.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let secret: [u8; 32] = random::bytes();
    let beside = folder.join(format!(".{FILE_NAME}.{:016x}", random::number()));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let made = file
        .write_all(format!("{PREFIX}{}\n", BASE64_STANDARD.encode(secret)).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| match std::fs::hard_link(&beside, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    std::fs::remove_file(&beside)?;
    made?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_that_is_no_secret_is_refused() {
        for (text, why) in [
            ("", "the secret is empty"),
            (" \n\n", "the secret is empty"),
            ("hunter2", "the secret is shorter than 16 bytes"),
            ("whsec_aGk=", "the secret is shorter than 16 bytes"),
            ("whsec_&&&", "what follows whsec_ is not base64"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), why, "{text:?}");
        }
        assert_eq!(
            format!("{:?}", parse("a text of some length").unwrap()),
            "[SigningKey(…)]"
        );
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "a text of some length").unwrap();
        for (mode, is_taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&file).is_ok(), is_taken, "{mode:o}");
        }
    }

    #[test]
    fn a_secret_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = read_or_make(folder.path()).unwrap();
        assert!(first.starts_with(PREFIX) && parse(&first).is_ok());
        assert_eq!(read_or_make(folder.path()).unwrap(), first);
        let mode = folder.path().join(FILE_NAME).metadata().unwrap().mode();
        assert_eq!(
            (mode & 0o777, folder.path().read_dir().unwrap().count()),
            (0o600, 1)
        );
    }
}
