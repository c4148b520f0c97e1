//! The tokens beside the first one: who they are for, what they may, and the hash of each.

use std::path::Path;

use relight_core::time::Time;
use relight_runtime::os::{clock, random};
use serde::{Deserialize, Serialize};

use super::{RECORDS_NAME, TokenError, file, secret};
use crate::tokens::Scope;

/// One token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// By which it is revoked.
    pub id: String,
    /// What it is for, in the owner's words.
    pub name: Option<String>,
    /// What it may do.
    pub scope: Scope,
    /// Of the secret: BLAKE3 in hexadecimal.
    pub hash: String,
    /// When it was made.
    pub created_at: Time,
}

/// All of them, oldest first.
pub fn list(home: &Path) -> Result<Vec<TokenRecord>, TokenError> {
    let path = home.join(RECORDS_NAME);
    let Some(text) = file::read(&path)? else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text).map_err(|error| TokenError::Damaged {
        file: path,
        what: error.to_string(),
    })
}

/// Makes one; answers its record and the secret, which is kept nowhere.
pub fn new(
    home: &Path,
    name: Option<&str>,
    scope: Scope,
) -> Result<(TokenRecord, String), TokenError> {
    let _lock = file::lock(home)?;
    let mut records = list(home)?;
    let secret = secret();
    let record = TokenRecord {
        id: format!("{:08x}", u32::from_le_bytes(random::bytes())),
        name: name.map(str::to_owned),
        scope,
        hash: blake3::hash(secret.as_bytes()).to_hex().to_string(),
        created_at: clock::now(),
    };
    records.push(record.clone());
    write(home, &records)?;
    Ok((record, secret))
}

/// Takes one away; whether it was there.
pub fn revoke(home: &Path, id: &str) -> Result<bool, TokenError> {
    let _lock = file::lock(home)?;
    let mut records = list(home)?;
    let before = records.len();
    records.retain(|record| record.id != id);
    let was_there = records.len() < before;
    if was_there {
        write(home, &records)?;
    }
    Ok(was_there)
}

fn write(home: &Path, records: &[TokenRecord]) -> Result<(), TokenError> {
    let mut text = serde_json::to_string_pretty(records).expect("records are plain JSON");
    text.push('\n');
    file::write(&home.join(RECORDS_NAME), text.as_bytes())
}
