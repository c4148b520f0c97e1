//! Declared waits of an attempt: its own, and those of Relight commands that block in it. Stored in
//! the agent's folder for the next supervisor.
//!
//! Not synced: the attempt does not survive a power failure anyway. Written in place with one
//! write.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use super::folder::AgentFolder;
use super::notify::WaitId;
use crate::os::{file, process};

/// Maximum number of concurrent waits that are tracked.
const VERBS_MAX: usize = 256;
/// More is not ours.
const WAITS_BYTES_MAX: u64 = 1 << 20;

/// Waits of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Waits {
    /// It declared to be silent until then.
    pub(super) until: Option<Time>,
    verbs: Vec<VerbWait>,
}

/// A blocking Relight command within the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VerbWait {
    id: WaitId,
    until: Time,
    /// The waiting process; none for a request to this process, or if the kernel does not tell.
    process: Option<ProcessIdentity>,
}

impl Waits {
    /// Begins or ends the wait of a command.
    pub(super) fn verb(&mut self, id: WaitId, until: Option<Time>) {
        self.verbs.retain(|verb| verb.id != id);
        let Some(until) = until else { return };
        let process = process::identity(id.pid);
        let is_gone = id.pid != 0 && process.is_none();
        if !is_gone && self.verbs.len() < VERBS_MAX {
            self.verbs.push(VerbWait { id, until, process });
        }
    }

    /// Removes commands whose process is gone. Returns whether there were any.
    pub(super) fn forget_gone(&mut self) -> bool {
        let before = self.verbs.len();
        self.verbs
            .retain(|verb| verb.process.as_ref().is_none_or(process::is_alive));
        self.verbs.len() < before
    }

    /// When the last waiting command ends.
    pub(super) fn verbs_until(&self) -> Option<Time> {
        self.verbs.iter().map(|verb| verb.until).max()
    }

    /// When the last wait ends.
    pub(super) fn last(&self) -> Option<Time> {
        self.until.max(self.verbs_until())
    }
}

#[derive(Serialize, Deserialize)]
struct WaitRecord {
    attempt: AttemptTag,
    waits: Waits,
}

/// Writes the waits of the attempt.
pub(super) fn keep(folder: &AgentFolder, tag: &AttemptTag, waits: &Waits) -> io::Result<()> {
    // Requests end with this process; the next supervisor only needs the rest.
    let verbs = waits
        .verbs
        .iter()
        .filter(|verb| verb.process.is_some())
        .cloned()
        .collect();
    let waits = Waits {
        until: waits.until,
        verbs,
    };
    if waits == Waits::default() {
        return match std::fs::remove_file(folder.waiting()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600);
    let line = serde_json::to_string(&WaitRecord {
        attempt: tag.clone(),
        waits,
    })?;
    open.open(folder.waiting())?
        .write_all_at(format!("{line}\n").as_bytes(), 0)
}

/// Reads the waits of this attempt. Text after the first line is left over from a longer one.
pub(super) fn kept(folder: &AgentFolder, tag: &AttemptTag) -> Option<Waits> {
    let text = file::read_regular(&folder.waiting(), WAITS_BYTES_MAX)?;
    let text = String::from_utf8(text).ok()?;
    let (line, _) = text.split_once('\n')?;
    let line: WaitRecord = serde_json::from_str(line).ok()?;
    (line.attempt == *tag).then_some(line.waits)
}

#[cfg(test)]
mod tests {
    use relight_core::ids::AgentName;

    use super::*;

    fn folder() -> (tempfile::TempDir, AgentFolder, AgentName) {
        let home = tempfile::tempdir().unwrap();
        let agent = AgentName::new("writer").unwrap();
        let folder = AgentFolder::of(home.path(), &agent);
        folder.create().unwrap();
        (home, folder, agent)
    }

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn a_wait_is_kept_for_its_own_attempt_until_it_is_over() {
        let (_home, folder, agent) = folder();
        let tag = AttemptTag::new(&agent, 10, 7);
        let until = Some(at("2026-05-01T12:00:00.250Z"));
        let waits = Waits {
            until,
            ..Waits::default()
        };
        assert_eq!(kept(&folder, &tag), None);
        keep(&folder, &tag, &waits).unwrap();
        assert_eq!(kept(&folder, &tag), Some(waits.clone()));
        let shorter = AttemptTag::new(&agent, 9, 7);
        assert_eq!(kept(&folder, &shorter), None);
        keep(&folder, &shorter, &waits).unwrap();
        assert_eq!(kept(&folder, &shorter), Some(waits));
        keep(&folder, &shorter, &Waits::default()).unwrap();
        assert_eq!(kept(&folder, &shorter), None);
        keep(&folder, &shorter, &Waits::default()).unwrap();
    }

    #[test]
    fn a_verb_waits_until_it_says_so_or_its_process_is_gone() {
        let (_home, folder, agent) = folder();
        let tag = AttemptTag::new(&agent, 1, 7);
        let mut child = process::command("sleep", &["60"]).spawn().unwrap();
        let (ours, its) = (std::process::id(), child.id());
        let id = |pid, number| WaitId { pid, number };
        let (noon, later) = (at("2026-05-01T12:00:00Z"), at("2026-05-01T13:00:00Z"));
        let mut waits = Waits::default();
        waits.verb(id(ours, 1), Some(noon));
        waits.verb(id(its, 1), Some(later));
        waits.verb(id(0, 1), Some(later));
        keep(&folder, &tag, &waits).unwrap();
        let found = kept(&folder, &tag).unwrap();
        assert_eq!(
            (found.verbs.len(), found.verbs_until()),
            (2, Some(later)),
            "no request is kept"
        );
        assert!(!waits.forget_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(waits.forget_gone());
        waits.verb(id(0, 1), None);
        assert_eq!(waits.last(), Some(noon));
        waits.verb(id(its, 2), Some(later));
        assert_eq!(
            waits.last(),
            Some(noon),
            "whoever is gone already waits for nothing"
        );
        waits.verb(id(ours, 1), None);
        assert_eq!(waits, Waits::default());
    }
}
