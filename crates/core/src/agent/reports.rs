//! Decisions about agents that report their own heartbeats. Nobody starts or stops their process,
//! so an attempt begins with a report and ends with silence. Pure.
//!
//! | state \ event | reported | silent | start | end to restart | stop by a person |
//! |---|---|---|---|---|---|
//! | created | begin | – | begin | begin | stopped |
//! | running | – | crashed, told | – | ended, begin | ended, stopped |
//! | crashed | begin | – | begin | begin | stopped |
//! | suspended, terminated | begin | – | begin | begin | stopped |
//! | stopped by a person | – | – | begin | begin | – |
//! | stopped otherwise | begin | – | begin | begin | stopped |
//!
//! *begin*: a new attempt, without spawning a process. *crashed, told*: its attempt ended as hung
//! and an alert is sent; the caller passes its tasks to their strategy. No budget is charged,
//! because restarting it costs nothing. *–*: nothing happens, as for every event that is not in the
//! table.

use super::attempt::AttemptTag;
use super::change::AgentChange;
use super::death::{Cause, Death, PostMortem, RecordedDeath};
use super::decide::{AgentDecision, AgentDecisionInput, AgentEffect, AgentEvent};
use super::{Agent, AgentState, StopReason, Stopper};
use crate::alert::Alert;
use crate::event::EventKind;
use crate::time::Time;

/// Decides how an agent that reports its own heartbeats reacts to an event.
pub(super) fn decide(agent: &Agent, event: AgentEvent, input: AgentDecisionInput) -> AgentDecision {
    match event {
        AgentEvent::Reported => match &agent.state {
            AgentState::Running { .. } | AgentState::Stopped { by: Stopper::Person } => {
                AgentDecision::default()
            }
            AgentState::Created
            | AgentState::Crashed { .. }
            | AgentState::Suspended { .. }
            | AgentState::Stopped { by: Stopper::Shutdown | Stopper::Itself }
            | AgentState::Terminated { .. } => begin(agent, input),
        },
        AgentEvent::Silent { silent, post_mortem } => {
            let AgentState::Running { since, .. } = &agent.state else {
                return AgentDecision::default();
            };
            let note = format!("no report for {silent}");
            let mut died = ended(agent, *since, StopReason::Hung, note, *post_mortem, input.now);
            if let AgentChange::Ended { ended, .. } = &mut died {
                let silent_ms = i64::try_from(silent.as_ms()).unwrap_or(i64::MAX);
                let last_sign = Time::from_ms(input.now.as_ms().saturating_sub(silent_ms));
                ended.death.last_sign = Some(last_sign);
            }
            let alert = Alert::agent_silent(&agent.name, silent);
            let mut decision = rest(vec![died], AgentState::Crashed { again_at: None });
            decision.changes.push(AgentChange::Noted(EventKind::Alert, alert.detail()));
            decision.effects.insert(0, AgentEffect::Alert(alert.line()));
            decision
        }
        AgentEvent::Start if matches!(agent.state, AgentState::Running { .. }) => {
            AgentDecision::default()
        }
        AgentEvent::Start => begin(agent, input),
        AgentEvent::End(StopReason::Restart) => {
            let mut changes = told_to_end(agent, StopReason::Restart, input.now);
            let next = begin(agent, input);
            changes.extend(next.changes);
            AgentDecision { changes, effects: next.effects }
        }
        AgentEvent::Stop(Stopper::Person) => match &agent.state {
            AgentState::Stopped { by: Stopper::Person } => AgentDecision::default(),
            _ => {
                let by = Stopper::Person;
                rest(told_to_end(agent, StopReason::Stop, input.now), AgentState::Stopped { by })
            }
        },
        AgentEvent::Wake
        | AgentEvent::Work(_)
        | AgentEvent::Stop(Stopper::Shutdown | Stopper::Itself)
        | AgentEvent::End(_)
        | AgentEvent::Died { .. }
        | AgentEvent::Due
        | AgentEvent::HoldBack
        | AgentEvent::Progress
        | AgentEvent::RoundOver { .. }
        | AgentEvent::CannotAsk => AgentDecision::default(),
    }
}

/// Begins an attempt whose process is managed elsewhere.
fn begin(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    let number = agent.attempt_number + 1;
    let tag = AttemptTag::new(&agent.name, number, input.chance);
    let running = AgentState::Running { attempt: tag.clone(), since: input.now, ending: None };
    let changes = vec![AgentChange::Begun { number, tag }, AgentChange::State(running)];
    AgentDecision { changes, effects: Vec::new() }
}

/// Ends the current attempt, if there is one.
fn told_to_end(agent: &Agent, ending: StopReason, now: Time) -> Vec<AgentChange> {
    let AgentState::Running { since, .. } = &agent.state else { return Vec::new() };
    let note = "a person ended it; its own process is left alone".to_owned();
    vec![ended(agent, *since, ending, note, PostMortem::default(), now)]
}

fn ended(
    agent: &Agent,
    since: Time,
    ending: StopReason,
    note: String,
    post_mortem: PostMortem,
    now: Time,
) -> AgentChange {
    let unfinished_task = post_mortem.task.clone();
    let death = Death { lived: now.since(since), unfinished_task, ..Death::lost(now, note) };
    let cause: Cause = death.cause(Some(ending));
    let ended = Box::new(RecordedDeath { cause, death });
    AgentChange::Ended { number: agent.attempt_number, ended, post_mortem: Box::new(post_mortem) }
}

fn rest(mut changes: Vec<AgentChange>, state: AgentState) -> AgentDecision {
    changes.push(AgentChange::State(state));
    AgentDecision { changes, effects: vec![AgentEffect::AtRest] }
}
