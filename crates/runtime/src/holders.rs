//! What is known about the holders of a store's leases: which nodes have lost theirs, which attempts of
//! agents are over, which processes live.

mod attempt_cache;
mod holder_watch;
mod node_leases;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use relight_core::agent::{Agent, AgentState, AttemptTag};
use relight_core::ids::{AgentName, NodeName};
use relight_core::lease::{HeldLease, Holder, HolderLife, Lease, ProcessIdentity};
use relight_core::node::Node;
use relight_core::time::Time;
use relight_store::{AgentQuery, Store, StoreError};
use tokio::time::Instant;

use self::attempt_cache::{AttemptCache, KnownAttempt};
pub(crate) use self::holder_watch::HolderWatch;
use self::node_leases::{NodeLives, ProcessLocation, ReadTicket, place};
use crate::boxed::boxed;
use crate::os::{attempts, clock, fleet, process};

/// From this many agents on, one read of all of them is cheaper than one read for each.
const READ_ALL_FROM: usize = 16;

/// How long the record of an attempt's start is waited for, where the store does not expect it.
const RECORD_WAIT_MAX: Duration = Duration::from_secs(1);

/// The same where the store expects it: it comes however busy the disk is, unless the supervisor died.
const EXPECTED_WAIT_MAX: Duration = Duration::from_secs(10);

/// Judges the holders of one store's leases, by what was learned so far.
#[derive(Debug)]
pub struct Holders {
    store: Arc<dyn Store>,
    /// How many reads of all nodes have begun.
    reads: AtomicU64,
    nodes: RwLock<NodeLives>,
    attempts: RwLock<AttemptCache>,
    /// When the node of this process was last seen to live.
    own_node_seen: Mutex<Option<Instant>>,
}

impl Holders {
    /// Knows nothing yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            reads: AtomicU64::new(0),
            nodes: RwLock::default(),
            attempts: RwLock::default(),
            own_node_seen: Mutex::default(),
        }
    }

    /// The store whose leases they hold.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Asks the store about these holders. To be called after they were read and before they are judged:
    /// what was read then cannot belong to a node or an attempt that began meanwhile.
    pub async fn look_for<'a>(
        &self,
        leases: impl IntoIterator<Item = &'a HeldLease>,
    ) -> Result<(), StoreError> {
        let mut is_on_another_node = false;
        let mut by_agent: BTreeMap<AgentName, BTreeMap<AttemptTag, &ProcessIdentity>> =
            BTreeMap::new();
        for HeldLease { holder, .. } in leases {
            is_on_another_node |= holder
                .node()
                .is_some_and(|node| fleet::node() != Some(node));
            let Holder::Attempt { attempt, shim, .. } = holder else {
                continue;
            };
            if self.known(attempt) == Some(KnownAttempt::Over) {
                continue;
            }
            let tag = AttemptTag::from_text(attempt);
            let agent = tag.agent().and_then(|name| AgentName::new(name).ok());
            if let Some(agent) = agent {
                by_agent.entry(agent).or_default().insert(tag, shim);
            }
        }
        if is_on_another_node {
            self.read_nodes().await?;
        }
        for agent in read_agents(self.store.as_ref(), by_agent.keys()).await? {
            for (tag, shim) in by_agent.remove(&agent.name).unwrap_or_default() {
                if agent.has_ended(&tag, attempts::own()) {
                    self.learn(&tag, KnownAttempt::Over);
                } else if !process::is_alive(shim) {
                    // Its shim was killed, and the attempt may live on without it.
                    let leader = self
                        .store
                        .attempt(&tag)
                        .await?
                        .and_then(|found| found.process);
                    leader
                        .into_iter()
                        .for_each(|leader| self.learn(&tag, KnownAttempt::Leader(leader)));
                }
            }
        }
        Ok(())
    }

    /// Reads all nodes and remembers which of their leases ran out.
    #[boxed]
    pub async fn read_nodes(&self) -> Result<Arc<[Node]>, StoreError> {
        let ticket = self.begin_read();
        let nodes = self.store.nodes().await?;
        self.end_read(&ticket, &nodes);
        Ok(nodes.into())
    }

    /// To be called before all nodes are read.
    pub(crate) fn begin_read(&self) -> ReadTicket {
        ReadTicket(self.reads.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Learns from the nodes that were read.
    pub(crate) fn end_read(&self, ticket: &ReadTicket, nodes: &[Node]) {
        let mut seen = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        seen.take_in(ticket, nodes, clock::now());
    }

    /// The last renewal of a dead node, if its expiry was observed.
    pub(crate) fn last_renewed(&self, name: &NodeName) -> Option<Time> {
        self.nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .last_renewed(name)
    }

    /// Whether a node's lease was seen to expire, or the node was removed afterwards.
    pub fn is_gone(&self, name: &NodeName) -> bool {
        self.nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_gone(name)
    }

    /// When the node of this process was last seen to live.
    pub(crate) fn own_node_seen(&self) -> MutexGuard<'_, Option<Instant>> {
        self.own_node_seen
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn learn(&self, tag: &AttemptTag, what: KnownAttempt) {
        self.attempts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .learn(tag, what);
    }

    fn known(&self, tag: &str) -> Option<KnownAttempt> {
        self.attempts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(tag)
    }

    /// Whether the holder of a lease lives, as far as this machine can tell. One on another node lives as
    /// long as its node's lease was not seen to have run out; an attempt of an agent until the store said
    /// that it is over (`look_for` asks), or its shim is gone.
    pub fn life(&self, held: &HeldLease) -> HolderLife {
        if self.is_alive(held) {
            HolderLife::Alive
        } else {
            HolderLife::Gone
        }
    }

    /// Whether a live holder has a lease.
    pub fn is_held(&self, lease: &Lease) -> bool {
        lease.held.as_ref().is_some_and(|held| self.is_alive(held))
    }

    /// Whether the holder of a lease lives, as `life` says.
    pub fn is_alive(&self, held: &HeldLease) -> bool {
        match &held.holder {
            // A time limit ends the lease, whoever holds it.
            _ if held.left.is_some_and(|left| left.as_ms() == 0) => false,
            Holder::Process(process) => self.lives(process),
            Holder::Attempt {
                process: Some(process),
                ..
            } if !self.lives(process) => false,
            Holder::Attempt { attempt, shim, .. } => match self.known(attempt) {
                Some(KnownAttempt::Over) => false,
                Some(KnownAttempt::Leader(leader)) => self.lives(shim) || self.lives(&leader),
                None => self.lives(shim),
            },
            Holder::Time { .. } => true,
        }
    }

    /// Adds what will end the lease of a live holder.
    pub(crate) fn watch(&self, held: &HeldLease, watch: &mut HolderWatch) {
        let end = held
            .left
            .and_then(|left| Instant::now().checked_add(left.as_duration()));
        if let Some(end) = end {
            watch.add_end(end);
        }
        match &held.holder {
            Holder::Process(process) => self.watch_process(process, watch),
            Holder::Attempt {
                attempt,
                shim,
                process,
            } => {
                // Whose shim is gone ends with its leader.
                match self.known(attempt) {
                    Some(KnownAttempt::Leader(leader)) => self.watch_process(&leader, watch),
                    Some(KnownAttempt::Over) | None => self.watch_process(shim, watch),
                }
                if let Some(process) = process {
                    self.watch_process(process, watch);
                }
            }
            Holder::Time { .. } => {}
        }
    }

    fn watch_process(&self, process: &ProcessIdentity, watch: &mut HolderWatch) {
        let is_shared = self.store.is_shared();
        match place(process, fleet::node(), &process::boot_id(), is_shared) {
            ProcessLocation::Here => watch.add_process(process),
            ProcessLocation::Node(node) => {
                let seen = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(end) = seen.ends_at(node) {
                    watch.add_end(end);
                }
            }
            ProcessLocation::Elsewhere => {}
        }
    }

    /// The live attempt of a supervised agent, as a holder; none when it has none. An attempt whose
    /// process is gone while its end is not recorded may already have a successor, which is waited for.
    pub async fn live_attempt(&self, agent: &AgentName) -> Result<Option<Holder>, StoreError> {
        let known = async {
            loop {
                let newest = self.store.newest_event().await?;
                let found = self.store.agent(agent).await?;
                let Some(agent) = found.filter(|agent| !agent.plan.reports_itself()) else {
                    return Ok(None);
                };
                let AgentState::Running { attempt: tag, .. } = agent.state else {
                    return Ok(None);
                };
                let found = self.store.attempt(&tag).await?;
                let processes = found.and_then(|found| found.process.zip(found.shim));
                if let Some((process, shim)) = processes
                    && self.lives(&process)
                {
                    return Ok(Some(as_holder(&tag, shim)));
                }
                if !self.is_held(&agent.lease) {
                    return Ok(None);
                }
                self.store.changed(newest).await?;
            }
        };
        tokio::time::timeout(EXPECTED_WAIT_MAX, known)
            .await
            .unwrap_or(Ok(None))
    }

    fn lives(&self, process: &ProcessIdentity) -> bool {
        match place(
            process,
            fleet::node(),
            &process::boot_id(),
            self.store.is_shared(),
        ) {
            ProcessLocation::Here => process::is_alive(process),
            ProcessLocation::Node(node) => !self.is_gone(node),
            ProcessLocation::Elsewhere => true,
        }
    }
}

/// An attempt as a holder; none when it has ended or this store does not know it. Its process may be
/// faster than the record that it was started, which is waited for.
#[boxed]
pub async fn of_attempt(store: &dyn Store, tag: &AttemptTag) -> Result<Option<Holder>, StoreError> {
    let began = Instant::now();
    loop {
        let newest = store.newest_event().await?;
        let found = store.attempt(tag).await?;
        if found.as_ref().is_some_and(|found| found.ended.is_some()) {
            return Ok(None);
        }
        if let Some(shim) = found.as_ref().and_then(|found| found.shim.clone()) {
            return Ok(Some(as_holder(tag, shim)));
        }
        let is_expected = found.is_some() || is_next(store, tag).await?;
        let wait_max = match is_expected {
            true => EXPECTED_WAIT_MAX,
            false => RECORD_WAIT_MAX,
        };
        let left = wait_max.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, store.changed(newest)).await {
            Ok(changed) => changed?,
            Err(_) => return Ok(None),
        };
    }
}

/// Whether this is the tag that was allocated for the next attempt of its agent.
async fn is_next(store: &dyn Store, tag: &AttemptTag) -> Result<bool, StoreError> {
    let Some(agent) = tag.agent().and_then(|name| AgentName::new(name).ok()) else {
        return Ok(false);
    };
    let found = store.agent(&agent).await?;
    Ok(found.is_some_and(|agent| agent.next_attempt.as_ref() == Some(tag)))
}

fn as_holder(tag: &AttemptTag, shim: ProcessIdentity) -> Holder {
    Holder::Attempt {
        attempt: tag.to_string(),
        shim,
        process: None,
    }
}

async fn read_agents(
    store: &dyn Store,
    names: impl ExactSizeIterator<Item = &AgentName>,
) -> Result<Vec<Agent>, StoreError> {
    if names.len() >= READ_ALL_FROM {
        return store.agents(AgentQuery::default()).await;
    }
    let mut found = Vec::new();
    for name in names {
        found.extend(store.agent(name).await?);
    }
    Ok(found)
}
