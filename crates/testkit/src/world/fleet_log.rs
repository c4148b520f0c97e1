//! What agents of a fleet did, in order: one file that all of them append to, wherever they run.
//!
//! It stands for what machines have in common with the world outside: an effect that is in there has
//! happened, and lines come in the order in which things happened.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::clock;
use super::ledger::Ledger;

/// One line: who, when, what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds of the wall clock, which nobody turns for agents.
    pub at_ns: u64,
    /// The agent.
    pub agent: String,
    /// Which life of it.
    pub attempt: u32,
    /// What it tells.
    pub deed: Deed,
}

/// What an agent tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It lives, on this node, and has its task under this fence.
    Born {
        /// Where.
        node: String,
        /// The lease's number.
        fence: u64,
    },
    /// Another attempt holds the lock that only one can have.
    Doubled {
        /// Whose it is.
        holder: u32,
    },
    /// A step acted.
    Effect {
        /// Which.
        step: String,
        /// The key it was given.
        key: String,
    },
    /// The end of a step was acknowledged.
    Ack {
        /// Which.
        step: String,
    },
    /// It was told that its lease is no longer valid.
    Fenced,
    /// An answer that it must not get.
    Odd {
        /// What was asked and answered.
        what: String,
    },
    /// The end of the task was acknowledged.
    Done,
}

/// The folder with the log and the locks.
#[derive(Debug, Clone)]
pub struct FleetLog(PathBuf);

impl FleetLog {
    /// In this folder, which is made.
    pub fn at(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(folder.join("locks"))?;
        Ok(Self(folder))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// What workers of the queue did.
    pub fn ledger(&self) -> Ledger {
        Ledger::at(self.0.join("ledger"))
    }

    /// Tells all agents to end their tasks.
    pub fn call_it_a_day(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(self.0.join("enough"), "")?)
    }

    /// Whether they are to end their tasks.
    pub fn is_enough(&self) -> bool {
        self.0.join("enough").exists()
    }

    /// Appends one line.
    pub fn tell(&self, agent: &str, attempt: u32, deed: &Deed) -> anyhow::Result<()> {
        let told = match deed {
            Deed::Born { node, fence } => format!("born\t{node}\t{fence}"),
            Deed::Doubled { holder } => format!("doubled\t{holder}"),
            Deed::Effect { step, key } => format!("effect\t{step}\t{key}"),
            Deed::Ack { step } => format!("ack\t{step}"),
            Deed::Fenced => "fenced".to_owned(),
            Deed::Odd { what } => format!("odd\t{}", what.replace(['\n', '\t'], " ")),
            Deed::Done => "done".to_owned(),
        };
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.0.join("log"))?;
        let line = format!("{}\t{agent}\t{attempt}\t{told}\n", clock::wall_ns());
        Ok(file.write_all(line.as_bytes())?)
    }

    /// All lines so far. One that a killed agent did not finish is left out.
    pub fn lines(&self) -> anyhow::Result<Vec<Line>> {
        let text = std::fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| parse(line).with_context(|| format!("line {line:?}")))
            .collect()
    }

    /// Takes the lock of an agent until the process ends; the attempt that has it when somebody else
    /// does.
    pub fn lock(&self, agent: &str, attempt: u32) -> anyhow::Result<Result<File, u32>> {
        let path = self.0.join("locks").join(agent);
        let mut open = OpenOptions::new();
        let mut file = open
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(attempt.to_string().as_bytes())?;
                Ok(Ok(file))
            }
            Err(TryLockError::WouldBlock) => {
                // Whoever took it a moment ago may not have said who it is.
                Ok(Err(std::fs::read_to_string(&path)?.parse().unwrap_or(0)))
            }
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock"),
        }
    }
}

fn parse(line: &str) -> Option<Line> {
    let mut fields = line.split('\t');
    let mut field = || fields.next().map(str::to_owned);
    let (at_ns, agent, attempt) = (field()?.parse().ok()?, field()?, field()?.parse().ok()?);
    let deed = match field()?.as_str() {
        "born" => Deed::Born {
            node: field()?,
            fence: field()?.parse().ok()?,
        },
        "doubled" => Deed::Doubled {
            holder: field()?.parse().ok()?,
        },
        "effect" => Deed::Effect {
            step: field()?,
            key: field()?,
        },
        "ack" => Deed::Ack { step: field()? },
        "fenced" => Deed::Fenced,
        "odd" => Deed::Odd { what: field()? },
        "done" => Deed::Done,
        _ => return None,
    };
    Some(Line {
        at_ns,
        agent,
        attempt,
        deed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_told_and_a_torn_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let log = FleetLog::at(folder.path()).unwrap();
        let deeds = [
            Deed::Born {
                node: "n1".into(),
                fence: 7,
            },
            Deed::Effect {
                step: "s1".into(),
                key: "k".into(),
            },
            Deed::Odd {
                what: "a\tb".into(),
            },
            Deed::Done,
        ];
        for deed in &deeds {
            log.tell("a", 3, deed).unwrap();
        }
        let path = folder.path().join("log");
        let text = std::fs::read_to_string(&path).unwrap() + "12\ta\t3\tac";
        std::fs::write(path, text).unwrap();
        let read: Vec<Deed> = log
            .lines()
            .unwrap()
            .into_iter()
            .map(|line| line.deed)
            .collect();
        assert_eq!(read[..2], deeds[..2]);
        assert_eq!(read[2..], [Deed::Odd { what: "a b".into() }, Deed::Done]);
    }

    #[test]
    fn whoever_cannot_have_the_lock_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = FleetLog::at(folder.path()).unwrap();
        let held = log.lock("a", 3).unwrap();
        assert!(held.is_ok());
        assert_eq!(log.lock("a", 4).unwrap().unwrap_err(), 3);
        drop(held);
        assert!(log.lock("a", 4).unwrap().is_ok());
    }
}
