//! Membership: one lease for all that this machine holds.
//!
//! A renewal that is refused, or that does not come through in time, ends it: the node is lost, whatever
//! it held is given up by everybody here, and it joins anew. After a pause of the whole machine the
//! clock is compared before anything else is done.

use std::sync::Arc;
use std::time::Duration;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Span;
use relight_store::{Joined, Store, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::keeping::{Due, Keeping};
use super::node_cache::NodeCache;
use super::term::{Term, Timing};
use crate::os::clock;

/// How long a name that another installation uses is waited for beyond its lease.
const TAKEN_WAIT: Span = Span::from_secs(1);
/// How soon a store that does not answer is asked again.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Another installation uses the name.
    #[error("another machine is node {} already, and renews its lease", .0.new.name)]
    Taken(Box<Node>),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether this machine may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its lease lasts, by its own clock.
    Member {
        /// How often it has joined.
        epoch: Epoch,
        /// For how long.
        term: Term,
    },
    /// Its lease is lost; it joins anew.
    Lost,
    /// Another daemon is this node now; this one never is again.
    Overtaken,
}

impl Standing {
    /// Under which lease; none when it is lost.
    pub fn epoch(self) -> Option<Epoch> {
        match self {
            Self::Member { epoch, .. } => Some(epoch),
            Self::Lost | Self::Overtaken => None,
        }
    }
}

/// This machine in its fleet, for all who act.
#[derive(Debug, Clone)]
pub struct Fleet {
    node: Arc<NewNode>,
    standing: watch::Receiver<Standing>,
    nodes: watch::Receiver<Arc<[Node]>>,
}

impl Fleet {
    /// By which everybody knows it.
    pub fn name(&self) -> &NodeName {
        &self.node.name
    }

    /// What agents can ask for.
    pub fn labels(&self) -> &[String] {
        &self.node.labels
    }

    /// Whether it may act, now and whenever that changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// How long it may act; none once that is over. Compared with the clock each time: this process may
    /// have been frozen a moment ago.
    pub fn term(&self) -> Option<Term> {
        let epoch = self.standing.borrow().epoch()?;
        self.term_of(epoch)
    }

    /// The same under one lease: none when another one came after it.
    pub fn term_of(&self, epoch: Epoch) -> Option<Term> {
        match *self.standing.borrow() {
            Standing::Member { epoch: now, term } if now == epoch => {
                (clock::boot_ms() < term.stop_at_ms()).then_some(term)
            }
            Standing::Member { .. } | Standing::Lost | Standing::Overtaken => None,
        }
    }

    /// All nodes as they were last seen, and whenever a lease was seen to have run out or begun.
    pub fn nodes(&self) -> watch::Receiver<Arc<[Node]>> {
        self.nodes.clone()
    }

    /// Whether it is to take nothing new.
    pub fn is_draining(&self) -> bool {
        let nodes = self.nodes.borrow();
        nodes.iter().any(|node| node.new.name == self.node.name && node.draining)
    }

    /// Gives its lease back: others need not wait for its end. To be called when nothing is held.
    pub async fn leave(&self, store: &dyn Store) -> Result<(), StoreError> {
        let epoch = self.standing.borrow().epoch();
        if let Some(epoch) = epoch {
            store.leave_node(self.name(), epoch, clock::now()).await?;
        }
        Ok(())
    }
}

/// Joins a fleet. What is returned beside it keeps the lease for as long as it is polled.
pub async fn join(
    store: Arc<dyn Store>,
    node: NewNode,
    renew: Span,
) -> Result<(Fleet, impl Future<Output = ()> + Send + 'static), JoinError> {
    let timing = Timing { lease: node.ttl, renew };
    let (epoch, mut keeping) = first_lease(store.as_ref(), &node, timing).await?;
    let (cache, seen) = NodeCache::first(store.as_ref()).await?;
    let node = Arc::new(node);
    let (standing, standings) = watch::channel(Standing::Member { epoch, term: keeping.term() });
    let (nodes, all) = watch::channel(seen.nodes);
    let fleet = Fleet { node: Arc::clone(&node), standing: standings, nodes: all };
    keeping.looked(clock::boot_ms(), seen.first_end);
    let member = LeaseKeeper { store, node, last: epoch, timing, standing, cache, nodes, keeping };
    Ok((fleet, member.serve()))
}

/// Waits for as long as the lease of another installation would last if nobody renewed it.
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

/// Keeps the lease.
struct LeaseKeeper {
    store: Arc<dyn Store>,
    node: Arc<NewNode>,
    /// Under which lease it was last.
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

    /// Waits for what is due first, and does it.
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
        let asked = self.store.renew_node(&self.node.name, epoch);
        match timeout(self.left(), asked).await {
            Ok(Ok(true)) if self.keeping.renewed(sent_ms, clock::boot_ms()) => {
                let term = self.keeping.term();
                self.standing.send_replace(Standing::Member { epoch, term });
                self.look().await;
            }
            // Refused, or an answer to a question that was asked too long ago.
            Ok(Ok(true | false)) => self.lose(),
            Ok(Err(_)) => sleep(TROUBLE_PAUSE.min(self.left())).await,
            Err(_) => {}
        }
    }

    /// Sees what became of the others. One that cannot be asked now is asked with the next renewal, which
    /// does not wait for that.
    async fn look(&mut self) {
        let patience = self.timing.renew.as_duration().min(self.left());
        let looked = timeout(patience, self.cache.look(self.store.as_ref())).await;
        let Ok(Ok(seen)) = looked else { return sleep(TROUBLE_PAUSE.min(self.left())).await };
        self.keeping.looked(clock::boot_ms(), seen.first_end);
        self.nodes.send_if_modified(|known| {
            let is_news = has_changed(known, &seen.nodes);
            *known = seen.nodes;
            is_news
        });
    }

    /// How long until nothing may be done any more.
    fn left(&self) -> Duration {
        let stop_at_ms = self.keeping.term().stop_at_ms();
        Duration::from_millis(stop_at_ms.saturating_sub(clock::boot_ms()))
    }

    fn lose(&self) {
        self.standing.send_replace(Standing::Lost);
    }

    /// Waits for the answer, however long the store is away: whoever asks again and again has joined as
    /// often once it is back. An answer that took longer than the lease lasts is lost at once. Where
    /// another daemon of this installation has joined meanwhile it stays away: both would take the lease
    /// from each other for ever.
    async fn join_anew(&mut self) {
        let sent_ms = clock::boot_ms();
        let node = (*self.node).clone();
        match self.store.join_node(node, Some(self.last), clock::now()).await {
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

/// Whether a node came, went, joined anew or began to drain; renewals are no news.
fn has_changed(before: &[Node], now: &[Node]) -> bool {
    let told = |node: &Node| (node.new.clone(), node.epoch, node.draining, node.is_live());
    !before.iter().map(told).eq(now.iter().map(told))
}
