//! Membership: one lease for everything this machine holds.
//!
//! A refused or late renewal ends the lease: everything held is given up, and the node joins again.
//! After a pause of the machine the clock is compared first.

use std::sync::Arc;
use std::time::Duration;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Span;
use relight_store::{Joined, Store, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::lease_renewal::{Due, Keeping};
use super::lease_term::{Term, Timing};
use super::node_cache::NodeCache;
use crate::boxed::boxed;
use crate::holders::Holders;
use crate::os::clock;

/// Extra wait after the lease of another installation with the same name.
const TAKEN_WAIT: Span = Span::from_secs(1);
/// Pause before the store is asked again after an error.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Another installation uses the name.
    #[error("another machine is node {} already, and renews its lease", .0.new.name)]
    Taken(Box<Node>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether this machine may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its lease is valid by its own clock.
    Member {
        /// How often it has joined.
        epoch: Epoch,
        /// How long it may act.
        term: Term,
    },
    /// Its lease is lost; it joins again.
    Lost,
    /// Another daemon is this node now; this one gives up.
    Overtaken,
}

impl Standing {
    /// The current lease; none when it is lost.
    pub fn epoch(self) -> Option<Epoch> {
        match self {
            Self::Member { epoch, .. } => Some(epoch),
            Self::Lost | Self::Overtaken => None,
        }
    }
}

/// This machine as a member of a fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    node: Arc<NewNode>,
    standing: watch::Receiver<Standing>,
    nodes: watch::Receiver<Arc<[Node]>>,
}

impl Fleet {
    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.node.name
    }

    /// Labels that agents can require.
    pub fn labels(&self) -> &[String] {
        &self.node.labels
    }

    /// Watches whether it may act.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// How long it may act; none when that is over. Compares the clock on each call, because this
    /// process may have been frozen.
    pub fn term(&self) -> Option<Term> {
        let epoch = self.standing.borrow().epoch()?;
        self.term_of(epoch)
    }

    /// The same for one lease: none when there is a later one.
    pub fn term_of(&self, epoch: Epoch) -> Option<Term> {
        match *self.standing.borrow() {
            Standing::Member { epoch: now, term } if now == epoch => {
                (clock::boot_ms() < term.stop_at_ms()).then_some(term)
            }
            Standing::Member { .. } | Standing::Lost | Standing::Overtaken => None,
        }
    }

    /// Watches all nodes; updated when a lease begins or expires.
    pub fn nodes(&self) -> watch::Receiver<Arc<[Node]>> {
        self.nodes.clone()
    }

    /// Whether it drains.
    pub fn is_draining(&self) -> bool {
        let nodes = self.nodes.borrow();
        nodes
            .iter()
            .any(|node| node.new.name == self.node.name && node.draining)
    }

    /// Ends the lease, so that others need not wait for its expiry. Call it when nothing is held.
    #[boxed]
    pub async fn leave(&self, store: &dyn Store) -> Result<(), StoreError> {
        let epoch = self.standing.borrow().epoch();
        if let Some(epoch) = epoch {
            store.leave_node(self.name(), epoch, clock::now()).await?;
        }
        Ok(())
    }
}

/// Joins a fleet. The returned future renews the lease for as long as it is polled.
pub async fn join(
    holders: Arc<Holders>,
    node: NewNode,
    renew: Span,
) -> Result<(Fleet, impl Future<Output = ()> + Send + 'static), JoinError> {
    let timing = Timing {
        lease: node.ttl,
        renew,
    };
    let (epoch, mut keeping) = first_lease(holders.store().as_ref(), &node, timing).await?;
    let (cache, seen) = NodeCache::first(&holders).await?;
    let node = Arc::new(node);
    let (standing, standings) = watch::channel(Standing::Member {
        epoch,
        term: keeping.term(),
    });
    let (nodes, all) = watch::channel(seen.nodes);
    let fleet = Fleet {
        node: Arc::clone(&node),
        standing: standings,
        nodes: all,
    };
    keeping.looked(clock::boot_ms(), seen.first_end);
    let member = LeaseKeeper {
        holders,
        node,
        last: epoch,
        timing,
        standing,
        cache,
        nodes,
        keeping,
    };
    Ok((fleet, member.serve()))
}

/// Waits at most for the time of another installation's lease.
async fn first_lease(
    store: &dyn Store,
    node: &NewNode,
    timing: Timing,
) -> Result<(Epoch, Keeping), JoinError> {
    let mut has_waited = false;
    loop {
        let sent_ms = clock::boot_ms();
        match store.join_node(node.clone(), None, clock::now()).await? {
            Joined::As(epoch) => return Ok((epoch, Keeping::begun(sent_ms, timing))),
            Joined::Taken(other) | Joined::Overtaken(other) if has_waited => {
                return Err(JoinError::Taken(other));
            }
            Joined::Taken(other) | Joined::Overtaken(other) => {
                has_waited = true;
                sleep(other.left.as_duration() + TAKEN_WAIT.as_duration()).await;
            }
        }
    }
}

/// Renews the lease.
struct LeaseKeeper {
    holders: Arc<Holders>,
    node: Arc<NewNode>,
    /// The last lease.
    last: Epoch,
    timing: Timing,
    standing: watch::Sender<Standing>,
    cache: NodeCache,
    nodes: watch::Sender<Arc<[Node]>>,
    keeping: Keeping,
}

impl LeaseKeeper {
    async fn serve(mut self) {
        loop {
            let standing = *self.standing.borrow();
            match standing {
                Standing::Member { epoch, .. } => self.keep(epoch).await,
                Standing::Lost => self.join_anew().await,
                Standing::Overtaken => return std::future::pending().await,
            }
        }
    }

    /// Waits for the next action and executes it.
    async fn keep(&mut self, epoch: Epoch) {
        clock::until_boot_ms(self.keeping.due_ms()).await;
        match self.keeping.due(clock::boot_ms()) {
            Due::Lose => self.lose(),
            Due::Renew => self.renew(epoch).await,
            Due::Look => self.look().await,
        }
    }

    async fn renew(&mut self, epoch: Epoch) {
        let sent_ms = clock::boot_ms();
        let asked = self.holders.store().renew_node(&self.node.name, epoch);
        match timeout(self.left(), asked).await {
            Ok(Ok(true)) if self.keeping.renewed(sent_ms, clock::boot_ms()) => {
                let term = self.keeping.term();
                self.standing.send_replace(Standing::Member { epoch, term });
                self.look().await;
            }
            // Refused, or the answer came too late.
            Ok(Ok(true | false)) => self.lose(),
            Ok(Err(_)) => sleep(TROUBLE_PAUSE.min(self.left())).await,
            Err(_) => {}
        }
    }

    /// Checks the other nodes. After an error the next renewal checks again, without delay to the
    /// renewal.
    async fn look(&mut self) {
        let patience = self.timing.renew.as_duration().min(self.left());
        let looked = timeout(patience, self.cache.look(&self.holders)).await;
        let Ok(Ok(seen)) = looked else {
            return sleep(TROUBLE_PAUSE.min(self.left())).await;
        };
        self.keeping.looked(clock::boot_ms(), seen.first_end);
        self.nodes.send_if_modified(|known| {
            let is_news = has_changed(known, &seen.nodes);
            *known = seen.nodes;
            is_news
        });
    }

    /// Time left to act.
    fn left(&self) -> Duration {
        let stop_at_ms = self.keeping.term().stop_at_ms();
        Duration::from_millis(stop_at_ms.saturating_sub(clock::boot_ms()))
    }

    fn lose(&self) {
        self.standing.send_replace(Standing::Lost);
    }

    /// Joins again. Waits for the answer however long the store is unreachable, because repeated
    /// requests would join repeatedly. An answer that took longer than the lease is lost at once.
    /// If another daemon of this installation has joined meanwhile, this one stays away, because
    /// both would take the lease from each other for ever.
    async fn join_anew(&mut self) {
        let sent_ms = clock::boot_ms();
        let node = (*self.node).clone();
        match self
            .holders
            .store()
            .join_node(node, Some(self.last), clock::now())
            .await
        {
            Ok(Joined::As(epoch)) => {
                self.last = epoch;
                self.keeping = Keeping::begun(sent_ms, self.timing);
                self.look().await;
                let term = self.keeping.term();
                self.standing.send_replace(Standing::Member { epoch, term });
            }
            Ok(Joined::Overtaken(_)) => drop(self.standing.send_replace(Standing::Overtaken)),
            Ok(Joined::Taken(_)) | Err(_) => sleep(TROUBLE_PAUSE).await,
        }
    }
}

/// Whether a node joined, left or began to drain; renewals do not count.
fn has_changed(before: &[Node], now: &[Node]) -> bool {
    let told = |node: &Node| (node.new.clone(), node.epoch, node.draining, node.is_live());
    !before.iter().map(told).eq(now.iter().map(told))
}
