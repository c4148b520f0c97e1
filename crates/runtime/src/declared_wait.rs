//! A verb that waits says so for the agent it was called in, so that its silence is not taken for a hang:
//! `task claim --wait`, `drain --wait`, and the same in the library.
//!
//! The supervisor of an agent is told of the wait; it forgets it when it is told that the wait is over,
//! and when the process is gone. An agent that reports by itself has no supervisor: the verb sends
//! heartbeats to the daemon for as long as it waits.

use std::path::PathBuf;
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::agent::silence::WAITING_MS_MAX;
use relight_core::ids::AgentName;
use relight_core::lease::Holder;
use relight_core::time::Span;
use serde_json::json;
use tokio::task::AbortHandle;

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::{clock, environment, process, random};
use crate::supervise::daemon_client;
use crate::supervise::notify::{self, NotifySign, WaitId};

/// Said again so often, for a supervisor that was replaced before it took note of it.
const AGAIN: Duration = Duration::from_secs(30);
/// While nobody listens: a supervisor is being replaced.
const SOON: Duration = Duration::from_millis(500);
/// What the daemon may take to hear a heartbeat.
const HEARTBEAT_PATIENCE: Span = Span::from_secs(5);

/// Waiting is declared for as long as this lives. Outside of an agent it does nothing.
#[derive(Debug)]
#[must_use = "the wait is over when this is dropped"]
pub struct DeclaredWait {
    announced: Option<(String, WaitId)>,
    saying: Option<AbortHandle>,
}

impl DeclaredWait {
    /// Begins to wait, for at most so long, in the agent that this process is part of, or in this agent.
    #[boxed]
    pub async fn begin(most: Option<Span>, engine: &Engine, agent: Option<&AgentName>) -> Self {
        if let Some(address) = environment::supervisors_socket() {
            return Self::announce(address, most);
        }
        let found = match agent {
            // Waiting needs no store: what cannot be read now is not declared.
            Some(name) => engine.store().agent(name).await.ok().flatten(),
            None => None,
        };
        let beating = found
            .zip(engine.home())
            .and_then(|(agent, home)| beat_for(&agent, home));
        Self {
            announced: None,
            saying: beating,
        }
    }

    fn announce(address: String, most: Option<Span>) -> Self {
        let id = WaitId {
            pid: 0,
            number: random::number(),
        };
        let longest = Span::from_ms(WAITING_MS_MAX);
        let most = most.map_or(longest, |most| most.min(longest));
        let sign = [NotifySign::Verb(id, Some(clock::now().plus(most)))];
        let to = address.clone();
        let saying = tokio::spawn(async move {
            loop {
                let said = notify::try_send(&to, &sign);
                tokio::time::sleep(if said.is_ok() { AGAIN } else { SOON }).await;
            }
        });
        Self {
            announced: Some((address, id)),
            saying: Some(saying.abort_handle()),
        }
    }
}

/// Sends heartbeats for an agent that reports to another process, often enough for its limit.
fn beat_for(agent: &Agent, home: PathBuf) -> Option<AbortHandle> {
    let holder = agent.lease.held.as_ref().map(|held| &held.holder);
    if !agent.plan.reports_itself() || holder == Some(&Holder::Process(process::me().clone())) {
        return None;
    }
    let every = (agent.plan.silence_max?.as_duration() / 4).clamp(SOON, AGAIN);
    // Its attempt is named: the agent itself is to learn of a restart.
    let (name, attempt) = (agent.name.clone(), agent.attempt_number.max(1));
    let beating = tokio::spawn(async move {
        loop {
            let until = clock::now().plus(Span::from_ms(every.as_millis() as u64 * 2));
            let beat = json!({"attempt": attempt, "waiting_until": until});
            let (home, name) = (home.clone(), name.clone());
            let send = move || daemon_client::heartbeat(&home, &name, &beat, HEARTBEAT_PATIENCE);
            // A daemon that does not answer may be there the next time.
            let _ = tokio::task::spawn_blocking(send).await;
            tokio::time::sleep(every).await;
        }
    });
    Some(beating.abort_handle())
}

impl Drop for DeclaredWait {
    fn drop(&mut self) {
        if let Some(saying) = self.saying.take() {
            saying.abort();
        }
        // When nobody hears it, it is over with this process, or at its time.
        if let Some((address, id)) = self.announced.take() {
            let _ = notify::try_send(&address, &[NotifySign::Verb(id, None)]);
        }
    }
}
