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

use super::sight::Sight;
use super::term::{Term, Timing};
use crate::doors::clock;

/// How long a name that another installation uses is waited for beyond its lease.
const TAKEN_WAIT: Span = Span::from_secs(1);
/// How soon a store that does not answer is asked again.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);
/// How long after the end of another node's lease it is looked at: the store's clock has to have passed
/// it too.
const LOOK_AFTER_MS: u64 = 10;

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
}

impl Standing {
    /// Under which lease; none when it is lost.
    pub fn epoch(self) -> Option<Epoch> {
        match self {
            Self::Member { epoch, .. } => Some(epoch),
            Self::Lost => None,
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
            Standing::Member { .. } | Standing::Lost => None,
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
    let (epoch, term) = first_lease(store.as_ref(), &node, timing).await?;
    let (sight, seen) = Sight::first(store.as_ref()).await?;
    let node = Arc::new(node);
    let (standing, standings) = watch::channel(Standing::Member { epoch, term });
    let (nodes, all) = watch::channel(seen.nodes);
    let fleet = Fleet { node: Arc::clone(&node), standing: standings, nodes: all };
    let now_ms = clock::boot_ms();
    let look_ms = look_again_ms(now_ms, seen.first_end);
    let member = Member { store, node, timing, standing, sight, nodes, look_ms, sent_ms: now_ms };
    Ok((fleet, member.serve()))
}

/// Waits for as long as the lease of another installation would last if nobody renewed it.
async fn first_lease(
    store: &dyn Store,
    node: &NewNode,
    timing: Timing,
) -> Result<(Epoch, Term), JoinError> {
    let mut has_waited = false;
    loop {
        let sent_ms = clock::boot_ms();
        match store.join_node(node.clone(), clock::now()).await? {
            Joined::As(epoch) => return Ok((epoch, Term::sent_at(sent_ms, timing))),
            Joined::Taken(other) if has_waited => return Err(JoinError::Taken(other)),
            Joined::Taken(other) => {
                has_waited = true;
                sleep(other.left.as_duration() + TAKEN_WAIT.as_duration()).await;
            }
        }
    }
}

/// Keeps the lease.
struct Member {
    store: Arc<dyn Store>,
    node: Arc<NewNode>,
    timing: Timing,
    standing: watch::Sender<Standing>,
    sight: Sight,
    nodes: watch::Sender<Arc<[Node]>>,
    /// When the first of all leases ends unless it is renewed.
    look_ms: Option<u64>,
    /// When the last renewal that came through was sent.
    sent_ms: u64,
}

impl Member {
    async fn serve(mut self) {
        loop {
            let standing = *self.standing.borrow();
            match standing {
                Standing::Member { epoch, term } => self.keep(epoch, term).await,
                Standing::Lost => self.join_anew().await,
            }
        }
    }

    /// Waits for what is due first, and does it.
    async fn keep(&mut self, epoch: Epoch, term: Term) {
        let renew_ms = self.sent_ms.saturating_add(self.timing.renew.as_ms());
        let look_ms = self.look_ms.unwrap_or(u64::MAX);
        let due_ms = renew_ms.min(look_ms).min(term.stop_at_ms());
        clock::until_boot_ms(due_ms).await;
        let now_ms = clock::boot_ms();
        if now_ms >= term.stop_at_ms() {
            self.lose();
        } else if now_ms >= renew_ms {
            self.renew(epoch, term).await;
        } else {
            self.look(term).await;
        }
    }

    async fn renew(&mut self, epoch: Epoch, term: Term) {
        let sent_ms = clock::boot_ms();
        let asked = self.store.renew_node(&self.node.name, epoch);
        match timeout(until(term), asked).await {
            Ok(Ok(true)) => {
                // It counts only if it came while the lease still lasted: the store may have committed
                // it late, when others had seen the end already, and this process may have slept since.
                if clock::boot_ms() >= term.stop_at_ms() {
                    return self.lose();
                }
                self.sent_ms = sent_ms;
                let term = Term::sent_at(sent_ms, self.timing);
                self.standing.send_replace(Standing::Member { epoch, term });
                self.look(term).await;
            }
            Ok(Ok(false)) => self.lose(),
            Ok(Err(_)) => {
                let pause = TROUBLE_PAUSE.min(until(term));
                sleep(pause).await;
            }
            Err(_) => {}
        }
    }

    /// Sees what became of the others. One that cannot be asked now is asked with the next renewal.
    async fn look(&mut self, term: Term) {
        let looked = timeout(until(term), self.sight.look(self.store.as_ref())).await;
        let Ok(Ok(seen)) = looked else { return sleep(TROUBLE_PAUSE.min(until(term))).await };
        self.look_ms = look_again_ms(clock::boot_ms(), seen.first_end);
        self.nodes.send_if_modified(|known| {
            let is_news = has_changed(known, &seen.nodes);
            *known = seen.nodes;
            is_news
        });
    }

    fn lose(&self) {
        self.standing.send_replace(Standing::Lost);
    }

    async fn join_anew(&mut self) {
        let sent_ms = clock::boot_ms();
        let asked = self.store.join_node((*self.node).clone(), clock::now());
        match timeout(self.timing.renew.as_duration(), asked).await {
            Ok(Ok(Joined::As(epoch))) => {
                let term = Term::sent_at(sent_ms, self.timing);
                self.sent_ms = sent_ms;
                self.look(term).await;
                self.standing.send_replace(Standing::Member { epoch, term });
            }
            Ok(Ok(Joined::Taken(_)) | Err(_)) => sleep(TROUBLE_PAUSE).await,
            Err(_) => {}
        }
    }
}

/// When to look at the leases again, the first of which has so long to go.
fn look_again_ms(now_ms: u64, first_end: Option<Span>) -> Option<u64> {
    Some(now_ms.saturating_add(first_end?.as_ms()).saturating_add(LOOK_AFTER_MS))
}

/// How long until nothing may be done any more.
fn until(term: Term) -> Duration {
    Duration::from_millis(term.stop_at_ms().saturating_sub(clock::boot_ms()))
}

/// Whether a node came, went, joined anew or began to drain; renewals are no news.
fn has_changed(before: &[Node], now: &[Node]) -> bool {
    let told = |node: &Node| (node.new.clone(), node.epoch, node.draining, node.is_live());
    !before.iter().map(told).eq(now.iter().map(told))
}
