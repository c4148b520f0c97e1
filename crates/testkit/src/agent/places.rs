//! Where agents leave their records, and how a prover reads them.
//!
//! `births/NAME` has a line for each start; `live/NAME.NUMBER.PID` is locked by each process of the
//! tree as long as it lives, whoever is to blame; `leaders/NAME` is locked by the one leader;
//! `written/NAME.NUMBER` says how many lines have been written for certain; `environment/NAME.NUMBER`
//! is what Relight told it; `complaints` has a line for everything that must never be.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The folders of one proof.
#[derive(Debug, Clone)]
pub struct Places(PathBuf);

/// One start of an agent, as it told itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// The number in its tag.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// Its first instruction, on the monotonic clock.
    pub at_ns: u64,
    /// `RELIGHT_ATTEMPT`.
    pub tag: String,
}

/// A process of a tree that lives, or lived.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveMark {
    /// Its agent.
    pub name: String,
    /// The attempt that it belongs to.
    pub number: u32,
    /// Its process.
    pub pid: u32,
}

impl Places {
    /// In this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Makes the folders. Once, before the first agent.
    pub fn create(&self) -> anyhow::Result<()> {
        for name in ["births", "live", "leaders", "written", "environment"] {
            std::fs::create_dir_all(self.0.join(name))?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// What must never be, told by whoever saw it.
    pub fn complain(&self, text: &str) {
        // One write, so that lines of several agents do not mix; there is nobody to tell if it fails.
        let _ = self.append("complaints", text);
    }

    /// All complaints so far.
    pub fn complaints(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("complaints")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn record_birth(&self, name: &str, birth: &Birth) -> anyhow::Result<()> {
        let Birth {
            number,
            pid,
            at_ns,
            tag,
        } = birth;
        self.append(
            &format!("births/{name}"),
            &format!("{number} {pid} {at_ns} {tag}"),
        )
    }

    /// All starts of an agent, in their order.
    pub fn births(&self, name: &str) -> anyhow::Result<Vec<Birth>> {
        let text = std::fs::read_to_string(self.0.join("births").join(name)).unwrap_or_default();
        text.lines()
            .map(|line| birth(line).with_context(|| format!("birth {line:?}")))
            .collect()
    }

    pub(super) fn record_environment(&self, name: &str, number: u32, text: &str) {
        let file = self.0.join("environment").join(format!("{name}.{number}"));
        if let Err(error) = std::fs::write(file, text) {
            self.complain(&format!(
                "{name}.{number} cannot record its environment: {error}"
            ));
        }
    }

    /// A variable that an attempt was given; none when it was not, or never came to record it.
    pub fn variable(&self, name: &str, number: u32, variable: &str) -> Option<String> {
        let file = self.0.join("environment").join(format!("{name}.{number}"));
        let text = std::fs::read_to_string(file).ok()?;
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(variable)?.strip_prefix('='));
        found.map(str::to_owned)
    }

    pub(super) fn written_file(&self, name: &str, number: u32) -> anyhow::Result<File> {
        let path = self.0.join("written").join(format!("{name}.{number}"));
        Ok(OpenOptions::new()
            .create(true)
            .append(false)
            .write(true)
            .truncate(true)
            .open(path)?)
    }

    /// How many lines an attempt had certainly written.
    pub fn written(&self, name: &str, number: u32) -> u64 {
        let mut count = [0; 8];
        let path = self.0.join("written").join(format!("{name}.{number}"));
        match File::open(path).and_then(|file| file.read_exact_at(&mut count, 0)) {
            Ok(()) => u64::from_le_bytes(count),
            // Not one line yet.
            Err(_) => 0,
        }
    }

    /// Locks a file until this process ends; none when somebody else has it.
    pub(super) fn hold(&self, relative: &str) -> anyhow::Result<Option<File>> {
        let path = self.0.join(relative);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock"),
        }
    }

    /// Marks this process as alive until it ends.
    pub(super) fn mark(&self, name: &str, number: u32) -> anyhow::Result<File> {
        let file = format!("{name}.{number}.{}", std::process::id());
        let path = self.0.join("live").join(file);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        // Somebody may be looking at it in this very moment.
        file.lock()?;
        Ok(file)
    }

    fn append(&self, relative: &str, line: &str) -> anyhow::Result<()> {
        let path = self.0.join(relative);
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }
}

/// Every process of every tree that lives now. The marks of dead ones are removed.
pub fn live_marks(places: &Places) -> anyhow::Result<Vec<LiveMark>> {
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(places.folder().join("live"))? {
        let path = entry?.path();
        let Some(mark) = path.file_name().and_then(|name| live_mark(name.to_str()?)) else {
            continue;
        };
        // Gone since the folder was read: another one looked too.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        // Shared, so that two who look at once do not take each other for the living.
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => alive.push(mark),
            // A process may have made its mark and not locked it yet: it is left alone while that pid
            // lives.
            Ok(()) if Path::new(&format!("/proc/{}", mark.pid)).exists() => {}
            Ok(()) | Err(TryLockError::Error(_)) => {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
    alive.sort();
    Ok(alive)
}

fn birth(line: &str) -> Option<Birth> {
    let mut fields = line.split(' ');
    Some(Birth {
        number: fields.next()?.parse().ok()?,
        pid: fields.next()?.parse().ok()?,
        at_ns: fields.next()?.parse().ok()?,
        tag: fields.next()?.to_owned(),
    })
}

fn live_mark(file: &str) -> Option<LiveMark> {
    let mut fields = file.rsplitn(3, '.');
    let (pid, number) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(LiveMark {
        name: fields.next()?.to_owned(),
        number,
        pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::at(folder.path());
        places.create().unwrap();
        (folder, places)
    }

    #[test]
    fn a_mark_counts_as_long_as_it_is_locked() {
        let (_folder, places) = places();
        let held = places.hold("live/a.b.3.4194000").unwrap();
        let mark = LiveMark {
            name: "a.b".into(),
            number: 3,
            pid: 4_194_000,
        };
        assert_eq!(live_marks(&places).unwrap(), [mark]);
        drop(held);
        assert_eq!(live_marks(&places).unwrap(), []);
        assert_eq!(
            std::fs::read_dir(places.folder().join("live"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn what_is_held_is_not_held_twice() {
        let (_folder, places) = places();
        let held = places.hold("leaders/a").unwrap();
        assert!(held.is_some());
        assert!(places.hold("leaders/a").unwrap().is_none());
    }

    #[test]
    fn a_birth_is_read_as_it_was_told() {
        let (_folder, places) = places();
        let birth = Birth {
            number: 2,
            pid: 7,
            at_ns: 9,
            tag: "a.2.ff".into(),
        };
        places.record_birth("a", &birth).unwrap();
        assert_eq!(places.births("a").unwrap(), [birth]);
    }
}
