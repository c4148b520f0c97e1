//! What git says about a workspace, read from its files as far as they tell.
//!
//! Cheap where there is no repository: a look upward for `.git`. Branch and HEAD are read directly, also
//! in linked worktrees; only the changed files need git itself (`dirty`). A repository that keeps its
//! refs in another format than files tells less, and no wrong thing.

use std::path::{Path, PathBuf};

use relight_core::agent::brief::GitFacts;
use relight_core::time::{Span, Time};

use crate::os::{clock, file};

/// Most bytes of a small file of git.
const SMALL_BYTES_MAX: u64 = 4 << 10;
/// Most bytes of `packed-refs`: some hundred thousand refs.
const PACKED_BYTES_MAX: u64 = 32 << 20;
const ANCESTORS_MAX: usize = 64;

/// What the files of git say, at once; none when the workspace is in no repository. The changed files
/// stay unknown: [`crate::supervise::successor::dirty_files`] asks git for them.
pub fn git_facts(workspace: &Path) -> Option<GitFacts> {
    let repository = Repository::of(workspace)?;
    let (branch, head) = repository.branch_and_head();
    let index_lock_age = repository.index_lock_age(clock::now());
    Some(GitFacts {
        branch,
        head,
        dirty: None,
        index_lock_age,
    })
}

/// The commit of HEAD, to be remembered when an attempt begins.
pub fn git_head(workspace: &Path) -> Option<String> {
    Repository::of(workspace)?.branch_and_head().1
}

/// Settings of `[core]` that change what counts as changed, and name nothing that is run.
const PLAIN_KEYS: [&str; 4] = ["filemode", "symlinks", "ignorecase", "autocrlf"];

/// Where a repository keeps its own.
pub(crate) struct Repository {
    /// The folder that is tracked.
    pub(crate) root: PathBuf,
    /// HEAD and the index of this worktree.
    pub(crate) own: PathBuf,
    /// Branches, shared by all worktrees.
    pub(crate) common: PathBuf,
}

impl Repository {
    /// The nearest one upward.
    pub(crate) fn of(workspace: &Path) -> Option<Self> {
        let mut folders = workspace.ancestors().take(ANCESTORS_MAX);
        folders.find_map(|folder| Self::at(folder, &folder.join(".git")))
    }

    /// `.git` is a folder, or in linked worktrees and submodules a file that names one.
    fn at(folder: &Path, dot_git: &Path) -> Option<Self> {
        let kind = std::fs::metadata(dot_git).ok()?.file_type();
        let own = if kind.is_dir() {
            dot_git.to_owned()
        } else {
            let text = small_text(dot_git)?;
            folder.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = match small_text(&own.join("commondir")) {
            Some(text) => own.join(text.trim()),
            None => own.clone(),
        };
        // Links of ours lead there, from another folder.
        let absolute = |path: PathBuf| std::path::absolute(path).ok();
        Some(Self {
            root: absolute(folder.to_owned())?,
            own: absolute(own)?,
            common: absolute(common)?,
        })
    }

    /// What HEAD says, and nothing but a ref or a commit.
    pub(crate) fn head_line(&self) -> Option<String> {
        let head = small_text(&self.own.join("HEAD"))?;
        let name = head.trim().strip_prefix("ref:").map(str::trim);
        let name = name.filter(|name| name.starts_with("refs/") && !name.contains(['\n', '\0']));
        let line = name
            .map(|name| format!("ref: {name}"))
            .or_else(|| as_hash(&head))?;
        Some(line + "\n")
    }

    /// A configuration with the plain settings of this one's, and nothing that could be run. Only lines
    /// of the plainest form are understood.
    pub(crate) fn plain_config(&self) -> String {
        let there = small_text(&self.common.join("config")).unwrap_or_default();
        let mut plain = "[core]\n\tbare = false\n".to_owned();
        let (mut section, mut is_sha256) = (String::new(), false);
        for line in there.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']').trim().to_ascii_lowercase();
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (
                key.trim().to_ascii_lowercase(),
                value.trim().to_ascii_lowercase(),
            );
            let is_plain =
                PLAIN_KEYS.contains(&&*key) && ["true", "false", "input"].contains(&&*value);
            if section == "core" && is_plain {
                plain += &format!("\t{key} = {value}\n");
            }
            is_sha256 |= (&*section, &*key, &*value) == ("extensions", "objectformat", "sha256");
        }
        plain += &format!("\trepositoryformatversion = {}\n", u8::from(is_sha256));
        if is_sha256 {
            plain += "[extensions]\n\tobjectFormat = sha256\n";
        }
        plain
    }

    fn branch_and_head(&self) -> (Option<String>, Option<String>) {
        let Some(head) = small_text(&self.own.join("HEAD")) else {
            return (None, None);
        };
        let Some(name) = head.trim().strip_prefix("ref:").map(str::trim) else {
            return (None, as_hash(&head));
        };
        let branch = name
            .strip_prefix("refs/heads/")
            .filter(|branch| *branch != ".invalid");
        (branch.map(str::to_owned), self.resolve(name))
    }

    /// The commit of a ref: its own file counts before the packed ones.
    fn resolve(&self, name: &str) -> Option<String> {
        let leaves_the_folder = !name.starts_with("refs/") || name.contains("..");
        if leaves_the_folder {
            return None;
        }
        let loose = small_text(&self.common.join(name));
        loose
            .as_deref()
            .and_then(as_hash)
            .or_else(|| self.packed(name))
    }

    fn packed(&self, name: &str) -> Option<String> {
        let packed = text(&self.common.join("packed-refs"), PACKED_BYTES_MAX)?;
        let lines = packed.lines().filter_map(|line| line.split_once(' '));
        lines
            .into_iter()
            .find(|(_, found)| *found == name)
            .and_then(|(hash, _)| as_hash(hash))
    }

    fn index_lock_age(&self, now: Time) -> Option<Span> {
        Some(now.since(file::modified_at(&self.own.join("index.lock"))?))
    }
}

fn as_hash(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

fn small_text(path: &Path) -> Option<String> {
    text(path, SMALL_BYTES_MAX)
}

fn text(path: &Path, bytes_max: u64) -> Option<String> {
    let bytes = file::read_regular(path, bytes_max)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
