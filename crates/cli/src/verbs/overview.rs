//! What an operator wants to know at a glance: agents, work in flight, what needs a person, the daemon.
//! `relight status` prints it, `relight ps --watch` shows it as it changes.

use std::path::Path;

use relight_core::agent::AgentStateKind;
use relight_core::lease::ProcessIdentity;
use relight_core::time::{Span, Time};
use relight_runtime::drain;
use relight_runtime::inflight::{self, Inflight, OpenTurn};
use relight_runtime::operations::Context;
use relight_runtime::operations::agent::{AgentView, Truth};
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::operations::needs::NeedsMe;
use relight_runtime::os::{clock, process};
use relight_runtime::project::Project;
use relight_runtime::supervise::control::daemon_socket;
use relight_runtime::supervise::daemon_client::{self, DaemonState};
use relight_store::{AgentQuery, Inventory};

use crate::environment::Environment;
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
    /// Adds what waits for a person, as the first of all.
    pub(super) fn need(&mut self, need: NeedsMe) {
        self.needs.insert(0, need);
        self.needs_total += 1;
    }

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

/// What only a look at the processes tells: agents, tasks and turns that nobody takes care of.
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
            _ => agent.supervise.clone(),
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
    let is_cut_off = |turn: &&OpenTurn| turn.lives == Some(false);
    let turns = inflight.sessions.iter().filter(is_cut_off);
    let turns = turns.map(|turn| NeedsMe {
        kind: "lost".to_owned(),
        subject: format!("session/{}", turn.session),
        text: format!(
            "session {}: {} is gone, and its turn {} was cut off",
            turn.session,
            turn.owner.as_deref().unwrap_or("its owner"),
            turn.generation
        ),
        hint: "relight session recover".to_owned(),
        at: turn.since,
    });
    agents.chain(lost).chain(turns).collect()
}

/// The daemon of a home, for a command that does not wait long for it.
pub(super) fn daemon(home: &Path) -> DaemonState {
    daemon_client::find(home, DAEMON_WAIT_MAX)
}

/// What starts the daemon that does not run here; without a `relight.toml` there is nothing to start yet.
pub(super) fn how_to_start(environment: &Environment) -> String {
    if environment.config_file(None).is_some() {
        return "relight up -d starts it".to_owned();
    }
    let projects = environment
        .usual_home()
        .and_then(|base| Ok(Project::all(&base)?));
    let runs = |project: &Project| !matches!(daemon(&project.home), DaemonState::NotRunning);
    let others = match projects.unwrap_or_default().iter().any(runs) {
        true => "; relight ps --all shows other projects, which run",
        false => "",
    };
    format!("relight init writes a relight.toml, then relight up -d starts it{others}")
}

/// What is said of a daemon that runs and does not answer, and what to type.
pub(super) fn silent(home: &Path, process: &ProcessIdentity) -> (String, String) {
    let pid = process.pid;
    let end =
        "relight down ends it and its agents, relight up -d --take-over replaces it and keeps them";
    let (why, hint) = if process::is_stopped(process) {
        let hint = format!("kill -CONT {pid} continues it; {end}");
        (": it is stopped (SIGSTOP)", hint)
    } else if !daemon_socket(home).exists() {
        (": its socket was removed", end.to_owned())
    } else {
        ("", format!("try again if it is just starting; {end}"))
    };
    let text = format!("the daemon runs (process {pid}) but does not answer{why}");
    (text, hint)
}
