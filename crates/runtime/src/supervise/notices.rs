//! Notices: what a supervisor reports as it happens.

use std::pin::pin;

use relight_core::agent::RecordedDeath;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};
use tokio::sync::mpsc;

use crate::recovery::Recovered;

/// A notice about an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The agent.
    pub agent: AgentName,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// An attempt runs.
    Started {
        /// Its number.
        number: u32,
        /// It resumes the work of an earlier attempt.
        resumed: bool,
        /// Its main process.
        process: ProcessIdentity,
        /// After a crash: how long it was down.
        down: Option<Span>,
    },
    /// A live attempt of an earlier supervisor was adopted.
    Adopted {
        /// Its number.
        number: u32,
        /// Its main process.
        process: ProcessIdentity,
        /// Its shim is gone; only the kernel reports its end.
        without_shim: bool,
    },
    /// An attempt ended.
    Died {
        /// Its number.
        number: u32,
        /// How.
        ended: RecordedDeath,
    },
    /// An agent that reports its own heartbeats started to report.
    Reported {
        /// Number of the attempt that begins.
        number: u32,
    },
    /// An agent that reports its own heartbeats fell silent.
    Silent {
        /// Number of the attempt that ended.
        number: u32,
        /// How long it was silent.
        silent_ms: u64,
    },
    /// It hangs and is being stopped.
    Hung {
        /// How long it was silent.
        silent_ms: u64,
    },
    /// It asked to be restarted (`WATCHDOG=trigger`) and is being stopped.
    AskedForRestart,
    /// The attempt exceeded its time limit and is being stopped.
    TimedOut,
    /// It is ended because it cannot succeed before a person acts.
    Incurable(String),
    /// It is restarted later.
    Waiting {
        /// When.
        until: Time,
        /// It asked to be resumed later itself.
        deferred: bool,
    },
    /// It waits because a person has to act on its task.
    TaskWaits {
        /// Which task.
        task: TaskId,
        /// Its status.
        status: TaskStatus,
        /// The commands that let task and agent continue.
        command: String,
    },
    /// Another holds its task, as this says; it is started once the task is free.
    TaskHeld(String),
    /// A task that lost its holder was recovered.
    TaskRecovered {
        /// Which task.
        task: TaskId,
        /// Its status now.
        status: TaskStatus,
    },
    /// Processes that outlived an earlier attempt were stopped.
    Swept {
        /// How many.
        stopped: u32,
        /// How many could not be stopped.
        survivors: u32,
    },
    /// A round of a loop is over.
    Round {
        /// How many were done.
        done: u32,
    },
    /// A loop's condition was checked.
    Asked {
        /// It holds.
        holds: bool,
    },
    /// An alert was sent.
    Alert(String),
    /// An error that is being retried.
    Trouble(String),
    /// It was stopped as requested and none of its processes is left, but the store cannot be
    /// written, for this reason.
    StoppedUnrecorded(String),
    /// Another supervisor has it now.
    Lost,
    /// It is given up because the lease of this node has nearly expired.
    NodeLost,
    /// Nothing happens without a new request.
    AtRest,
}

/// Sender of notices; a receiver is optional.
#[derive(Debug, Clone)]
pub struct Notices(mpsc::UnboundedSender<Notice>);

impl Notices {
    /// A channel for notices. Unbounded, but restart budgets limit how many occur.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Notice>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends a notice.
    pub fn tell(&self, agent: &AgentName, what: What) {
        let _ = self.0.send(Notice {
            agent: agent.clone(),
            what,
        });
    }

    /// Says what became of a task that lost its holder, and the alert if there is one.
    pub(crate) fn tell_recovered(&self, agent: &AgentName, recovered: Recovered) {
        let Recovered {
            task,
            status,
            alert,
            ..
        } = recovered;
        self.tell(agent, What::TaskRecovered { task, status });
        if let Some(alert) = alert {
            self.tell(agent, What::Alert(alert));
        }
    }
}

/// Passes notices on while some work is done.
pub async fn pass_on<T>(
    notices: &mut mpsc::UnboundedReceiver<Notice>,
    mut tell: impl FnMut(Notice),
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            Some(notice) = notices.recv() => tell(notice),
            done = &mut work => return done,
        }
    }
}
