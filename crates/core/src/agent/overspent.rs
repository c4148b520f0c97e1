//! What becomes of agents while the budget of their store is spent.

use super::change::AgentChange;
use super::decide::{AgentDecision, AgentDecisionInput, AgentEvent, decide, end};
use super::{Agent, Pause, StopReason};
use crate::store_budget::Overspent;
use crate::time::Time;

/// Like `decide`, while the budget of the store is spent: what would begin an attempt is paused until it
/// is not, and a running attempt is ended. What a person starts or restarts may go on.
pub fn decide_overspent(
    agent: &Agent,
    event: AgentEvent,
    input: AgentDecisionInput,
    overspent: &Overspent,
) -> AgentDecision {
    if !agent.is_stopped_by(overspent) {
        return decide(agent, event, input);
    }
    let is_by_person = matches!(
        event,
        AgentEvent::Start | AgentEvent::End(StopReason::Restart)
    );
    if is_by_person {
        let allowed = allowed_agent(agent, input.now);
        let usage = AgentChange::Usage(Box::new(allowed.usage.clone()));
        let mut decision = decide(&allowed, event, input);
        decision.changes.insert(0, usage);
        return decision;
    }
    if event == AgentEvent::Overspent {
        return end(agent, StopReason::Budget);
    }
    decide(agent, event, input).held(Pause::Budget, Some(overspent.until))
}

/// The same agent, allowed by a person to spend more than the budget of the store.
fn allowed_agent(agent: &Agent, now: Time) -> Agent {
    let mut allowed = agent.clone();
    allowed.usage.allowed_at = Some(now);
    allowed
}
