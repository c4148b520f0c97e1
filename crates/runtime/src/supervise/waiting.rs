//! The wait that an attempt declared, kept for the next supervisor: one line in the agent's folder.
//!
//! Not synced: after a power cut the attempt is over anyway. Written in place, whole in one write.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use relight_core::agent::AttemptTag;
use relight_core::time::Time;

use super::folder::AgentFolder;

/// Keeps until when the attempt waits, or that it does not any more.
pub(super) fn keep(folder: &AgentFolder, tag: &AttemptTag, until: Option<Time>) -> io::Result<()> {
    let Some(until) = until else {
        return match std::fs::remove_file(folder.waiting()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600);
    open.open(folder.waiting())?.write_all_at(format!("{tag} {until}\n").as_bytes(), 0)
}

/// Until when this very attempt said that it waits. Behind the first line is what a longer one left.
pub(super) fn kept(folder: &AgentFolder, tag: &AttemptTag) -> Option<Time> {
    let text = std::fs::read_to_string(folder.waiting()).ok()?;
    let (line, _) = text.split_once('\n')?;
    let (whose, until) = line.rsplit_once(' ')?;
    if whose == tag.as_str() { until.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use relight_core::ids::AgentName;

    use super::*;

    #[test]
    fn a_wait_is_kept_for_its_own_attempt_until_it_is_over() {
        let home = tempfile::tempdir().unwrap();
        let agent = AgentName::new("writer").unwrap();
        let folder = AgentFolder::of(home.path(), &agent);
        folder.create().unwrap();
        let tag = AttemptTag::new(&agent, 10, 7);
        let until: Time = "2026-05-01T12:00:00.250Z".parse().unwrap();
        assert_eq!(kept(&folder, &tag), None);
        keep(&folder, &tag, Some(until)).unwrap();
        assert_eq!(kept(&folder, &tag), Some(until));
        let shorter = AttemptTag::new(&agent, 9, 7);
        assert_eq!(kept(&folder, &shorter), None);
        keep(&folder, &shorter, Some(until)).unwrap();
        assert_eq!(kept(&folder, &shorter), Some(until));
        keep(&folder, &shorter, None).unwrap();
        assert_eq!(kept(&folder, &shorter), None);
        keep(&folder, &shorter, None).unwrap();
    }
}
