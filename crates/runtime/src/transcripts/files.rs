//! Finds, reads and replaces transcript files. The only place that touches them.
//!
//! A file is replaced as a whole: written beside, synced, renamed, the folder synced. The damaged one stays
//! beside it under another name, so that no byte is lost, even one that is written to it meanwhile.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use relight_redact::Redactor;
use rustix::fs::{Gid, Uid, fchown};
use serde::Deserialize;

use super::formats::Format;
use super::repair::{Examination, OpenCall, Remedy, examine};
use crate::os::{clock, file};

/// A longer transcript is not read.
const BYTES_MAX: u64 = 256 << 20;
/// So many entries of a folder are looked at.
const ENTRIES_MAX: usize = 100_000;
const NAMES_MAX: u32 = 1_000;
/// In names of damaged files: `session.jsonl.damaged-20260102T030405Z`.
const DAMAGED: &str = "damaged";

/// Where a program keeps the transcript of a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptRule {
    /// Its format.
    pub format: Format,
    /// The program's folder in the user's home, unless its variable names another.
    #[serde(default)]
    below: String,
    /// The file in that folder. `*` stands for any text without `/`, `{session}` for the session's id,
    /// `{session_start}` for its first eight characters.
    file: String,
}

impl TranscriptRule {
    /// The transcript of a session, the newest when several fit. `own_folder` is what the program's
    /// variable says.
    pub fn locate(
        &self,
        own_folder: Option<&Path>,
        home: Option<&Path>,
        session: &str,
    ) -> Option<PathBuf> {
        if session.is_empty() || session.contains(['/', '*']) || session.starts_with('.') {
            return None;
        }
        let start: String = session.chars().take(8).collect();
        let file = self
            .file
            .replace("{session_start}", &start)
            .replace("{session}", session);
        let mut found = vec![
            own_folder.map_or_else(|| Some(home?.join(&self.below)), |own| Some(own.to_owned()))?,
        ];
        for part in file.split('/') {
            found = found
                .iter()
                .flat_map(|folder| matching(folder, part))
                .collect();
        }
        let written = |path: &PathBuf| fs::symlink_metadata(path).and_then(|it| it.modified()).ok();
        found.into_iter().max_by_key(written)
    }
}

/// The entries of a folder that a pattern fits.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains('*') {
        let path = folder.join(pattern);
        return if path.exists() {
            vec![path]
        } else {
            Vec::new()
        };
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries
        .take(ENTRIES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| fits(name, pattern))
        .map(|name| folder.join(name))
        .collect()
}

fn fits(name: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    let mut tails = rest.char_indices().map(|(at, _)| &rest[at..]).chain([""]);
    tails.any(|tail| fits(tail, after))
}

/// What was found, and done, about one transcript.
#[derive(Debug)]
pub struct TranscriptReport {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// What was found.
    pub examination: Examination,
    /// Where the damaged file is now, when it was repaired.
    pub kept: Option<PathBuf>,
}

/// Why a transcript could not be examined or repaired.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The system said no.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// No record of a known format.
    #[error("{} is not a transcript of a known format", .0.display())]
    UnknownFormat(PathBuf),
    /// A process still has it open.
    #[error("{} is open in process {pid}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// Somebody wrote it meanwhile.
    #[error("{} changed while it was examined", .0.display())]
    Changed(PathBuf),
}

/// Examines a file. Without a format the records tell it.
pub fn check(path: &Path, format: Option<Format>) -> Result<TranscriptReport, TranscriptError> {
    read(path, format).map(|(report, _)| report)
}

/// Examines a file and repairs it if that is possible. The caller knows that its program has ended; a
/// process that has the file open is found here.
pub fn repair(path: &Path, format: Option<Format>) -> Result<TranscriptReport, TranscriptError> {
    let (mut report, before) = read(path, format)?;
    if let Remedy::Replace(content) = &report.examination.remedy {
        let failed = |source| TranscriptError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(pid) = user_of(&before) {
            return Err(TranscriptError::InUse {
                path: path.to_owned(),
                pid,
            });
        }
        let draft = Draft::write(path, content, &before).map_err(failed)?;
        let now = fs::symlink_metadata(path).map_err(failed)?;
        if !is_same(&before, &now) {
            return Err(TranscriptError::Changed(path.to_owned()));
        }
        report.kept = Some(draft.replace(path).map_err(failed)?);
    }
    Ok(report)
}

/// Calls without secrets.
pub fn redacted(mut calls: Vec<OpenCall>, redactor: &Redactor) -> Vec<OpenCall> {
    for call in &mut calls {
        call.name = redactor.text(&call.name).into_owned();
        redactor.json(&mut call.arguments);
    }
    calls
}

fn read(
    path: &Path,
    format: Option<Format>,
) -> Result<(TranscriptReport, Metadata), TranscriptError> {
    let failed = |source| TranscriptError::Io {
        path: path.to_owned(),
        source,
    };
    let opened = file::open_own(path).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    opened
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(failed(io::Error::other("it is larger than 256 MiB")));
    }
    let format = format.or_else(|| Format::detect(&bytes));
    let format = format.ok_or_else(|| TranscriptError::UnknownFormat(path.to_owned()))?;
    let examination = examine(format, &bytes, clock::now());
    Ok((
        TranscriptReport {
            path: path.to_owned(),
            format,
            examination,
            kept: None,
        },
        metadata,
    ))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let facts = |it: &Metadata| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec());
    facts(one) == facts(other)
}

/// A process that has the file open, as far as this user may look.
fn user_of(found: &Metadata) -> Option<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        let mut files = open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
        *pid != own && files.any(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
    })
}

/// The repaired file while it is beside the damaged one.
struct Draft(Option<PathBuf>);

impl Draft {
    fn write(path: &Path, content: &[u8], old: &Metadata) -> io::Result<Self> {
        let (beside, mut file) = create_beside(path, |number| {
            format!("relight-{}-{number}", std::process::id())
        })?;
        let draft = Self(Some(beside));
        file.write_all(content)?;
        if old.uid() != rustix::process::geteuid().as_raw() {
            fchown(
                &file,
                Some(Uid::from_raw(old.uid())),
                Some(Gid::from_raw(old.gid())),
            )?;
        }
        file.set_permissions(old.permissions())?;
        file.sync_all()?;
        Ok(draft)
    }

    /// Takes the place of the file; answers where that is now.
    fn replace(mut self, path: &Path) -> io::Result<PathBuf> {
        let kept = keep(path)?;
        if let Some(draft) = &self.0 {
            fs::rename(draft, path)?;
        }
        self.0 = None;
        File::open(
            path.parent()
                .filter(|it| !it.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        )?
        .sync_all()?;
        Ok(kept)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(draft) = &self.0 {
            // The caller hears of the failure that led here.
            let _ = fs::remove_file(draft);
        }
    }
}

/// Gives the damaged file a second name; where the file system cannot, a copy gets it.
fn keep(path: &Path) -> io::Result<PathBuf> {
    let now = format!("{:.0}", clock::now().as_timestamp()).replace(['-', ':'], "");
    for number in 0..NAMES_MAX {
        let kept = named_beside(path, &name_of_damaged(&now, number));
        match fs::hard_link(path, &kept) {
            Ok(()) => return Ok(kept),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => {
                let (kept, mut copy) = create_beside(path, |number| name_of_damaged(&now, number))?;
                io::copy(&mut File::open(path)?, &mut copy)?;
                copy.sync_all()?;
                return Ok(kept);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn name_of_damaged(now: &str, number: u32) -> String {
    if number == 0 {
        format!("{DAMAGED}-{now}")
    } else {
        format!("{DAMAGED}-{now}-{number}")
    }
}

/// No program takes a file with such an end for a transcript.
fn named_beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{end}"));
    PathBuf::from(name)
}

fn create_beside(path: &Path, end: impl Fn(u32) -> String) -> io::Result<(PathBuf, File)> {
    for number in 0..NAMES_MAX {
        let beside = named_beside(path, &end(number));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
        {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
