//! Sends start, stop and restart commands to the node that holds an agent. Commands go through the
//! store, so nodes need no connection to each other.
//!
//! Commands are executed by `supervise::remote_command_executor`. A command that is not taken in time is
//! withdrawn; both sides compare the agent's record, so only one of them wins.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::agent::remote_command::{
    RemoteCommand, RemoteCommandOutcome, RemoteCommandProgress, RemoteVerb,
};
use relight_core::agent::{Agent, AgentState, Stopper};
use relight_core::decide::Guard;
use relight_core::error_code::ErrorCode;
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, NodeName};
use relight_core::node::Node;
use relight_core::time::Span;
use relight_store::{AgentCommit, AgentCommitError, EventQuery, StoreError};
use tokio::time::{Instant, sleep, timeout};

use super::control::{Changed, Refused};
use crate::boxed::boxed;
use crate::fleet::NodeCache;
use crate::holders::Holders;
use crate::os::{clock, fleet, random};

/// Extra time after a node's lease in which it must take a command; a dead node is detected by
/// then.
const TAKE_UP_MAX: Duration = Duration::from_secs(3);
/// How long to wait for a node to take over a free agent.
const FREE_MAX: Duration = Duration::from_secs(3);
/// Maximum number of commands read back from the journal.
const WISHES_MAX: usize = 100;
/// Minimum pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteCommandError {
    /// The node did not take it.
    #[error("agent {agent} is on node {node}, which does not answer; nothing was done")]
    Silent {
        /// Which agent.
        agent: AgentName,
        /// The node that holds it.
        node: NodeName,
    },
    /// The node has not finished in time.
    #[error("agent {agent} is on node {node}, which is still at it")]
    Late {
        /// Which agent.
        agent: AgentName,
        /// The node that holds it.
        node: NodeName,
    },
    /// The node failed.
    #[error("{problem} (on node {node})")]
    Problem {
        /// Which agent.
        agent: AgentName,
        /// The node that holds it.
        node: NodeName,
        /// The reason.
        problem: String,
    },
    /// Other commands are pending all the time, or the agent keeps changing its node.
    #[error("agent {agent} did not settle on a node that could be asked")]
    Contended {
        /// Which agent.
        agent: AgentName,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RemoteCommandError> for Refused {
    fn from(error: RemoteCommandError) -> Self {
        let hint = match &error {
            RemoteCommandError::Silent { .. } => {
                "relight node list shows whether it lives; try again"
            }
            RemoteCommandError::Late { .. } => {
                "what was asked for may still happen; relight ps shows it"
            }
            RemoteCommandError::Problem { agent, .. } => {
                &format!("relight deaths {agent} says why")
            }
            RemoteCommandError::Contended { .. } => "try again; relight ps shows who has it",
            RemoteCommandError::Store(_) => "try again",
        };
        let code = match error {
            RemoteCommandError::Store(_) => ErrorCode::INTERNAL,
            _ => ErrorCode::CONTENDED,
        };
        Self {
            code,
            hint: Some(hint.to_owned()),
            message: error.to_string(),
        }
    }
}

/// Result of sending a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteDelivery {
    /// Another node executed it.
    Done(Changed),
    /// No other node holds the agent: it is this node's or free. The command that is left to
    /// execute.
    Left(RemoteVerb),
}

/// Sends a command to the node that holds the agent and waits for the outcome, with a time limit.
#[boxed]
pub async fn ask(
    holders: &Holders,
    agent: &AgentName,
    verb: RemoteVerb,
    patience: Span,
) -> Result<RemoteDelivery, RemoteCommandError> {
    let deadline = Instant::now() + patience.as_duration();
    let (cache, seen) = NodeCache::first(holders).await?;
    let first_end = seen.first_end;
    let mut question = PendingCommand {
        holders,
        name: agent,
        verb,
        deadline,
        cache,
        first_end,
    };
    let mut before: Option<LostHolder> = None;
    loop {
        let Some(found) = question.holder().await? else {
            // A node that takes over starts a new attempt anyway.
            let is_renewed = verb == RemoteVerb::Restart && before.is_some();
            return Ok(RemoteDelivery::Left(if is_renewed {
                RemoteVerb::Start
            } else {
                verb
            }));
        };
        // A newer attempt than the one to be restarted has begun or is about to.
        let is_renewed = before
            .as_ref()
            .is_some_and(|before| before.is_renewed_by(&found));
        if verb == RemoteVerb::Restart && is_renewed {
            question.verb = RemoteVerb::Start;
        }
        if verb == RemoteVerb::Stop && is_stopped(&found.agent) {
            return Ok(RemoteDelivery::Done(unchanged(&found.agent)));
        }
        match question.send_to(&found).await? {
            CommandState::Answered(outcome) => {
                return question
                    .granted(found.node, outcome)
                    .map(RemoteDelivery::Done);
            }
            CommandState::Passed { was_taken } => {
                let (node, attempt_number) = (found.node, found.agent.attempt_number);
                before = Some(LostHolder {
                    node,
                    attempt_number,
                    was_taken,
                });
            }
        }
        if Instant::now() >= deadline {
            return Err(RemoteCommandError::Contended {
                agent: agent.clone(),
            });
        }
    }
}

/// A command and its deadline.
struct PendingCommand<'a> {
    holders: &'a Holders,
    name: &'a AgentName,
    verb: RemoteVerb,
    deadline: Instant,
    /// The known nodes.
    cache: NodeCache,
    /// How long until the first of their leases runs out: no event tells of that.
    first_end: Option<Span>,
}

/// An agent held by another node.
struct Elsewhere {
    agent: Agent,
    node: NodeName,
    /// Length of that node's lease.
    lease: Duration,
}

impl Elsewhere {
    fn late(&self) -> RemoteCommandError {
        RemoteCommandError::Late {
            agent: self.agent.name.clone(),
            node: self.node.clone(),
        }
    }

    fn silent(&self) -> RemoteCommandError {
        RemoteCommandError::Silent {
            agent: self.agent.name.clone(),
            node: self.node.clone(),
        }
    }
}

/// State of a sent command.
enum CommandState {
    /// It was answered.
    Answered(RemoteCommandOutcome),
    /// Its lease is over.
    Passed {
        /// It had been taken.
        was_taken: bool,
    },
}

/// A holder that lost the agent after the command was sent.
struct LostHolder {
    node: NodeName,
    attempt_number: u32,
    was_taken: bool,
}

impl LostHolder {
    fn is_renewed_by(&self, found: &Elsewhere) -> bool {
        let has_moved = self.node != found.node;
        self.was_taken || has_moved || found.agent.attempt_number > self.attempt_number
    }
}

impl PendingCommand<'_> {
    /// The live node that holds the agent. Waits for a free agent to be taken over.
    async fn holder(&mut self) -> Result<Option<Elsewhere>, RemoteCommandError> {
        let until = self.deadline.min(Instant::now() + FREE_MAX);
        loop {
            let newest = self.holders.store().newest_event().await?;
            let Some(agent) = self.holders.store().agent(self.name).await? else {
                return Ok(None);
            };
            let nodes = self.look().await?;
            let held = agent.lease.held.as_ref();
            let is_held = held.is_some_and(|held| self.holders.is_alive(held));
            let place = held.and_then(|held| held.holder.node()).cloned();
            match place.filter(|_| is_held) {
                Some(node) if fleet::node() != Some(&node) => {
                    let known = nodes.iter().find(|known| known.new.name == node);
                    let lease = known.map_or(Duration::ZERO, |node| node.new.ttl.as_duration());
                    return Ok(Some(Elsewhere { agent, node, lease }));
                }
                Some(_) => return Ok(None),
                None => {}
            }
            // Held by a process outside of the fleet, or no node could take it over.
            if is_held || !nodes.iter().any(|node| node.is_live()) || Instant::now() >= until {
                return Ok(None);
            }
            self.changed(newest, until).await?;
        }
    }

    /// Sends the command to this holder and waits.
    async fn send_to(&mut self, found: &Elsewhere) -> Result<CommandState, RemoteCommandError> {
        // First for another pending command, then for ours.
        let deadline = self.deadline;
        let take_by = || deadline.min(Instant::now() + found.lease + TAKE_UP_MAX);
        let (mut until, mut ours, mut was_taken) = (take_by(), None, false);
        loop {
            let newest = self.holders.store().newest_event().await?;
            let now = self.holders.store().agent(self.name).await?;
            let Some(now) = now else {
                return Ok(CommandState::Passed { was_taken });
            };
            let progress = match &ours {
                None => None,
                Some(ours) => Some(self.progress(&now, ours).await?),
            };
            let (is_over, is_late) = (Instant::now() >= until, Instant::now() >= self.deadline);
            let lease = &now.lease;
            let is_same_lease = lease.held.is_some() && lease.fence == found.agent.lease.fence;
            match progress {
                Some(RemoteCommandProgress::Answered(outcome)) => {
                    return Ok(CommandState::Answered(outcome));
                }
                _ if !is_same_lease => return Ok(CommandState::Passed { was_taken }),
                Some(RemoteCommandProgress::Taken) if is_late => return Err(found.late()),
                Some(RemoteCommandProgress::Taken) => (was_taken, until) = (true, self.deadline),
                Some(RemoteCommandProgress::Asked) if !is_over => {}
                Some(RemoteCommandProgress::Asked) if !self.withdraw(&now).await? => {
                    sleep(LOOK_PAUSE).await;
                    continue;
                }
                // Withdrawn by us or by another sender.
                Some(RemoteCommandProgress::Asked | RemoteCommandProgress::Withdrawn) => {
                    return Err(found.silent());
                }
                None => {
                    if let Some(asked) = self.place(&now, is_over).await? {
                        (ours, until) = (Some(asked), take_by());
                        continue;
                    }
                    if is_late {
                        return Err(RemoteCommandError::Contended {
                            agent: self.name.clone(),
                        });
                    }
                }
            }
            self.look().await?;
            if self.holders.is_gone(&found.node) {
                return Ok(CommandState::Passed { was_taken });
            }
            self.changed(newest, if is_over { self.deadline } else { until })
                .await?;
        }
    }

    /// Progress of our command. An answered one may already be replaced; then its answer is in the
    /// journal.
    async fn progress(
        &self,
        now: &Agent,
        ours: &RemoteCommand,
    ) -> Result<RemoteCommandProgress, RemoteCommandError> {
        if let Some(wish) = now.wish.as_ref().filter(|wish| wish.id == ours.id) {
            return Ok(wish.progress.clone());
        }
        let query = EventQuery {
            after: 0,
            before: None,
            task: None,
            agent: Some(self.name.clone()),
            kinds: vec![EventKind::AgentWish],
            limit: WISHES_MAX,
            newest: true,
        };
        let told = self.holders.store().events(query).await?;
        let ours = told
            .iter()
            .filter(|event| event.detail["id"] == ours.id.as_str());
        let mut outcomes = ours
            .filter_map(|event| serde_json::from_value(event.detail.get("outcome")?.clone()).ok());
        Ok(outcomes.next().map_or(
            RemoteCommandProgress::Withdrawn,
            RemoteCommandProgress::Answered,
        ))
    }

    /// Writes the command into the agent's record, unless another one is pending. A pending one
    /// past its time was left by a dead sender.
    async fn place(
        &self,
        now: &Agent,
        is_over: bool,
    ) -> Result<Option<RemoteCommand>, RemoteCommandError> {
        let waits = now.wish.as_ref().filter(|wish| wish.is_open());
        if waits.is_some_and(|wish| !is_over || wish.progress != RemoteCommandProgress::Asked) {
            return Ok(None);
        }
        let by = match fleet::node() {
            Some(node) => format!("node {node}"),
            None => "a command".to_owned(),
        };
        let id = u128::from_le_bytes(random::bytes());
        let id = format!("{id:032x}");
        let wish = RemoteCommand {
            id,
            verb: self.verb,
            by,
            progress: RemoteCommandProgress::Asked,
        };
        Ok(self.commit(now, wish.clone()).await?.then_some(wish))
    }

    /// Withdraws the command. True if it was not taken and never will be.
    async fn withdraw(&self, now: &Agent) -> Result<bool, RemoteCommandError> {
        let Some(wish) = now.wish.clone() else {
            return Ok(false);
        };
        self.commit(now, wish.at(RemoteCommandProgress::Withdrawn))
            .await
    }

    /// False when the agent has changed since it was read.
    async fn commit(&self, now: &Agent, wish: RemoteCommand) -> Result<bool, RemoteCommandError> {
        let guard = Guard {
            fence: None,
            seq: Some(now.seq),
        };
        let changes = vec![AgentChange::RemoteCommand(Box::new(wish))];
        let commit = AgentCommit {
            agent: now.name.clone(),
            guard,
            at: clock::now(),
            changes,
        };
        match self.holders.store().commit_agent(commit).await {
            Ok(_) => Ok(true),
            Err(AgentCommitError::Store(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    async fn look(&mut self) -> Result<Arc<[Node]>, StoreError> {
        let seen = self.cache.look(self.holders).await?;
        self.first_end = seen.first_end;
        Ok(seen.nodes)
    }

    /// Returns after a change of the store, or when the lease of a node has run out; not at once, for a
    /// store that many nodes use changes all the time.
    async fn changed(&self, newest: u64, until: Instant) -> Result<(), RemoteCommandError> {
        sleep(LOOK_PAUSE).await;
        let rest = until.saturating_duration_since(Instant::now());
        let rest = self
            .first_end
            .map_or(rest, |end| rest.min(end.as_duration()));
        match timeout(rest, self.holders.store().changed(newest)).await {
            Ok(changed) => Ok(changed?),
            Err(_) => Ok(()),
        }
    }

    fn granted(
        &self,
        node: NodeName,
        outcome: RemoteCommandOutcome,
    ) -> Result<Changed, RemoteCommandError> {
        let agent = self.name.clone();
        let RemoteCommandOutcome {
            previous,
            now,
            task_cancelled,
            problem,
        } = outcome;
        match problem {
            Some(problem) => Err(RemoteCommandError::Problem {
                agent,
                node,
                problem,
            }),
            None => Ok(Changed::new(agent, previous, now, task_cancelled)),
        }
    }
}

fn is_stopped(agent: &Agent) -> bool {
    matches!(
        agent.state,
        AgentState::Stopped {
            by: Stopper::Person
        }
    )
}

fn unchanged(agent: &Agent) -> Changed {
    let state = agent.state.kind();
    Changed::new(agent.name.clone(), state, state, None)
}
