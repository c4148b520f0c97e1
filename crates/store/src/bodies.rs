//! JSON bodies of records: the fields without a column, shared by both SQL backends.

use relight_core::agent::{
    Agent, AgentPlan, AgentState, Attempt, AttemptTag, PostMortem, RecordedDeath, RemoteCommand,
};
use relight_core::ids::AgentName;
use relight_core::lease::{Holder, Lease, ProcessIdentity};
use relight_core::restart_budget::Tally;
use relight_core::step::{Cut, Output};
use relight_core::time::Time;
use relight_core::usage::AgentUsage;
use serde::{Deserialize, Serialize};

/// Of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AgentBody {
    #[serde(flatten)]
    pub(crate) state: AgentState,
    pub(crate) holder: Option<Holder>,
    pub(crate) held_since: Option<Time>,
    pub(crate) attempt_number: u32,
    pub(crate) next_attempt: Option<AttemptTag>,
    pub(crate) tally: Tally,
    pub(crate) session: Option<String>,
    pub(crate) iteration: u32,
    #[serde(default, skip_serializing_if = "AgentUsage::is_unused")]
    pub(crate) usage: AgentUsage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state_since: Option<Time>,
    pub(crate) plan: AgentPlan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wish: Option<RemoteCommand>,
    pub(crate) created_at: Time,
}

impl AgentBody {
    pub(crate) fn of(agent: &Agent) -> Self {
        let held = agent.lease.held.as_ref();
        Self {
            state: agent.state.clone(),
            holder: held.map(|held| held.holder.clone()),
            held_since: held.map(|held| held.since),
            attempt_number: agent.attempt_number,
            next_attempt: agent.next_attempt.clone(),
            tally: agent.tally.clone(),
            session: agent.session.clone(),
            iteration: agent.iteration,
            usage: agent.usage.clone(),
            state_since: agent.state_since,
            plan: agent.plan.clone(),
            wish: agent.wish.clone(),
            created_at: agent.created_at,
        }
    }

    /// Builds the agent from the body and its columns.
    pub(crate) fn into_agent(self, name: AgentName, lease: Lease, seq: u64, at: Time) -> Agent {
        Agent {
            name,
            state: self.state,
            lease,
            seq,
            attempt_number: self.attempt_number,
            next_attempt: self.next_attempt,
            tally: self.tally,
            session: self.session,
            iteration: self.iteration,
            usage: self.usage,
            state_since: self.state_since,
            plan: self.plan,
            wish: self.wish,
            created_at: self.created_at,
            updated_at: at,
        }
    }
}

/// Of an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttemptBody {
    pub(crate) process: Option<ProcessIdentity>,
    pub(crate) shim: Option<ProcessIdentity>,
    pub(crate) log: Option<(u64, u64)>,
    pub(crate) ended: Option<RecordedDeath>,
    pub(crate) post_mortem: Option<PostMortem>,
}

impl AttemptBody {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            process: attempt.process.clone(),
            shim: attempt.shim.clone(),
            log: attempt.log,
            ended: attempt.ended.clone(),
            post_mortem: attempt.post_mortem.clone(),
        }
    }
}

/// Rare fields of an output, stored beside its body.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct OutputDetail {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) stderr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<Cut>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) redacted: bool,
}

impl OutputDetail {
    /// None when there is nothing to keep.
    pub(crate) fn of(output: &Output) -> Option<Self> {
        let plain = output.stderr.is_empty() && output.cut.is_none() && !output.redacted;
        (!plain).then(|| Self {
            stderr: output.stderr.clone(),
            cut: output.cut.clone(),
            redacted: output.redacted,
        })
    }
}

/// The text of a record.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("records have string keys and no failing members")
}
