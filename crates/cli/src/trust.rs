//! Approved configurations of working folders.
//!
//! A `relight.toml` that nobody named may come with a folder that somebody else made. Keys that say what
//! is run, or where the store or an alert goes, count only once this content of the file was approved: by
//! `relight trust`, or by `relight up`, which runs the agents of the file anyway. An approval is one small
//! file in the home, found by the path of the configuration.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use relight_core::time::Time;
use relight_runtime::os::{clock, file};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Origin};
use crate::exit::{Exit, Failure, cannot_use};
use crate::whole_file;

/// The keys that need approval.
pub(crate) const STORE_URL: &str = "[store] url";
pub(crate) const EXEC: &str = "[recovery] exec";
pub(crate) const ALERT_COMMAND: &str = "[alert] command";
pub(crate) const ALERT_WEBHOOK: &str = "[alert] webhook";
pub(crate) const HOOKS: &str = "[hooks]";

const FOLDER: &str = "trusted";
/// Most bytes of one approval.
const BYTES_MAX: u64 = 64 << 10;
/// So many approvals are listed.
const LISTED_MAX: usize = 10_000;

/// One content of one file that a person approved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Approval {
    pub(crate) path: String,
    /// Of the content.
    pub(crate) hash: String,
    pub(crate) approved_at: Time,
}

/// The keys of a configuration that need approval, of those that were asked for.
pub(crate) fn keys(config: &Config) -> Vec<&'static str> {
    let all = [
        (STORE_URL, config.store_url.is_some()),
        (EXEC, !config.recovery.exec.is_empty()),
        (ALERT_COMMAND, !config.alert.command.is_empty()),
        (ALERT_WEBHOOK, config.alert.webhook.is_some()),
        (HOOKS, config.hooks != Config::tool_rules_of("")),
    ];
    all.into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(key, _)| key)
        .collect()
}

/// Refuses a file whose content is not approved.
pub(crate) fn require(home: &Path, origin: &Origin, keys: &[&str]) -> Result<(), Failure> {
    let approved = find(home, &origin.source.file);
    let why = match approved {
        Some(approved) if approved.hash == origin.hash => return Ok(()),
        Some(_) => "has changed since it was approved",
        None => "is not approved",
    };
    let file = origin.source.file.display();
    let text = format!("{file} sets {} and {why}", keys.join(", "));
    Err(Failure::new(Exit::Config, text).hint(format!(
        "read it, then: relight trust {file}; or name it by --config or RELIGHT_CONFIG"
    )))
}

/// Approves the content that a configuration was read from.
pub(crate) fn approve(home: &Path, origin: &Origin) -> Result<Approval, Failure> {
    let path = settled(&origin.source.file);
    let approval = Approval {
        path: path.to_string_lossy().into_owned(),
        hash: origin.hash.clone(),
        approved_at: clock::now(),
    };
    let folder = home.join(FOLDER);
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.map_err(|error| cannot_use(&folder, &error))?;
    let text = serde_json::to_string(&approval).expect("an approval has string keys") + "\n";
    let place = place_of(home, &path);
    whole_file::replace_private(&place, text.as_bytes())
        .map_err(|error| whole_file::failure("write", &place, &error))?;
    Ok(approval)
}

/// Approves the content that a configuration was read from, unless that was done before.
pub(crate) fn approve_once(home: &Path, origin: &Origin) -> Result<(), Failure> {
    match find(home, &origin.source.file) {
        Some(known) if known.hash == origin.hash => Ok(()),
        _ => approve(home, origin).map(|_| ()),
    }
}

/// Takes an approval back; whether there was one.
pub(crate) fn remove(home: &Path, file: &Path) -> Result<bool, Failure> {
    let place = place_of(home, &settled(file));
    whole_file::remove(&place).map_err(|error| whole_file::failure("remove", &place, &error))
}

/// Every approval, by path.
pub(crate) fn all(home: &Path) -> Result<Vec<Approval>, Failure> {
    let folder = home.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| cannot_use(&folder, &error))?,
    };
    let files = entries
        .take(LISTED_MAX)
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let mut all: Vec<Approval> = files.filter_map(|file| read(&file)).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(all)
}

fn find(home: &Path, file: &Path) -> Option<Approval> {
    read(&place_of(home, &settled(file)))
}

fn read(place: &Path) -> Option<Approval> {
    serde_json::from_slice(&file::read_regular(place, BYTES_MAX)?).ok()
}

fn place_of(home: &Path, settled: &Path) -> PathBuf {
    let hash = blake3::hash(settled.as_os_str().as_bytes()).to_hex();
    home.join(FOLDER).join(format!("{}.json", &hash[..32]))
}

/// The one path by which a file is known. Its folder is resolved, for relative paths in it count from
/// there; the file itself is not: a link in another folder is another configuration.
fn settled(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    match folder {
        Some(folder) => folder.join(file.file_name().unwrap_or(OsStr::new(""))),
        None => file,
    }
}
