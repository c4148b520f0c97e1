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

/// How long a lease lasts that this process takes and renews; none where it follows the life of the
/// process. On a store that other machines use nobody there could see it end, but by the lease of the node
/// that the process belongs to. While that node is away it is a lease of its own, as long as the node's.
pub(super) async fn lease(
    given: Option<Span>,
    holders: &Holders,
) -> Result<Option<Span>, StoreError> {
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
pub(super) fn own_process() -> Holder {
    Holder::Process(process::me().clone())
}

/// The holder of a lease that this process renews.
pub(super) fn own_lease() -> Holder {
    Holder::Time {
        by: format!("process {}", std::process::id()),
    }
}

/// Where seats are counted: one store, however often this process has opened it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StoreIdentity(Arc<str>);

impl StoreIdentity {
    pub(super) fn of(engine: &Engine) -> Self {
        let name = match engine.store().file() {
            Some(path) => path.canonicalize().unwrap_or(path).display().to_string(),
            None => format!("{:p}", Arc::as_ptr(engine.store())),
        };
        Self(name.into())
    }
}

/// The right of one handle in this process to hold a task.
#[derive(Debug)]
pub(super) struct ProcessClaims(SeatKey);

type SeatKey = (StoreIdentity, TaskId);

impl ProcessClaims {
    /// Takes the seat; refused when a handle of this process has it.
    pub(super) fn take(place: &StoreIdentity, task: &TaskId) -> Result<Self, ActError> {
        let key = (place.clone(), task.clone());
        let mut seats = seats();
        if seats.contains_key(&key) {
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
            }
            .into());
        }
        seats.insert(key.clone(), 1);
        Ok(Self(key))
    }

    /// Sits down with a new lease; whoever still sits there has lost its own.
    pub(super) fn join(place: &StoreIdentity, task: &TaskId) -> Self {
        let key = (place.clone(), task.clone());
        *seats().entry(key.clone()).or_default() += 1;
        Self(key)
    }
}

impl Drop for ProcessClaims {
    fn drop(&mut self) {
        let mut seats = seats();
        if let Some(count) = seats.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                seats.remove(&self.0);
            }
        }
    }
}

/// How many handles sit at each task; more than one only where the others have lost their lease.
fn seats() -> MutexGuard<'static, HashMap<SeatKey, usize>> {
    // Of the process by nature: handles of one process are the same holder to every store.
    static SEATS: OnceLock<Mutex<HashMap<SeatKey, usize>>> = OnceLock::new();
    SEATS
        .get_or_init(Mutex::default)
        .lock()
        .expect("nothing panics while it is locked")
}
