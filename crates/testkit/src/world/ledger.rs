//! What really happened, in order: effects, and what drivers were told is safe.
//!
//! One file holds both, so that "after" means after. Each line is one append with its own sync, made
//! by whoever caused it; it lies outside of whatever is cut off or filled up.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A driver has the task, under this fence.
    Started {
        /// The lease's number.
        fence: u64,
    },
    /// A step acted.
    Effect {
        /// Which step.
        step: String,
        /// The key it was given.
        key: String,
        /// What it gives as its output; no two effects have the same.
        token: String,
    },
    /// The end of a step was acknowledged, with this output.
    Ack {
        /// Which step.
        step: String,
        /// What the driver was given as its output.
        output: String,
    },
    /// The end of the task was acknowledged.
    Done,
}

/// The file.
#[derive(Debug, Clone)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file, which need not be there yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one line for a task; on disk when this returns.
    pub fn append(&self, task: &str, entry: &Entry) -> io::Result<()> {
        self.write(task, entry)?.sync_data()
    }

    /// Writes one line that survives the death of its process, though not of the machine.
    pub fn append_unsynced(&self, task: &str, entry: &Entry) -> io::Result<()> {
        self.write(task, entry).map(drop)
    }

    fn write(&self, task: &str, entry: &Entry) -> io::Result<File> {
        let line = match entry {
            Entry::Started { fence } => format!("started\t{task}\t{fence}\n"),
            Entry::Effect { step, key, token } => {
                format!("effect\t{task}\t{step}\t{key}\t{token}\n")
            }
            Entry::Ack { step, output } => format!("ack\t{task}\t{step}\t{}\n", output.trim()),
            Entry::Done => format!("done\t{task}\n"),
        };
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.write_all(line.as_bytes())?;
        Ok(file)
    }

    /// The lines of all tasks.
    pub fn by_task(&self) -> io::Result<BTreeMap<String, Vec<Entry>>> {
        let mut all: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for line in io::read_to_string(File::open(&self.path)?)?.lines() {
            let task = line.split('\t').nth(1).unwrap_or_default();
            all.entry(task.to_owned())
                .or_default()
                .extend(parse(line, task));
        }
        Ok(all)
    }

    /// The lines of one task.
    pub fn entries(&self, task: &str) -> io::Result<Vec<Entry>> {
        let text = match File::open(&self.path) {
            Ok(file) => io::read_to_string(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        Ok(text.lines().filter_map(|line| parse(line, task)).collect())
    }

    /// Whether a step acted at least once.
    pub fn happened(&self, task: &str, step: &str) -> io::Result<bool> {
        let of_step =
            |entry: &Entry| matches!(entry, Entry::Effect { step: found, .. } if found == step);
        Ok(self.entries(task)?.iter().any(of_step))
    }
}

fn parse(line: &str, task: &str) -> Option<Entry> {
    let mut fields = line.split('\t');
    let kind = fields.next()?;
    if fields.next()? != task {
        return None;
    }
    let mut field = || fields.next().map(str::to_owned);
    match kind {
        "started" => Some(Entry::Started {
            fence: field()?.parse().ok()?,
        }),
        "effect" => Some(Entry::Effect {
            step: field()?,
            key: field()?,
            token: field()?,
        }),
        "ack" => Some(Entry::Ack {
            step: field()?,
            output: field()?,
        }),
        "done" => Some(Entry::Done),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_in_order_and_by_task() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger"));
        let effect = Entry::Effect {
            step: "s01".into(),
            key: "k".into(),
            token: "t".into(),
        };
        let ack = Entry::Ack {
            step: "s01".into(),
            output: "t".into(),
        };
        for entry in [&effect, &ack, &Entry::Done] {
            ledger.append("a", entry).unwrap();
        }
        ledger.append("b", &Entry::Started { fence: 3 }).unwrap();
        assert_eq!(ledger.entries("a").unwrap(), [effect, ack, Entry::Done]);
        assert!(ledger.happened("a", "s01").unwrap());
        assert!(!ledger.happened("b", "s01").unwrap());
    }
}
