//! The daemon's membership in a fleet: its lease, and what it hears of other nodes.

use std::sync::Arc;
use std::time::Duration;

use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::fleet::{self, Fleet, JoinError, Standing};
use crate::supervise::supervisor::{Takeover, Takeovers};

/// How long the first look at a fleet may take.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(5);

/// The lease of this node while the daemon lives.
#[derive(Debug)]
pub struct Membership {
    fleet: Fleet,
    standing: watch::Receiver<Standing>,
    nodes: watch::Receiver<Arc<[Node]>>,
    keeper: JoinHandle<()>,
    /// Under which lease agents were taken up.
    epoch: Option<Epoch>,
    /// What this node is to take up and to give back.
    takeovers: Option<Takeovers>,
}

/// What a node hears of its fleet.
pub(super) enum FleetNews {
    /// Agents are to be taken up here, or given back.
    Takeover(Takeover),
    /// The lease was renewed, lost or taken anew.
    Standing,
    /// Another node came or went, or this one is to drain.
    Nodes,
}

impl Membership {
    /// Joins; waits while another installation uses the name.
    #[boxed]
    pub async fn join(engine: &Engine, node: NewNode, renew: Span) -> Result<Self, JoinError> {
        let (fleet, keep) = fleet::join(Arc::clone(engine.holders()), node, renew).await?;
        let (mut standing, mut nodes) = (fleet.standing(), fleet.nodes());
        let epoch = standing.borrow_and_update().epoch();
        nodes.mark_unchanged();
        let keeper = tokio::spawn(keep);
        Ok(Self {
            fleet,
            standing,
            nodes,
            keeper,
            epoch,
            takeovers: None,
        })
    }

    /// The fleet that it is a node of.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Where it is told from now on what becomes of agents; what the first look came to.
    pub(super) async fn listen(&mut self, takeovers: Takeovers) -> Takeover {
        let takeovers = self.takeovers.insert(takeovers);
        let first = timeout(FIRST_LOOK_MAX, takeovers.recv()).await;
        first.ok().flatten().unwrap_or_default()
    }

    /// What happens next. Nothing is lost when it is dropped.
    pub(super) async fn news(&mut self) -> FleetNews {
        tokio::select! {
            Ok(()) = self.standing.changed() => FleetNews::Standing,
            Ok(()) = self.nodes.changed() => FleetNews::Nodes,
            Some(takeover) = next(self.takeovers.as_mut()) => FleetNews::Takeover(takeover),
        }
    }

    /// Whether the lease under which agents were taken up is lost, even if there is another one by now.
    pub(super) fn has_lost(&mut self) -> bool {
        let epoch = self.standing.borrow().epoch();
        let is_lost = self.epoch.is_some() && self.epoch != epoch;
        self.epoch = epoch;
        is_lost
    }

    /// Whether another daemon is this node now.
    pub(super) fn is_overtaken(&self) -> bool {
        *self.standing.borrow() == Standing::Overtaken
    }

    /// Gives the lease back: nothing is held any more.
    pub(super) async fn leave(self, engine: &Engine) -> Result<(), StoreError> {
        self.keeper.abort();
        self.fleet.leave(engine.store().as_ref()).await
    }
}

async fn next(takeovers: Option<&mut Takeovers>) -> Option<Takeover> {
    match takeovers {
        Some(takeovers) => takeovers.recv().await,
        None => std::future::pending().await,
    }
}
