//! What an operator wants to know at a glance: agents, work in flight, what needs a person, the daemon.
//! `relight status` prints it, `relight ps --watch` shows it as it changes.

use relight_core::agent::AgentStateKind;
use relight_core::time::{Span, Time};
use relight_runtime::drain;
use relight_runtime::inflight::{self, Inflight};
use relight_runtime::operations::Context;
use relight_runtime::operations::agent::{AgentView, Truth};
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::operations::needs::NeedsMe;
use relight_runtime::os::clock;
use relight_runtime::supervise::control::{SupervisorStatus, daemon_socket};
use relight_server::client;
use relight_store::{AgentQuery, Inventory};

use crate::exit::Failure;
use crate::output;

/// A daemon that does not answer by then is shown as one that does not answer.
const DAEMON_WAIT_MAX: Span = Span::from_ms(500);

pub(super) struct StatusOverview {
    pub(super) agents: Vec<AgentView>,
    pub(super) inventory: Inventory,
    pub(super) inflight: Inflight,
    /// What waits for a person, the newest first.
    pub(super) needs: Vec<NeedsMe>,
    /// With those that are not listed.
    pub(super) needs_total: u64,
    pub(super) draining_since: Option<Time>,
}

impl StatusOverview {
    pub(super) async fn read(context: &Context, query: AgentQuery) -> Result<Self, Failure> {
        let store = context.engine.store();
        let here = output::here();
        let mut signs = LiveSigns::default();
        let agents = context
            .list_agents(query, &mut signs, here.as_deref())
            .await?
            .items;
        let inventory = store.inventory(false).await?;
        let inflight = inflight::look(&context.engine, &context.home).await?;
        let needs = context.needs_me(&inventory).await?;
        let own = own_needs(&agents, &inflight);
        let needs_total = needs.total + own.len() as u64;
        let needs = own.into_iter().chain(needs.listed).collect();
        let drain = drain::now(store.as_ref()).await?;
        Ok(Self {
            agents,
            inventory,
            inflight,
            needs,
            needs_total,
            draining_since: drain.map(|drain| drain.since),
        })
    }

    /// How many agents are in each state that there is, in the words of `relight ps`.
    pub(super) fn agents_by_state(&self) -> Vec<(&'static str, usize)> {
        let now = clock::now();
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for kind in AgentStateKind::ALL {
            for agent in self.agents.iter().filter(|agent| agent.state == kind) {
                let word = state_word(agent, now);
                match counts.iter_mut().find(|(known, _)| *known == word) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((word, 1)),
                }
            }
        }
        counts
    }
}

/// The state in one word: what is true of it, where its record says something else.
pub(super) fn state_word(agent: &AgentView, now: Time) -> &'static str {
    match (agent.state, agent.truth) {
        (_, Truth::Orphaned) => "orphaned",
        (_, Truth::DiedUnnoticed) => "died",
        (_, Truth::NotRecorded) => "ended",
        (_, Truth::Unheard) => "unheard",
        (AgentStateKind::Running, _) if agent.waiting_until.is_some_and(|until| until > now) => {
            "waiting"
        }
        // An agent that waits for a task of the queue is at rest, not stopped.
        (AgentStateKind::Stopped, _) if agent.detail == "idle" => "idle",
        (state, _) => state.as_str(),
    }
}

/// What only a look at the processes tells: agents and tasks that nobody takes care of.
fn own_needs(agents: &[AgentView], inflight: &Inflight) -> Vec<NeedsMe> {
    let is_left = |agent: &&AgentView| {
        matches!(
            agent.truth,
            Truth::Orphaned | Truth::DiedUnnoticed | Truth::Forgotten | Truth::Unheard
        )
    };
    let agents = agents.iter().filter(is_left).map(|agent| NeedsMe {
        kind: "unsupervised".to_owned(),
        subject: format!("agent/{}", agent.name),
        text: format!("agent {}: {}", agent.name, agent.detail),
        hint: match agent.truth {
            Truth::Unheard => "relight up".to_owned(),
            _ => "relight up -d, or its relight run".to_owned(),
        },
        at: agent.since,
    });
    let lost = inflight.lost.iter().map(|lost| NeedsMe {
        kind: "lost".to_owned(),
        subject: format!("task/{}", lost.task),
        text: format!("task {}: {} is gone", lost.task, lost.holder),
        hint: "relight recover".to_owned(),
        at: lost.since,
    });
    agents.chain(lost).collect()
}

/// What the daemon of this home says of itself; none where none answers.
pub(super) fn daemon(context: &Context) -> Option<SupervisorStatus> {
    let socket = daemon_socket(&context.home);
    let answered = client::send(&socket, "GET", "/api/status", None, DAEMON_WAIT_MAX).ok()?;
    serde_json::from_value(answered.body).ok()
}
