//! Agents that somebody should look at: a finding a kind, with what to type for the first of it.

use relight_core::agent::{Agent, AgentState, Attempt, FOREGROUND, Pause};
use relight_runtime::holders::Holders;
use relight_runtime::operations::agent::{SupervisorView, Truth, start_with_daemon};
use relight_runtime::os::process;
use relight_store::{AgentQuery, Store, StoreError};

use super::finding::DoctorFinding;
use crate::output;

const NAMED_MAX: usize = 5;

/// What an agent may need a person for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentNeed {
    /// Recovery is used up.
    Terminated,
    /// It died, and nobody noticed.
    DiedUnnoticed,
    /// It lives without a supervisor.
    Orphaned,
    /// It waits for a time, and nobody would bring it back then.
    Forgotten,
    /// It reports by itself, and nobody listens.
    Unheard,
    /// One that reports by itself does not any more.
    Silent,
    /// It is not resumed before a person says so.
    HeldBack,
}

impl AgentNeed {
    const ALL: [Self; 7] = [
        Self::Terminated,
        Self::DiedUnnoticed,
        Self::Orphaned,
        Self::Forgotten,
        Self::Unheard,
        Self::Silent,
        Self::HeldBack,
    ];

    fn of(agent: &Agent, attempt: Option<&Attempt>, holders: &Holders) -> Option<Self> {
        let supervisor = SupervisorView::of(agent, holders);
        match (Truth::of(agent, attempt, supervisor.as_ref()), &agent.state) {
            (_, AgentState::Terminated { .. }) => Some(Self::Terminated),
            (Truth::DiedUnnoticed, _) => Some(Self::DiedUnnoticed),
            (Truth::Orphaned, _) => Some(Self::Orphaned),
            (Truth::Forgotten, _) => Some(Self::Forgotten),
            (Truth::Unheard, _) => Some(Self::Unheard),
            (Truth::AsRecorded, AgentState::Crashed { .. }) if agent.plan.reports_itself() => {
                Some(Self::Silent)
            }
            (
                Truth::AsRecorded,
                AgentState::Suspended {
                    why: Pause::HeldBack,
                    ..
                },
            ) => Some(Self::HeldBack),
            (Truth::AsRecorded | Truth::NotRecorded, _) => None,
        }
    }

    fn finding(self, agents: &[&Agent], holders: &Holders) -> Option<DoctorFinding> {
        let agent = agents.first()?;
        let supervisor = SupervisorView::of(agent, holders);
        let is_supervised = supervisor.is_some_and(|supervisor| supervisor.alive);
        let is_foreground = agent.plan.labels.contains_key(FOREGROUND);
        let start = match is_supervised || is_foreground {
            true => agent.command_to_start(output::here().as_deref()),
            false => start_with_daemon(agent),
        };
        let first = &agent.name;
        let named = agents
            .iter()
            .take(NAMED_MAX)
            .map(|agent| agent.name.as_str());
        let mut named: Vec<&str> = named.collect();
        if agents.len() > NAMED_MAX {
            named.push("…");
        }
        let (named, count) = (named.join(", "), agents.len());
        let (what, hint) = match self {
            Self::Terminated => (
                "terminated: recovery is used up",
                format!("relight deaths {first}, then {start}"),
            ),
            Self::DiedUnnoticed => ("died unnoticed", "relight recover".to_owned()),
            Self::Orphaned => (
                "orphaned: alive without a supervisor",
                format!(
                    "its relight up or relight run adopts it (relight start {first} says which)"
                ),
            ),
            Self::Forgotten => (
                "waiting to be restarted, but nothing supervises it",
                format!("relight up, or relight run --name {first} -- CMD"),
            ),
            Self::Unheard => (
                "reporting by itself, and nobody listens",
                "relight up".to_owned(),
            ),
            Self::Silent => (
                "silent: they reported by themselves",
                format!("start it where it runs; relight deaths {first}"),
            ),
            Self::HeldBack => ("held back", start),
        };
        Some(DoctorFinding::warning("agents", format!("{count} {what} ({named})")).hint(hint))
    }
}

/// Nothing where no agent needs anybody.
pub(super) async fn look(
    store: &dyn Store,
    holders: &Holders,
) -> Result<Vec<DoctorFinding>, StoreError> {
    let mut needy: Vec<(AgentNeed, Agent)> = Vec::new();
    let mut findings = Vec::new();
    let agents = store.agents(AgentQuery::default()).await?;
    holders
        .look_for(agents.iter().filter_map(|agent| agent.lease.held.as_ref()))
        .await?;
    for agent in agents {
        let attempt = match &agent.state {
            AgentState::Running { attempt, .. } => store.attempt(attempt).await?,
            _ => None,
        };
        let need = AgentNeed::of(&agent, attempt.as_ref(), holders);
        let shim = attempt.as_ref().and_then(|attempt| attempt.shim.as_ref());
        if let Some(shim) = shim.filter(|shim| process::is_stopped(shim)) {
            let text = format!(
                "the shim of {} (pid {}) is stopped (SIGSTOP)",
                agent.name, shim.pid
            );
            let hint = format!("kill -CONT {}, or relight stop {}", shim.pid, agent.name);
            findings.push(DoctorFinding::warning("agents", text).hint(hint));
        }
        needy.extend(need.map(|need| (need, agent)));
    }
    let agents = |wanted: AgentNeed| -> Vec<&Agent> {
        needy
            .iter()
            .filter(|(need, _)| *need == wanted)
            .map(|(_, agent)| agent)
            .collect()
    };
    let found = AgentNeed::ALL.into_iter();
    findings.extend(found.filter_map(|need| need.finding(&agents(need), holders)));
    Ok(findings)
}
