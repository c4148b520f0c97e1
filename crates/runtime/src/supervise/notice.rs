//! What a supervisor tells whoever watches it, as it happens.

use relight_core::agent::RecordedDeath;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};
use tokio::sync::mpsc;

/// Something happened to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// Which agent.
    pub agent: AgentName,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// An attempt runs.
    Started {
        /// Its number.
        number: u32,
        /// It goes on with what an earlier one began.
        resumed: bool,
        /// Its leader.
        process: ProcessIdentity,
        /// After a crash: for how long nothing of it was at work.
        down: Option<Span>,
    },
    /// A live attempt of an earlier supervisor was taken over.
    Adopted {
        /// Its number.
        number: u32,
        /// Its leader.
        process: ProcessIdentity,
        /// Nobody but the kernel can tell how it will end: its shim is gone.
        without_shim: bool,
    },
    /// An attempt ended.
    Died {
        /// Its number.
        number: u32,
        /// How.
        ended: RecordedDeath,
    },
    /// One that reports by itself does so again, or for the first time.
    Reported {
        /// Number of the attempt that begins.
        number: u32,
    },
    /// One that reports by itself does not any more.
    Silent {
        /// Number of the attempt that ended.
        number: u32,
        /// For how long it was.
        silent_ms: u64,
    },
    /// It is silent, and is being stopped for it.
    Hung {
        /// For how long it was.
        silent_ms: u64,
    },
    /// It asked to be restarted (`WATCHDOG=trigger`), and is being stopped for it.
    AskedForRestart,
    /// The attempt takes too long, and is being stopped for it.
    TimedOut,
    /// It is brought back then.
    Waiting {
        /// When.
        until: Time,
        /// It said "later" itself.
        deferred: bool,
    },
    /// It is not its turn: a person has to act on its task first.
    TaskWaits {
        /// Which task.
        task: TaskId,
        /// Where it is.
        status: TaskStatus,
    },
    /// A task that lost its holder was given to its strategy.
    TaskRecovered {
        /// Which task.
        task: TaskId,
        /// Where it is now.
        status: TaskStatus,
    },
    /// Processes that outlived an earlier attempt were stopped.
    Swept {
        /// How many.
        stopped: u32,
        /// How many could not be.
        survivors: u32,
    },
    /// A round of a loop is over.
    Round {
        /// How many were done.
        done: u32,
    },
    /// A loop's condition was asked.
    Asked {
        /// It holds.
        holds: bool,
    },
    /// Somebody has to be told.
    Alert(String),
    /// Something went wrong that is being tried again.
    Trouble(String),
    /// Another supervisor has it now.
    Lost,
    /// It is given up, for the lease of this node has nearly run out.
    NodeLost,
    /// Nothing more happens by itself.
    AtRest,
}

/// Where notices go; nobody needs to listen.
#[derive(Debug, Clone)]
pub struct Notices(mpsc::UnboundedSender<Notice>);

impl Notices {
    /// With the end to read from. Bounded by what happens to agents, which budgets bound.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Notice>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Tells whoever listens.
    pub fn tell(&self, agent: &AgentName, what: What) {
        let _ = self.0.send(Notice { agent: agent.clone(), what });
    }
}
