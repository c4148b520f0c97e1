//! Tokens: who may come in over TCP, and what for.
//!
//! The one in the file `token` may do everything; `tokens.json` holds the others by their hashes. Both
//! are files of the home folder that only their owner can read, so that the CLI changes them without
//! the daemon, and the daemon sees a change at the next request.

pub(crate) mod file;
mod file_watch;
mod keyring;
mod records;
mod scope;

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use relight_runtime::os::random;

pub use keyring::{Grant, Keyring};
pub use records::{TokenRecord, list, new, revoke};
pub use scope::{Scope, UnknownScope};

/// The file of the token that may do everything.
pub const FILE_NAME: &str = "token";
/// The file of all others.
pub const RECORDS_NAME: &str = "tokens.json";
/// What every token begins with, so that one can be recognised where it should not be.
const PREFIX: &str = "rlt_";

/// Why tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be used.
    #[error("cannot use {}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read the file.
    #[error("{} can be read by others (mode {:o}); chmod 600 it", .file.display(), .mode & 0o7777)]
    Open {
        /// Which.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not what it should be.
    #[error("{} is damaged: {what}", .file.display())]
    Damaged {
        /// Which.
        file: PathBuf,
        /// What was found.
        what: String,
    },
}

/// The token that may do everything; made now when there is none.
pub fn show(home: &Path) -> Result<String, TokenError> {
    let path = home.join(FILE_NAME);
    match file::read(&path)? {
        Some(text) => Ok(text.trim().to_owned()),
        None => {
            let _lock = file::lock(home)?;
            match file::read(&path)? {
                Some(text) => Ok(text.trim().to_owned()),
                None => write_new(&path),
            }
        }
    }
}

/// Makes another one; the old one is worth nothing from now on.
pub fn rotate(home: &Path) -> Result<String, TokenError> {
    let _lock = file::lock(home)?;
    write_new(&home.join(FILE_NAME))
}

fn write_new(path: &Path) -> Result<String, TokenError> {
    let secret = secret();
    file::write(path, format!("{secret}\n").as_bytes())?;
    Ok(secret)
}

/// 256 bits that nobody can guess, as text.
pub(crate) fn secret() -> String {
    format!("{PREFIX}{}", random_text())
}

/// The same without a name.
pub(crate) fn random_text() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(random::bytes::<32>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::tokens::Scope;

    #[test]
    fn the_token_is_made_once_and_only_its_owner_can_read_it() {
        let home = tempfile::tempdir().unwrap();
        let token = show(home.path()).unwrap();
        assert_eq!(token, show(home.path()).unwrap());
        assert_eq!(token.len(), PREFIX.len() + 43);
        let file = home.path().join(FILE_NAME);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(show(home.path()), Err(TokenError::Open { .. })));
        assert!(Keyring::open(home.path()).is_err());
    }

    #[test]
    fn a_rotated_or_revoked_token_is_worth_nothing_at_once() {
        let home = tempfile::tempdir().unwrap();
        let first = show(home.path()).unwrap();
        let keyring = Keyring::open(home.path()).unwrap();
        let scope = |token: &str| keyring.find(token.as_bytes()).map(|grant| grant.scope);
        assert_eq!(scope(&first), Some(Scope::Admin));
        let epoch = keyring.epoch();
        let second = rotate(home.path()).unwrap();
        assert_eq!((scope(&first), scope(&second)), (None, Some(Scope::Admin)));
        assert_ne!(keyring.epoch(), epoch);
        let (record, reader) = new(home.path(), Some("grafana"), Scope::Read).unwrap();
        assert_eq!(scope(&reader), Some(Scope::Read));
        assert_eq!(list(home.path()).unwrap(), std::slice::from_ref(&record));
        let kept = std::fs::read_to_string(home.path().join(RECORDS_NAME)).unwrap();
        assert!(!kept.contains(&reader));
        assert!(revoke(home.path(), &record.id).unwrap());
        assert!(!revoke(home.path(), &record.id).unwrap());
        assert_eq!(scope(&reader), None);
        assert_eq!(scope(""), None);
    }
}
