//! The last heartbeats of agents that are supervised by other processes, kept in memory only.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_runtime::os::clock;
use relight_runtime::supervise::heartbeats::Beat;

/// Agents whose heartbeats are kept.
const AGENTS_MAX: usize = 10_000;

/// The last heartbeat of each agent of another supervisor.
#[derive(Debug, Default)]
pub(crate) struct LastHeartbeats(RwLock<HashMap<AgentName, LastHeartbeat>>);

/// The last heartbeat of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastHeartbeat {
    pub(crate) at: Time,
    pub(crate) waiting_until: Option<Time>,
    pub(crate) status: Option<String>,
}

impl LastHeartbeat {
    /// The word for its phase.
    pub(crate) fn phase(&self, now: Time) -> &'static str {
        match self.waiting_until {
            Some(until) if until > now => "waiting",
            _ => "working",
        }
    }
}

impl LastHeartbeats {
    pub(crate) fn of(&self, agent: &AgentName) -> Option<LastHeartbeat> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(agent)
            .cloned()
    }

    pub(crate) fn forget(&self, agent: &AgentName) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(agent);
    }

    /// Whether the agent is known here.
    pub(crate) fn heard(&self, agent: &AgentName, beat: &Beat) -> bool {
        let mut signs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(sign) = signs.get_mut(agent) else {
            return false;
        };
        sign.at = clock::now();
        sign.waiting_until = beat.waiting_until;
        if beat.status.is_some() {
            sign.status.clone_from(&beat.status);
        }
        true
    }

    pub(crate) fn first(&self, agent: AgentName, beat: Beat) {
        let mut signs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if signs.len() < AGENTS_MAX {
            let Beat {
                waiting_until,
                status,
            } = beat;
            signs.insert(
                agent,
                LastHeartbeat {
                    at: clock::now(),
                    waiting_until,
                    status,
                },
            );
        }
    }
}
