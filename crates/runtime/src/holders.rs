//! What the store knows about the holders of leases: which nodes have lost theirs, which attempts of
//! agents are over. `os::process::holder_life` judges by what was learned here.

use std::collections::BTreeMap;
use std::time::Duration;

use relight_core::agent::{Agent, AgentState, AttemptTag};
use relight_core::ids::AgentName;
use relight_core::lease::{HeldLease, Holder, ProcessIdentity};
use relight_store::{AgentQuery, Store, StoreError};

use crate::os::attempts::{self, KnownAttempt};
use crate::os::{fleet, process};

/// From this many agents on, one read of all of them is cheaper than one read for each.
const READ_ALL_FROM: usize = 16;

/// How long the record of an attempt's start is waited for.
const RECORD_WAIT_MAX: Duration = Duration::from_secs(1);

/// Asks the store about these holders. To be called after they were read and before they are judged:
/// what was read then cannot belong to a node or an attempt that began meanwhile.
pub async fn look_for<'a>(
    store: &dyn Store,
    leases: impl IntoIterator<Item = &'a HeldLease>,
) -> Result<(), StoreError> {
    let mut is_on_another_node = false;
    let mut by_agent: BTreeMap<AgentName, BTreeMap<AttemptTag, &ProcessIdentity>> = BTreeMap::new();
    for HeldLease { holder, .. } in leases {
        is_on_another_node |= holder.node().is_some_and(|node| fleet::node() != Some(node));
        let Holder::Attempt { attempt, shim, .. } = holder else { continue };
        if attempts::known(attempt) == Some(KnownAttempt::Over) {
            continue;
        }
        let tag = AttemptTag::from_text(attempt);
        let agent = tag.agent().and_then(|name| AgentName::new(name).ok());
        if let Some(agent) = agent {
            by_agent.entry(agent).or_default().insert(tag, shim);
        }
    }
    if is_on_another_node {
        crate::fleet::look(store).await?;
    }
    for agent in read_agents(store, by_agent.keys()).await? {
        for (tag, shim) in by_agent.remove(&agent.name).unwrap_or_default() {
            if agent.has_ended(&tag, attempts::own()) {
                attempts::learn(&tag, KnownAttempt::Over);
            } else if !process::is_alive(shim) {
                // Its shim was killed, and the attempt may live on without it.
                let leader = store.attempt(&tag).await?.and_then(|attempt| attempt.process);
                leader
                    .into_iter()
                    .for_each(|leader| attempts::learn(&tag, KnownAttempt::Leader(leader)));
            }
        }
    }
    Ok(())
}

/// The live attempt of a supervised agent, as a holder; none when it has none.
pub async fn live_attempt(
    store: &dyn Store,
    agent: &AgentName,
) -> Result<Option<Holder>, StoreError> {
    let found = store.agent(agent).await?.filter(|agent| !agent.plan.reports_itself());
    let Some(AgentState::Running { attempt: tag, .. }) = found.map(|agent| agent.state) else {
        return Ok(None);
    };
    of_attempt(store, &tag).await
}

/// An attempt as a holder; none when it has ended or this store does not know it. Its process may be
/// faster than the record that it was started, which is waited for.
pub async fn of_attempt(store: &dyn Store, tag: &AttemptTag) -> Result<Option<Holder>, StoreError> {
    let known = async {
        loop {
            let newest = store.newest_event().await?;
            let found = store.attempt(tag).await?;
            if found.as_ref().is_some_and(|found| found.ended.is_some()) {
                return Ok(None);
            }
            if let Some(shim) = found.and_then(|found| found.shim) {
                let attempt = tag.to_string();
                return Ok(Some(Holder::Attempt { attempt, shim, process: None }));
            }
            store.changed(newest).await?;
        }
    };
    tokio::time::timeout(RECORD_WAIT_MAX, known).await.unwrap_or(Ok(None))
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
