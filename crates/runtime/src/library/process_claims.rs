//! Which handles of this process hold a task: to the store all of them are the same holder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use relight_core::decide::Refusal;
use relight_core::ids::TaskId;
use relight_core::lease::{HeldLease, Holder};
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::time::Instant;

use crate::engine::{ActError, Engine};
use crate::holders::Holders;
use crate::os::{clock, fleet, process};

/// How long a lease lasts where other machines use the store, unless somebody says otherwise. It is renewed
/// three times meanwhile.
const SHARED_LEASE: Span = Span::from_secs(30);
/// For so long it is believed that the node of this process lives: no lease of a node is shorter.
const NODE_SEEN: Duration = Duration::from_secs(1);

/// Who holds what this program takes: the attempt of a supervised agent that it is part of, else its
/// process, or the clock where nobody could see the process end.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnHolder {
    pub(super) attempt: Option<Holder>,
}

impl OwnHolder {
    /// The holder, and how long a lease lasts that is taken and renewed; none where it follows the life of
    /// the holder.
    pub(super) async fn lease(
        &self,
        given: Option<Span>,
        holders: &Holders,
    ) -> Result<(Holder, Option<Span>), StoreError> {
        if let Some(attempt) = &self.attempt {
            return Ok((attempt.clone(), given));
        }
        Ok(match lease(given, holders).await? {
            Some(ttl) => (own_lease(), Some(ttl)),
            None => (own_process(), None),
        })
    }

    /// Whoever may have been the holder of something that this program took.
    pub(super) fn all(&self) -> Vec<Holder> {
        match &self.attempt {
            Some(attempt) => vec![attempt.clone()],
            None => vec![own_process(), own_lease()],
        }
    }
}

/// How long a lease lasts that this process takes and renews; none where it follows the life of the
/// process. On a store that other machines use nobody there could see it end, but by the lease of the node
/// that the process belongs to. While that node is away it is a lease of its own, as long as the node's.
async fn lease(given: Option<Span>, holders: &Holders) -> Result<Option<Span>, StoreError> {
    if given.is_some() || !holders.store().is_shared() {
        return Ok(given);
    }
    let Some(own) = fleet::node() else {
        return Ok(Some(SHARED_LEASE));
    };
    let seen = *holders.own_node_seen();
    if seen.is_some_and(|at| at.elapsed() < NODE_SEEN) {
        return Ok(None);
    }
    let began = Instant::now();
    let nodes = holders.read_nodes().await?;
    let Some(node) = nodes.iter().find(|node| node.new.name == *own) else {
        return Ok(Some(SHARED_LEASE));
    };
    let lives = node.is_live() && node.new.is_of_boot(&process::boot_id());
    *holders.own_node_seen() = lives.then_some(began);
    Ok((!lives).then_some(node.new.ttl))
}

/// This process as the holder of leases.
fn own_process() -> Holder {
    Holder::Process(process::me().clone())
}

/// The holder of a lease that this process renews.
fn own_lease() -> Holder {
    Holder::Time {
        by: format!("process {}", std::process::id()),
    }
}

/// The store that claims are counted for: one, however often this process has opened it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StoreIdentity(Arc<str>);

impl StoreIdentity {
    pub(super) fn of(engine: &Engine) -> Self {
        let name = match engine.store().file() {
            Some(path) => path.canonicalize().unwrap_or(path).display().to_string(),
            None => format!("{:p}", Arc::as_ptr(engine.store())),
        };
        // A forked process has the table of its parent, whose handles are not its own.
        Self(format!("{} {name}", std::process::id()).into())
    }
}

/// The right of one handle in this process to hold a task.
#[derive(Debug)]
pub(super) struct ProcessClaims(ClaimKey);

type ClaimKey = (StoreIdentity, TaskId);

impl ProcessClaims {
    /// Claims the task; refused when a handle of this process has it.
    pub(super) fn take(place: &StoreIdentity, task: &TaskId) -> Result<Self, ActError> {
        let key = (place.clone(), task.clone());
        let mut claims = claims();
        if claims.contains_key(&key) {
            let held = HeldLease {
                holder: own_process(),
                ttl: None,
                since: clock::now(),
                left: None,
            };
            return Err(Refusal::Held {
                task: task.clone(),
                agent: None,
                held: Box::new(held),
                now: clock::now(),
            }
            .into());
        }
        claims.insert(key.clone(), 1);
        Ok(Self(key))
    }

    /// Claims it with a new lease; handles that still have it have lost theirs.
    pub(super) fn join(place: &StoreIdentity, task: &TaskId) -> Self {
        let key = (place.clone(), task.clone());
        *claims().entry(key.clone()).or_default() += 1;
        Self(key)
    }
}

impl Drop for ProcessClaims {
    fn drop(&mut self) {
        let mut claims = claims();
        if let Some(count) = claims.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                claims.remove(&self.0);
            }
        }
    }
}

/// How many handles claim each task; more than one only where the others have lost their lease.
fn claims() -> MutexGuard<'static, HashMap<ClaimKey, usize>> {
    // Of the process by nature: handles of one process are the same holder to every store.
    static CLAIMS: OnceLock<Mutex<HashMap<ClaimKey, usize>>> = OnceLock::new();
    CLAIMS
        .get_or_init(Mutex::default)
        .lock()
        .expect("nothing panics while it is locked")
}
