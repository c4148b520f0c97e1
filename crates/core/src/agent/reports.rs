//! Decisions about agents that report their own heartbeats. Nobody starts or stops their process,
//! so an attempt begins with a report and ends with silence, or with a report of its failure. Pure.
//!
//! | state \ event | reported | silent, died | start | end to restart | stop by a person |
//! |---|---|---|---|---|---|
//! | created, suspended | begin | – | begin | begin | stopped |
//! | running | – | charged | – | ended, begin | ended, stopped |
//! | crashed | begin, once it is due | – | begin, forgiven | begin, forgiven | stopped |
//! | terminated | – | – | begin, forgiven | begin, forgiven | stopped |
//! | stopped by a person | – | – | begin, forgiven | begin, forgiven | – |
//! | stopped otherwise | begin | – | begin, forgiven | begin, forgiven | stopped |
//!
//! *begin*: a new attempt, without spawning a process. *charged*: its attempt ended, an alert is sent if
//! it was silent, and the restart budget decides as for other agents: `crashed` without a wait, `crashed` until
//! its cooldown is over, or `terminated`; the caller passes its tasks to their strategy. *–*: nothing
//! happens, as for every event that is not in the table.

use super::attempt::AttemptTag;
use super::change::AgentChange;
use super::death::{Cause, Death, PostMortem, RecordedDeath};
use super::decide::{AgentDecision, AgentDecisionInput, AgentEffect, AgentEvent};
use super::{Agent, AgentState, StopReason, Stopper};
use crate::alert::Alert;
use crate::event::EventKind;
use crate::restart_budget::{self, RestartVerdict};
use crate::time::Time;

/// Decides how an agent that reports its own heartbeats reacts to an event.
pub(super) fn decide(agent: &Agent, event: AgentEvent, input: AgentDecisionInput) -> AgentDecision {
    match event {
        AgentEvent::Reported => match &agent.state {
            AgentState::Running { .. }
            | AgentState::Stopped {
                by: Stopper::Person,
            }
            | AgentState::Terminated { .. } => AgentDecision::default(),
            AgentState::Crashed { again_at: Some(at) }
                if !restart_budget::is_due(&agent.plan.policy, *at, input.now) =>
            {
                AgentDecision::default()
            }
            AgentState::Created
            | AgentState::Crashed { .. }
            | AgentState::Suspended { .. }
            | AgentState::Stopped {
                by: Stopper::Shutdown | Stopper::Itself,
            } => begin(agent, input),
        },
        AgentEvent::Silent {
            silent,
            made_progress,
            post_mortem,
        } => {
            let AgentState::Running { since, .. } = &agent.state else {
                return AgentDecision::default();
            };
            let note = format!("no report for {silent}");
            let mut died = ended(
                agent,
                *since,
                StopReason::Hung,
                note,
                *post_mortem,
                input.now,
            );
            if let AgentChange::Ended { ended, .. } = &mut died {
                let silent_ms = i64::try_from(silent.as_ms()).unwrap_or(i64::MAX);
                let last_sign = Time::from_ms(input.now.as_ms().saturating_sub(silent_ms));
                ended.death.last_sign = Some(last_sign);
                ended.death.made_progress = made_progress;
            }
            let is_stable = agent.plan.policy.is_stable(input.now.since(*since));
            let alert = Alert::agent_silent(&agent.name, silent);
            charged(agent, died, Some(alert), made_progress || is_stable, input)
        }
        AgentEvent::Died {
            death, post_mortem, ..
        } => {
            let AgentState::Running { since, .. } = &agent.state else {
                return AgentDecision::default();
            };
            let is_stable = agent.plan.policy.is_stable(input.now.since(*since));
            let advanced = death.made_progress || is_stable;
            let cause = death.cause(None);
            let died = AgentChange::Ended {
                number: agent.attempt_number,
                ended: Box::new(RecordedDeath {
                    cause,
                    death: *death,
                }),
                post_mortem,
            };
            charged(agent, died, None, advanced, input)
        }
        AgentEvent::Start | AgentEvent::End(StopReason::Restart) => {
            let is_running = matches!(agent.state, AgentState::Running { .. });
            if is_running && event == AgentEvent::Start {
                return AgentDecision::default();
            }
            let mut changes = told_to_end(agent, StopReason::Restart, input.now);
            if !is_running && agent.tally.in_a_row > 0 {
                changes.push(AgentChange::Tally(restart_budget::progress(
                    agent.tally.clone(),
                )));
            }
            changes.extend(begin(agent, input).changes);
            AgentDecision {
                changes,
                effects: Vec::new(),
            }
        }
        AgentEvent::Stop(Stopper::Person) => match &agent.state {
            AgentState::Stopped {
                by: Stopper::Person,
            } => AgentDecision::default(),
            _ => {
                let by = Stopper::Person;
                rest(
                    told_to_end(agent, StopReason::Stop, input.now),
                    AgentState::Stopped { by },
                )
            }
        },
        AgentEvent::Wake
        | AgentEvent::Work(_)
        | AgentEvent::Stop(Stopper::Shutdown | Stopper::Itself)
        | AgentEvent::End(_)
        | AgentEvent::Due
        | AgentEvent::HoldBack
        | AgentEvent::Progress
        | AgentEvent::Used { .. }
        | AgentEvent::Overspent
        | AgentEvent::RoundOver { .. }
        | AgentEvent::CannotAsk => AgentDecision::default(),
    }
}

/// Its silence is a death like any other: so many in a row without progress, and it is terminated.
fn charged(
    agent: &Agent,
    died: AgentChange,
    alert: Option<Alert>,
    advanced: bool,
    input: AgentDecisionInput,
) -> AgentDecision {
    let tally = agent.tally.clone();
    let tally = if advanced {
        restart_budget::progress(tally)
    } else {
        tally
    };
    let (tally, verdict) = restart_budget::next(&agent.plan.policy, tally, input.now, input.jitter);
    let mut alerts: Vec<Alert> = alert.into_iter().collect();
    let state = match verdict {
        RestartVerdict::AtOnce => AgentState::Crashed { again_at: None },
        RestartVerdict::At(at) => AgentState::Crashed { again_at: Some(at) },
        RestartVerdict::Terminate { why } => {
            let (why, start) = (why.to_string(), agent.command_to_start(None));
            alerts.push(Alert::agent_terminated(&agent.name, &start, &why));
            AgentState::Terminated { why }
        }
    };
    let mut decision = rest(vec![died, AgentChange::Tally(tally)], state);
    for alert in alerts {
        decision
            .changes
            .push(AgentChange::Noted(EventKind::Alert, alert.detail()));
        decision.effects.push(AgentEffect::Alert(alert.line()));
    }
    decision
}

/// Begins an attempt whose process is managed elsewhere.
fn begin(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    let number = agent.attempt_number + 1;
    let tag = AttemptTag::new(&agent.name, number, input.chance);
    let running = AgentState::Running {
        attempt: tag.clone(),
        since: input.now,
        ending: None,
    };
    let changes = vec![
        AgentChange::Begun { number, tag },
        AgentChange::State(running),
    ];
    AgentDecision {
        changes,
        effects: Vec::new(),
    }
}

/// Ends the current attempt, if there is one.
fn told_to_end(agent: &Agent, ending: StopReason, now: Time) -> Vec<AgentChange> {
    let AgentState::Running { since, .. } = &agent.state else {
        return Vec::new();
    };
    let note = "a person ended it; its own process is left alone".to_owned();
    vec![ended(
        agent,
        *since,
        ending,
        note,
        PostMortem::default(),
        now,
    )]
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
    let death = Death {
        lived: now.since(since),
        unfinished_task,
        ..Death::lost(now, note)
    };
    let cause: Cause = death.cause(Some(ending));
    let ended = Box::new(RecordedDeath { cause, death });
    AgentChange::Ended {
        number: agent.attempt_number,
        ended,
        post_mortem: Box::new(post_mortem),
    }
}

fn rest(mut changes: Vec<AgentChange>, state: AgentState) -> AgentDecision {
    changes.push(AgentChange::State(state));
    AgentDecision {
        changes,
        effects: vec![AgentEffect::AtRest],
    }
}
