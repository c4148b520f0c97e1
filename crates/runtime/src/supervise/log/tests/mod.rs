mod attempts;
mod following;
mod growing;
mod reading;
mod trimming;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use super::{AgentLog, LogLimits, LogPosition};
use crate::supervise::folder::AgentFolder;

/// The log of an agent whose folder goes with it.
struct Stage {
    log: AgentLog,
    _home: tempfile::TempDir,
}

/// Small enough to be full soon.
const LIMITS: LogLimits = LogLimits {
    file_bytes_max: 100_000,
    files_max: 10,
};

fn stage() -> Stage {
    let home = tempfile::tempdir().unwrap();
    let agent = AgentFolder::of(home.path(), &"writer".parse().unwrap());
    Stage {
        log: AgentLog::of(&agent),
        _home: home,
    }
}

impl Stage {
    /// The file as an agent has it.
    fn agent(&self, number: u64) -> File {
        std::fs::create_dir_all(self.log.folder()).unwrap();
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.log.path(number))
            .unwrap()
    }

    /// An agent writes this.
    fn says(&self, number: u64, text: impl AsRef<[u8]>) {
        self.agent(number).write_all(text.as_ref()).unwrap();
    }
}

fn at(number: u64, offset: u64) -> LogPosition {
    LogPosition { number, offset }
}

/// A line of exactly a hundred bytes that can be told from all others.
fn numbered(number: u64) -> String {
    format!("{number:012} {:.<86}\n", "")
}

/// What it waits for comes, or the test fails.
async fn soon<T>(wait: impl Future<Output = std::io::Result<T>>) -> T {
    let bound = Duration::from_secs(120);
    tokio::time::timeout(bound, wait)
        .await
        .expect("it comes within seconds")
        .unwrap()
}
