//! Executes commands from other nodes for agents supervised here. Each command runs once, under the
//! lease it was meant for, and its outcome is written to the store.
//!
//! A command is taken by a commit that checks both the lease and that the command was not
//! withdrawn. Sending commands is in `supervise::remote_command_sender`.

use std::sync::Arc;

use relight_core::agent::change::AgentChange;
use relight_core::agent::remote_command::{
    RemoteCommand, RemoteCommandOutcome, RemoteCommandProgress, RemoteVerb,
};
use relight_core::agent::{Agent, Stopper};
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_store::{AgentCommit, AgentCommitError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::actor::{Mail, StateChangeResult};
use super::context::SupervisorContext;
use super::event_subscription::EventSubscription;
use super::roster::Roster;
use crate::os::clock;

/// Maximum number of commit retries while the agent changes.
const ROUNDS_MAX: usize = 100;

/// Executes commands for as long as it is polled.
pub(super) async fn serve(
    context: Arc<SupervisorContext>,
    roster: Roster,
    mut subscription: EventSubscription,
) {
    let mut doing = JoinSet::new();
    loop {
        let mut names: Vec<AgentName> = subscription
            .next()
            .await
            .into_iter()
            .filter_map(|event| event.agent)
            .collect();
        names.sort();
        names.dedup();
        while doing.try_join_next().is_some() {}
        for name in names.into_iter().filter(|name| roster.note_command(name)) {
            doing.spawn(execute(Arc::clone(&context), roster.clone(), name));
        }
    }
}

/// Executes the pending command of this agent, if any.
pub(super) async fn execute(context: Arc<SupervisorContext>, roster: Roster, name: AgentName) {
    let right = context.node_right();
    let Some((agent, wish)) = take(&context, &name).await else {
        return;
    };
    // If this node lost its lease meanwhile, the command is dropped.
    if !context.still_has(right) {
        return;
    }
    let (answer, answered) = oneshot::channel();
    let mail = match wish.verb {
        RemoteVerb::Start => Mail::Start(answer),
        RemoteVerb::Stop => Mail::Stop(Stopper::Person, answer),
        RemoteVerb::Restart => Mail::Restart(answer),
    };
    if !roster.ask(&name, mail) {
        return;
    }
    // If the actor ends, the command ends with the lease, which the sender sees.
    if let Ok(answer) = answered.await {
        reply(
            &context,
            &agent,
            wish.at(RemoteCommandProgress::Answered(outcome(answer))),
        )
        .await;
    }
}

fn outcome(answer: StateChangeResult) -> RemoteCommandOutcome {
    let StateChangeResult {
        previous,
        state,
        task_cancelled,
        problem,
        ..
    } = answer;
    RemoteCommandOutcome {
        previous,
        now: state,
        task_cancelled,
        problem,
    }
}

/// Takes the pending command; none when there is none, or it is for another lease.
async fn take(context: &SupervisorContext, name: &AgentName) -> Option<(Agent, RemoteCommand)> {
    for _ in 0..ROUNDS_MAX {
        let agent = context.engine.store().agent(name).await.ok()??;
        let is_ours = agent
            .lease
            .held
            .as_ref()
            .is_some_and(|held| held.holder == context.holder());
        let asked = agent
            .wish
            .clone()
            .filter(|wish| wish.progress == RemoteCommandProgress::Asked);
        let wish = asked.filter(|_| is_ours)?.at(RemoteCommandProgress::Taken);
        match commit(context, &agent, wish.clone()).await {
            Ok(()) => return Some((agent, wish)),
            Err(AgentCommitError::Moved(_)) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Writes the outcome, unless the lease has changed.
async fn reply(context: &SupervisorContext, taken: &Agent, wish: RemoteCommand) {
    for _ in 0..ROUNDS_MAX {
        let Ok(Some(agent)) = context.engine.store().agent(&taken.name).await else {
            return;
        };
        let is_waited_for = agent.wish.as_ref().is_some_and(|known| known.id == wish.id);
        if !is_waited_for || agent.lease.fence != taken.lease.fence {
            return;
        }
        match commit(context, &agent, wish.clone()).await {
            Err(AgentCommitError::Moved(_)) => {}
            Ok(()) | Err(_) => return,
        }
    }
}

/// Commits if the agent is unchanged and still held by this supervisor.
async fn commit(
    context: &SupervisorContext,
    agent: &Agent,
    wish: RemoteCommand,
) -> Result<(), AgentCommitError> {
    let guard = Guard {
        fence: Some(agent.lease.fence),
        seq: Some(agent.seq),
    };
    let changes = vec![AgentChange::RemoteCommand(Box::new(wish))];
    let commit = AgentCommit {
        agent: agent.name.clone(),
        guard,
        at: clock::now(),
        changes,
    };
    context.engine.store().commit_agent(commit).await.map(drop)
}
