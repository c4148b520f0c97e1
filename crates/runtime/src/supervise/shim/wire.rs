//! What supervisor and shim say to each other: one JSON object a line, on a Unix stream.
//!
//! The first message of a supervisor is `Hello`; with the very first of all comes, as ancillary data,
//! the agent's lock. A shim obeys the largest fence it has seen and closes the connection of others.

use std::path::PathBuf;

use relight_core::agent::AttemptTag;
use relight_core::agent::death::HowEnded;
use relight_core::lease::{Fence, ProcessIdentity};
use relight_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::fleet::Deadline;
use crate::os::word::Word;
use crate::presets::Rung;

/// What a supervisor says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// I am the supervisor now. Answered with `Report::Status`.
    Hello {
        /// By this right.
        fence: Fence,
    },
    /// Start an attempt. Answered with `Started`, or with `Ended` when it could not be started; when
    /// something runs nothing is started, and the answer is `Status`.
    Start(Box<StartOrder>),
    /// End the tree: each rung's signal to all of it, then the wait; SIGKILL after the last. Another
    /// one counts when it ends sooner. Answered with `Status` when nothing runs.
    Stop {
        /// The ladder.
        ladder: Vec<Rung>,
        /// The attempt to stop; without it, the running one. A late order must not stop the next attempt.
        #[serde(default)]
        tag: Option<AttemptTag>,
    },
    /// What runs may live so long; the newest one counts.
    Guard(Deadline),
    /// Be gone; when something runs the answer is `Status`.
    Quit,
}

/// All that is needed to start an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOrder {
    /// Its tag.
    pub tag: AttemptTag,
    /// Its number.
    pub number: u32,
    /// Program and arguments.
    pub command: Vec<Word>,
    /// Its whole environment.
    pub environment: Vec<(Word, Word)>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Where its output is appended; nowhere of ours when it keeps the terminal.
    pub log: PathBuf,
    /// What it reads.
    pub input: Input,
    /// How many files it may have open, where the supervisor raised its own limit.
    pub nofile: Option<u64>,
    /// The user to run as, where it is not ours: uid and gid.
    pub user: Option<(u32, u32)>,
    /// Its own cgroup and the one of the attempt after it, as absolute folders.
    pub cgroups: Option<(PathBuf, PathBuf)>,
    /// How long what outlives the leader has to end after SIGTERM.
    pub leftover_grace: Span,
    /// How long it may live without another word; for ever when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Deadline>,
}

/// What an agent reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Nothing.
    Null,
    /// The terminal of the supervisor, which came with the lock; output goes there too.
    Terminal,
    /// The supervisor's own standard input, which came with the lock; for one attempt.
    Passed,
}

/// What a shim says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum ShimReport {
    /// What it has.
    Status {
        /// Itself.
        shim: ProcessIdentity,
        /// The live attempt and its leader.
        running: Option<(AttemptTag, ProcessIdentity)>,
    },
    /// The attempt's process runs.
    Started {
        /// Which attempt.
        tag: AttemptTag,
        /// Its leader.
        process: ProcessIdentity,
    },
    /// The attempt's tree is gone.
    Ended(ExitRecord),
    /// A newer supervisor was here.
    Refused {
        /// By this right.
        newest: Fence,
    },
}

/// What a shim knows of an attempt that ended; also a file, `exit-NUMBER.json`, until the supervisor
/// has committed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Which attempt.
    pub tag: AttemptTag,
    /// Its number.
    pub number: u32,
    /// Its leader; none when it could not be started.
    pub process: Option<ProcessIdentity>,
    /// How the leader ended: 127 or 126 with a note when it could not be started.
    pub how: HowEnded,
    /// Why it could not be started, or what else went wrong around it.
    pub note: Option<String>,
    /// When the leader ended.
    pub at: Time,
    /// How long it lived, by the boot-time clock.
    pub lived: Span,
    /// The most memory of the leader, or of the tree where its cgroup counted it, in KiB.
    pub memory_max_kib: Option<u64>,
    /// Processor time of the leader and what it waited for.
    pub cpu_ms: Option<u64>,
    /// The cgroup counted a kill for memory.
    pub oom: bool,
    /// Processes that outlived the leader and were stopped.
    pub leftovers: u32,
    /// Processes that could not be stopped.
    pub survivors: u32,
    /// The shim ended it, or did not start it, because its deadline had come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lease_ended: bool,
    /// It was not started because the host had no descriptors, processes or memory left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
}
