//! Who sent a request, as the guard found out.

use relight_core::agent::AttemptTag;
use relight_core::ids::AgentName;

use crate::tokens::Scope;

/// How a caller came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Socket,
    Token,
    Cookie,
    /// Another node of the fleet, which reads one thing.
    Node,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) via: Via,
    pub(crate) scope: Scope,
    /// Of what a page must send with writes.
    pub(crate) csrf_hash: Option<String>,
    /// Apart from others: answers that are remembered belong to whoever asked.
    pub(crate) id: String,
    /// The attempt of an agent that it is part of, where that is known.
    pub(crate) attempt: Option<AttemptTag>,
    /// The agent that it says it acts for.
    pub(crate) agent: Option<AgentName>,
}

impl Caller {
    /// The agent that it acts for: the one that it names, else the one whose attempt it is part of.
    pub(crate) fn acting_agent(&self) -> Option<AgentName> {
        let of_attempt = || AgentName::new(self.attempt.as_ref()?.agent()?).ok();
        self.agent.clone().or_else(of_attempt)
    }
}
