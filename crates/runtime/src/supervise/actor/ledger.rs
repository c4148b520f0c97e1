//! The commits of one agent, in order, beside its supervision: whoever may go on does not wait for the
//! disk, and whoever must waits for all that was handed in.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_core::lease::Fence;
use relight_core::time::Time;
use relight_store::{AgentCommit, AgentCommitError};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::Lost;
use crate::supervise::desk::{Desk, NodeRight};
use crate::supervise::notice::What;

/// Longest wait before a store that cannot be written is tried again.
const STORE_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Some changes, and when they were decided.
#[derive(Debug)]
struct Entry {
    changes: Vec<AgentChange>,
    at: Time,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// So many entries are durable.
    UpTo(u64),
    /// Another supervisor has the agent now; nothing more is written.
    Lost,
}

/// The commits of one agent.
#[derive(Debug)]
pub(super) struct Ledger {
    agent: AgentName,
    entries: mpsc::UnboundedSender<Entry>,
    handed_in: u64,
    written: watch::Receiver<Written>,
}

impl Ledger {
    /// Commits by this right, from now on.
    pub(super) fn open(desk: Arc<Desk>, agent: AgentName, fence: Fence, right: NodeRight) -> Self {
        let (entries, received) = mpsc::unbounded_channel();
        let (written, seen) = watch::channel(Written::UpTo(0));
        tokio::spawn(write(desk, agent.clone(), fence, right, received, written));
        Self { agent, entries, handed_in: 0, written: seen }
    }

    /// Hands changes in; they become durable in this order.
    pub(super) fn hand_in(&mut self, changes: Vec<AgentChange>, at: Time) {
        self.handed_in += 1;
        // Nobody receives once the agent is lost, which `settle` and `lost` tell.
        let _ = self.entries.send(Entry { changes, at });
    }

    /// Returns when all that was handed in is durable.
    pub(super) async fn settle(&mut self) -> Result<(), Lost> {
        let all = Written::UpTo(self.handed_in);
        let settled = self.written.wait_for(|now| *now == all || *now == Written::Lost).await;
        match settled.map(|now| *now) {
            Ok(Written::UpTo(_)) => Ok(()),
            Ok(Written::Lost) | Err(_) => Err(Lost::Fenced(self.agent.clone())),
        }
    }

    /// Returns when another supervisor has the agent; never otherwise.
    pub(super) async fn lost(&self) -> Lost {
        let mut written = self.written.clone();
        let _ = written.wait_for(|now| *now == Written::Lost).await;
        Lost::Fenced(self.agent.clone())
    }
}

async fn write(
    desk: Arc<Desk>,
    agent: AgentName,
    fence: Fence,
    right: NodeRight,
    mut entries: mpsc::UnboundedReceiver<Entry>,
    written: watch::Sender<Written>,
) {
    let mut count = 0;
    while let Some(entry) = entries.recv().await {
        let guard = Guard { fence: Some(fence), seq: None };
        let commit =
            AgentCommit { agent: agent.clone(), guard, at: entry.at, changes: entry.changes };
        if !make_durable(&desk, right, commit).await {
            let _ = written.send(Written::Lost);
            return;
        }
        count += 1;
        let _ = written.send(Written::UpTo(count));
    }
}

/// False when another supervisor has the agent. A store that cannot be written is tried again: the
/// agent lives on meanwhile.
async fn make_durable(desk: &Desk, right: NodeRight, commit: AgentCommit) -> bool {
    let mut pause = Duration::from_millis(100);
    loop {
        // By now others may have what this node held: what is true is for them to find out.
        if !desk.still_has(right) {
            return false;
        }
        match desk.engine.store().commit_agent(commit.clone()).await {
            Ok(_) => return true,
            Err(AgentCommitError::Store(error)) => {
                desk.notices.tell(&commit.agent, What::Trouble(error.to_string()));
                sleep(pause).await;
                pause = (pause * 2).min(STORE_PAUSE_MAX);
            }
            Err(
                AgentCommitError::Fenced { .. }
                | AgentCommitError::Moved(_)
                | AgentCommitError::Exists(_)
                | AgentCommitError::Absent(_),
            ) => return false,
        }
    }
}
