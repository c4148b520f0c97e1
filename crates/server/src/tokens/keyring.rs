//! The tokens as the daemon knows them: read again when their files change, compared in a time that
//! tells nothing about them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use subtle::ConstantTimeEq as _;

use super::file_watch::Bell;
use super::{FILE_NAME, RECORDS_NAME, TokenError, file, records};
use crate::tokens::Scope;

/// What a token gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its record's id; `first` for the one that may do everything.
    pub id: String,
    /// What it may do.
    pub scope: Scope,
}

/// The tokens of one home folder.
#[derive(Debug)]
pub struct Keyring {
    home: PathBuf,
    known: RwLock<LoadedKeys>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct LoadedKeys {
    stamps: [Option<Stamp>; 2],
    keys: Vec<([u8; 32], Grant)>,
    /// Of the first token's hash; another one logs every browser out.
    epoch: u64,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Keyring {
    /// The tokens there; the first is made when there is none.
    pub fn open(home: &Path) -> Result<Self, TokenError> {
        super::show(home)?;
        // Before the first look, so that no change falls between.
        let bell = Bell::hang_in(home);
        let known = RwLock::new(LoadedKeys::read(home, stamps(home))?);
        Ok(Self {
            home: home.to_owned(),
            known,
            bell,
        })
    }

    /// What this secret gives; none when it is not known.
    pub fn find(&self, secret: &[u8]) -> Option<Grant> {
        self.look_again();
        let hash = *blake3::hash(secret).as_bytes();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        // To the end whatever is found: the time tells nothing.
        for (key, grant) in &known.keys {
            if bool::from(key.ct_eq(&hash)) {
                found = Some(grant);
            }
        }
        found.cloned()
    }

    /// Another number for another first token.
    pub fn epoch(&self) -> u64 {
        self.look_again();
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .epoch
    }

    /// Files that cannot be read any more let nobody in.
    fn look_again(&self) {
        if !self.bell.rings() {
            return;
        }
        // Whoever does not hear the bell any more waits here, and sees what was found.
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        self.bell.silence();
        let stamps = stamps(&self.home);
        if known.stamps != stamps {
            let read = LoadedKeys::read(&self.home, stamps);
            *known = read.unwrap_or_else(|_| LoadedKeys {
                stamps,
                ..LoadedKeys::default()
            });
        }
    }
}

impl LoadedKeys {
    fn read(home: &Path, stamps: [Option<Stamp>; 2]) -> Result<Self, TokenError> {
        let mut keys = Vec::new();
        let mut epoch = 0;
        if let Some(text) = file::read(&home.join(FILE_NAME))? {
            let secret = text.trim();
            if secret.is_empty() {
                let file = home.join(FILE_NAME);
                return Err(TokenError::Damaged {
                    file,
                    what: "it is empty".to_owned(),
                });
            }
            let hash = *blake3::hash(secret.as_bytes()).as_bytes();
            epoch = u64::from_le_bytes(*hash.first_chunk().expect("a hash is longer"));
            keys.push((
                hash,
                Grant {
                    id: "first".to_owned(),
                    scope: Scope::Admin,
                },
            ));
        }
        for record in records::list(home)? {
            // One that is damaged opens nothing; the others go on.
            let Ok(hash) = blake3::Hash::from_hex(&record.hash) else {
                continue;
            };
            keys.push((
                *hash.as_bytes(),
                Grant {
                    id: record.id,
                    scope: record.scope,
                },
            ));
        }
        Ok(Self {
            stamps,
            keys,
            epoch,
        })
    }
}

fn stamps(home: &Path) -> [Option<Stamp>; 2] {
    [FILE_NAME, RECORDS_NAME].map(|name| {
        let found = std::fs::symlink_metadata(home.join(name)).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        Some(Stamp {
            inode: found.ino(),
            bytes: found.len(),
            modified,
            mode: found.mode(),
        })
    })
}
