//! Agents: what is shown of them, the same for every front, and what is true of them beside their record.

#![expect(missing_docs, reason = "the fields are those of the documented JSON")]

use std::collections::HashMap;

use relight_core::agent::change::AgentChange;
use relight_core::agent::{
    self, AgentState, AgentStateKind, Attempt, FOREGROUND, Pause, StopReason, Stopper, Takes,
};
use relight_core::decide::Guard;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName, TaskId};
use relight_core::lease::Holder;
use relight_core::progress;
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_core::task::{Cost, Task};
use relight_core::time::Time;
use relight_store::{AgentCommit, AgentQuery, AttemptQuery, Rows, StoreError, TaskQuery};
use serde::Serialize;

use super::Context;
use super::death::LastDeath;
use super::live_signs::{Live, LiveSigns};
use super::view::{List, cut, told};
use crate::boxed::boxed;
use crate::engine::ActError;
use crate::holders::Holders;
use crate::os::{clock, fleet, process};
use crate::supervise::folder::AgentFolder;

/// Above this many agents, tasks in progress are read once for all of them.
const FEW: usize = 8;

/// An agent and what it is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Agent))]
pub struct AgentView {
    pub name: String,
    /// `created`, `running`, `crashed`, `suspended`, `stopped` or `terminated`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: AgentStateKind,
    /// Why it is in this state, where there is more to say.
    pub why: Option<String>,
    /// The state in words, with what to type next.
    pub detail: String,
    /// Whether the record is true: `as_recorded`, `orphaned` (it runs without a supervisor),
    /// `died_unnoticed`, `not_recorded` (its supervisor has not recorded its end yet), `forgotten` (nothing
    /// would resume it) or `unheard` (no daemon receives its reports).
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub truth: Truth,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub since: Time,
    /// When it continues automatically.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub again_at: Option<Time>,
    /// Number of the newest attempt; 0 before the first.
    pub attempt: u32,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub attempt_begun_at: Option<Time>,
    /// Identifies the processes of the live attempt.
    pub tag: Option<String>,
    pub pid: Option<u32>,
    /// `starting`, `working` or `waiting`, while an attempt is alive.
    pub phase: Option<String>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub last_sign_at: Option<Time>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub waiting_until: Option<Time>,
    /// The agent's own description of its work.
    pub status_text: Option<String>,
    /// The task that its attempt holds, else the one that it was given.
    pub task: Option<String>,
    pub task_status: Option<String>,
    /// The step that it is at, else the next one of its task.
    pub step: Option<String>,
    /// The agent's own session, if a preset knows it.
    pub session: Option<String>,
    /// The round of a loop; 0 if it has none.
    pub iteration: u32,
    pub recoveries_in_a_row: u32,
    pub max_attempts: u32,
    /// Restarts that still count towards the limit.
    pub restarts_total: u32,
    /// What all its attempts have cost, as their output reports; `0` if it does not.
    pub cost: String,
    /// Model turns of all its attempts, as their output reports.
    pub turns: u64,
    /// Tokens sent to the model by all its attempts, cached ones included, as their output reports.
    pub input_tokens: u64,
    /// Tokens that the model wrote for all its attempts, as their output reports.
    pub output_tokens: u64,
    pub command: Vec<String>,
    pub folder: String,
    pub preset: String,
    /// `claim` or `start`.
    pub takes: &'static str,
    pub skills: Vec<String>,
    pub pool: Option<String>,
    /// Who has it; null if it is free.
    pub supervisor: Option<SupervisorView>,
    /// What to type to have it supervised again.
    #[serde(skip)]
    pub supervise: String,
    /// It reports itself.
    pub self_reporting: bool,
    /// It is started with each task of the queue, and is waiting for the next one.
    pub idle: bool,
    /// The node of a fleet that has it, or had it last.
    pub node: Option<String>,
    pub last_death: Option<LastDeath>,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub created_at: Time,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub updated_at: Time,
}

/// The supervisor of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Supervisor))]
pub struct SupervisorView {
    /// `run` or `up`; null if it does not answer.
    pub kind: Option<&'static str>,
    pub pid: u32,
    pub alive: bool,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub since: Time,
    /// The other node of a fleet that it is on.
    #[serde(skip)]
    pub elsewhere: Option<NodeName>,
}

impl SupervisorView {
    /// The holder of its lease; none when it is free, or ended by a clock.
    pub fn of(agent: &agent::Agent, holders: &Holders) -> Option<Self> {
        let held = agent.lease.held.as_ref()?;
        let pid = match &held.holder {
            Holder::Process(process) => process.pid,
            Holder::Attempt { shim, .. } => shim.pid,
            Holder::Time { .. } => return None,
        };
        let alive = holders.is_alive(held);
        let elsewhere = held
            .holder
            .node()
            .filter(|node| fleet::node() != Some(node))
            .cloned();
        Some(Self {
            kind: None,
            pid,
            alive,
            since: held.since,
            elsewhere,
        })
    }

    /// It lives and is on this machine.
    pub fn is_near(&self) -> bool {
        self.alive && self.elsewhere.is_none()
    }
}

/// What to type for an agent of `relight.toml` while no daemon runs. One that came to rest is not
/// started by the daemon's start.
pub fn start_with_daemon(agent: &agent::Agent) -> String {
    match &agent.state {
        AgentState::Stopped {
            by: Stopper::Person,
        }
        | AgentState::Terminated { .. }
        | AgentState::Crashed { again_at: None } => {
            format!(
                "relight up, then relight start {}",
                shell_word(agent.name.as_str())
            )
        }
        _ => "relight up".to_owned(),
    }
}

/// What an agent really is, beside what its record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// As the record says.
    AsRecorded,
    /// It runs, and nobody would notice its death.
    Orphaned,
    /// It died, and nobody noticed.
    DiedUnnoticed,
    /// It died, and its supervisor has not recorded it yet.
    NotRecorded,
    /// It waits for a time, and nobody would bring it back then.
    Forgotten,
    /// It reports by itself, and nobody listens.
    Unheard,
}

impl Truth {
    /// By its record, its attempt and its supervisor.
    pub fn of(
        agent: &agent::Agent,
        attempt: Option<&Attempt>,
        supervisor: Option<&SupervisorView>,
    ) -> Self {
        let leader = attempt.and_then(|attempt| attempt.process.as_ref());
        if let Some(supervisor) = supervisor.filter(|supervisor| supervisor.alive) {
            let has_ended = leader.is_some_and(|leader| !process::is_alive(leader));
            return match supervisor.elsewhere {
                None if has_ended => Self::NotRecorded,
                _ => Self::AsRecorded,
            };
        }
        if agent.plan.reports_itself() {
            let runs = matches!(agent.state, AgentState::Running { .. });
            return if runs {
                Self::Unheard
            } else {
                Self::AsRecorded
            };
        }
        match &agent.state {
            AgentState::Running { .. } if leader.is_some_and(process::is_alive) => Self::Orphaned,
            AgentState::Running { .. } => Self::DiedUnnoticed,
            // Nobody has to watch what only a person starts.
            AgentState::Suspended {
                why: Pause::Incurable,
                ..
            } => Self::AsRecorded,
            AgentState::Crashed { again_at: Some(_) } | AgentState::Suspended { .. } => {
                Self::Forgotten
            }
            AgentState::Created
            | AgentState::Crashed { again_at: None }
            | AgentState::Stopped { .. }
            | AgentState::Terminated { .. } => Self::AsRecorded,
        }
    }
}

impl Context {
    /// The record of an agent.
    #[boxed]
    pub async fn agent(&self, name: &AgentName) -> Result<agent::Agent, ActError> {
        let found = self.engine.store().agent(name).await?;
        found.ok_or_else(|| ActError::NoSuchAgent(name.clone()))
    }

    /// Removes an agent that nobody supervises and that does not run, with its folder.
    #[boxed]
    pub async fn forget_agent(&self, name: &AgentName) -> Result<(), ActError> {
        let busy = |message: String, hint: String| ActError::Invalid {
            code: ErrorCode::FULL,
            message,
            hint: Some(hint),
        };
        let (mut agent, word) = (self.agent(name).await?, shell_word(name.as_str()));
        let (store, holders) = (self.engine.store(), self.engine.holders());
        holders.look_for(&agent.lease.held).await?;
        let supervisor = SupervisorView::of(&agent, holders).filter(|supervisor| supervisor.alive);
        match supervisor {
            Some(SupervisorView {
                elsewhere: Some(node),
                ..
            }) => {
                return Err(busy(
                    format!("agent {name} is supervised on node {node}"),
                    "remove it on that node, or relight stop it there first".to_owned(),
                ));
            }
            Some(_) => {
                let hint = match agent.plan.labels.contains_key(FOREGROUND) {
                    true => format!("relight stop {word} ends it"),
                    false => "take it out of relight.toml, then relight reload".to_owned(),
                };
                return Err(busy(format!("agent {name} is supervised"), hint));
            }
            None => {}
        }
        if agent.state.kind() == AgentStateKind::Running && !agent.plan.reports_itself() {
            let text = format!("agent {name} runs, or its end was not recorded");
            return Err(busy(text, format!("relight stop {word} first")));
        }
        let at = clock::now();
        if agent.lease.held.is_some() {
            // Its supervisor died.
            let guard = Guard {
                fence: None,
                seq: Some(agent.seq),
            };
            let commit = AgentCommit {
                agent: name.clone(),
                guard,
                at,
                changes: vec![AgentChange::LeaseEnded],
            };
            // One that was changed meanwhile is refused below.
            if let Ok(committed) = store.commit_agent(commit).await {
                agent.seq = committed.seq;
            }
        }
        if !store.forget_agent(name, agent.seq, at).await? {
            let text = format!("agent {name} is being changed by others");
            return Err(busy(text, "try again".to_owned()));
        }
        let folder = AgentFolder::of(&self.home, name);
        match std::fs::remove_dir_all(folder.path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ActError::Invalid {
                code: ErrorCode::IO,
                message: format!(
                    "agent {name} is removed, but not its folder {}: {error}",
                    folder.path().display()
                ),
                hint: None,
            }),
            _ => Ok(()),
        }
    }

    /// One agent; texts for people are for the folder `here`.
    #[boxed]
    pub async fn show_agent(
        &self,
        name: &AgentName,
        signs: &mut LiveSigns,
        here: Option<&str>,
    ) -> Result<AgentView, ActError> {
        let agent = self.agent(name).await?;
        let mut shown = self.show_agents(vec![agent], signs, here).await?;
        shown
            .pop()
            .ok_or_else(|| ActError::NoSuchAgent(name.clone()))
    }

    /// A page of agents in the order of their names.
    #[boxed]
    pub async fn list_agents(
        &self,
        query: AgentQuery,
        signs: &mut LiveSigns,
        here: Option<&str>,
    ) -> Result<List<AgentView>, ActError> {
        let limit = query.limit.unwrap_or(usize::MAX);
        let query = AgentQuery {
            limit: query.limit.map(|limit| limit + 1),
            ..query
        };
        let mut agents = self.engine.store().agents(query.clone()).await?;
        let unreadable = self.engine.store().unreadable(Rows::Agents(query)).await?;
        let next = cut(&mut agents, &unreadable, limit, |agent| {
            agent.name.to_string()
        });
        Ok(List {
            items: self.show_agents(agents, signs, here).await?,
            next,
            unreadable: told(&unreadable),
        })
    }

    async fn show_agents(
        &self,
        agents: Vec<agent::Agent>,
        signs: &mut LiveSigns,
        here: Option<&str>,
    ) -> Result<Vec<AgentView>, StoreError> {
        let leases = agents.iter().filter_map(|agent| agent.lease.held.as_ref());
        self.engine.holders().look_for(leases).await?;
        let mut held = match agents.len() > FEW {
            true => Some(self.held_tasks().await?),
            false => None,
        };
        let mut known = Vec::with_capacity(agents.len());
        for agent in agents {
            let supervisor = SupervisorView::of(&agent, self.engine.holders());
            let live = match supervisor
                .as_ref()
                .filter(|supervisor| supervisor.is_near())
            {
                Some(supervisor) => signs.of(&self.home, &agent.name, supervisor.pid).await,
                None => Live::default(),
            };
            known.push(self.known(agent, supervisor, live, held.as_mut()).await?);
        }
        // Asked only where it matters: a daemon that hangs takes its time.
        let is_daemon_up =
            known.iter().any(Known::is_left_alone) && signs.is_daemon_up(&self.home).await;
        let now = clock::now();
        Ok(known
            .into_iter()
            .map(|known| known.shown(is_daemon_up, now, here))
            .collect())
    }

    async fn known(
        &self,
        agent: agent::Agent,
        mut supervisor: Option<SupervisorView>,
        live: Live,
        held: Option<&mut HashMap<String, Task>>,
    ) -> Result<Known, StoreError> {
        let store = self.engine.store();
        let attempt = match &agent.state {
            AgentState::Running { attempt, .. } => store.attempt(attempt).await?,
            _ => None,
        };
        // A reporter's view in the daemon has no attempts: they are only in the store.
        let known_last = live
            .last_attempt
            .clone()
            .filter(|_| !agent.plan.reports_itself());
        let last = match known_last {
            Some(last) => last,
            None if agent.attempt_number > 0 => {
                let name = Some(agent.name.clone());
                let query = AttemptQuery {
                    agent: name,
                    ended: true,
                    limit: 1,
                    before: None,
                };
                store.attempts(query).await?.pop()
            }
            None => None,
        };
        let task = match self.held_task(&agent, held).await? {
            None => match &agent.plan.task {
                Some(id) => store.task(id).await?,
                None => None,
            },
            held => held,
        };
        let step = match &task {
            Some(task) => {
                let steps = store.steps(&task.id).await?;
                let running = task.lease.held.as_ref().and_then(|_| {
                    let own = steps.iter().filter(|step| step.call.is_none());
                    let running =
                        own.filter(|step| step.is_open() && step.is_of_lease(&task.lease));
                    running.max_by_key(|step| step.at)
                });
                match running {
                    Some(step) => Some(step.key.to_string()),
                    None => progress::progress(&task.spec.steps, &steps).next_step,
                }
            }
            None => None,
        };
        supervisor
            .iter_mut()
            .for_each(|supervisor| supervisor.kind = live.kind);
        let truth = Truth::of(&agent, attempt.as_ref(), supervisor.as_ref());
        let last_death = last.as_ref().and_then(LastDeath::of);
        Ok(Known {
            agent,
            attempt,
            last_death,
            task,
            step,
            supervisor,
            truth,
            live,
        })
    }

    /// Tasks that attempts hold, by the attempt; those of agents that report by themselves by their name.
    async fn held_tasks(&self) -> Result<HashMap<String, Task>, StoreError> {
        let statuses = vec![TaskStatus::InProgress];
        let query = TaskQuery {
            statuses,
            ..TaskQuery::default()
        };
        let tasks = self.engine.store().tasks(query).await?;
        let by_attempt = |task: Task| match &task.lease.held.as_ref()?.holder {
            Holder::Attempt { attempt, .. } => Some((attempt.clone(), task)),
            Holder::Time { .. } | Holder::Process(_) => Some((by_name(task.agent.as_ref()?), task)),
        };
        Ok(tasks.into_iter().filter_map(by_attempt).collect())
    }

    async fn held_task(
        &self,
        agent: &agent::Agent,
        held: Option<&mut HashMap<String, Task>>,
    ) -> Result<Option<Task>, StoreError> {
        let AgentState::Running { attempt, .. } = &agent.state else {
            return Ok(None);
        };
        let reports_itself = agent.plan.reports_itself();
        if let Some(held) = held {
            return Ok(match reports_itself {
                true => held.remove(&by_name(&agent.name)),
                false => held.remove(attempt.as_str()),
            });
        }
        let query = match reports_itself {
            true => TaskQuery {
                agent: Some(agent.name.clone()),
                held: true,
                ..TaskQuery::default()
            },
            false => TaskQuery {
                held_by: Some(attempt.clone()),
                ..TaskQuery::default()
            },
        };
        let query = TaskQuery {
            limit: Some(1),
            ..query
        };
        Ok(self.engine.store().tasks(query).await?.pop())
    }
}

/// A key that no attempt has.
fn by_name(agent: &AgentName) -> String {
    format!("agent {agent}")
}

/// All that is known of one agent.
struct Known {
    agent: agent::Agent,
    /// Of a running agent.
    attempt: Option<Attempt>,
    last_death: Option<LastDeath>,
    task: Option<Task>,
    step: Option<String>,
    supervisor: Option<SupervisorView>,
    truth: Truth,
    live: Live,
}

impl Known {
    fn shown(self, is_daemon_up: bool, now: Time, here: Option<&str>) -> AgentView {
        let detail = self.detail(is_daemon_up, now, here);
        let (why, supervise) = (why(&self.agent), self.command_to_adopt(here));
        let Self {
            agent,
            attempt,
            last_death,
            task,
            step,
            supervisor,
            truth,
            live,
        } = self;
        let process = attempt
            .as_ref()
            .and_then(|attempt| attempt.process.as_ref());
        let holder = agent
            .lease
            .held
            .as_ref()
            .and_then(|held| held.holder.node());
        let node = holder
            .or_else(|| process?.node.as_ref())
            .map(ToString::to_string);
        let idle = agent.is_idle();
        // The number of a process that has ended may be another's.
        let has_ended = matches!(truth, Truth::DiedUnnoticed | Truth::NotRecorded);
        let pid = process.filter(|_| !has_ended).map(|process| process.pid);
        let task_status = task.as_ref().map(|task| task.status.to_string());
        let task = task
            .map(|task| task.id.into())
            .or(agent.plan.task.map(TaskId::into));
        AgentView {
            state: agent.state.kind(),
            why,
            detail,
            truth,
            since: match &agent.state {
                AgentState::Running { since, .. } => *since,
                _ => agent.state_since.unwrap_or(agent.updated_at),
            },
            again_at: agent.state.again_at(),
            attempt: agent.attempt_number,
            attempt_begun_at: attempt.as_ref().map(|attempt| attempt.begun_at),
            pid,
            tag: attempt.map(|attempt| attempt.tag.to_string()),
            phase: live.signs.as_ref().and_then(|signs| signs.phase.clone()),
            last_sign_at: live.signs.as_ref().and_then(|signs| signs.last_sign_at),
            waiting_until: live.signs.as_ref().and_then(|signs| signs.waiting_until),
            status_text: live.signs.and_then(|signs| signs.status),
            task,
            task_status,
            step,
            session: agent.session,
            iteration: agent.iteration,
            recoveries_in_a_row: agent.tally.in_a_row,
            max_attempts: agent.plan.policy.max_attempts,
            restarts_total: agent.tally.total(),
            cost: Cost(agent.usage.meter.used.cost_micros).to_string(),
            turns: agent.usage.meter.used.turns,
            input_tokens: agent.usage.meter.used.input_tokens,
            output_tokens: agent.usage.meter.used.output_tokens,
            self_reporting: agent.plan.labels.contains_key(agent::SELF_REPORTING),
            idle,
            command: agent.plan.command,
            folder: agent.plan.folder,
            preset: agent.plan.preset,
            takes: match agent.plan.takes {
                Takes::Claim => "claim",
                Takes::Start => "start",
            },
            supervise,
            skills: agent.plan.skills,
            pool: agent.plan.pool.map(String::from),
            supervisor,
            node,
            last_death,
            created_at: agent.created_at,
            updated_at: agent.updated_at,
            name: agent.name.into(),
        }
    }

    /// The state in words, with what to type next.
    fn detail(&self, is_daemon_up: bool, now: Time, here: Option<&str>) -> String {
        let why = why(&self.agent).unwrap_or_default();
        let last = self.last_death.as_ref();
        let not_started = last.filter(|death| death.not_started);
        let not_started = not_started.and_then(|death| death.note.clone());
        let not_started = not_started.map(|note| format!(": {note}"));
        let start = || self.command_to_start(is_daemon_up, here);
        match (&self.agent.state, self.truth) {
            (AgentState::Running { .. }, Truth::DiedUnnoticed) => {
                format!("died unnoticed; to continue: {}", start())
            }
            (AgentState::Running { .. }, Truth::NotRecorded) => {
                "ended; its supervisor has not recorded it yet".to_owned()
            }
            (AgentState::Running { since, ending, .. }, truth) => {
                let mut text = format!("running {}", now.since(*since));
                let waits = self
                    .live
                    .signs
                    .as_ref()
                    .and_then(|signs| signs.waiting_until);
                if ending.is_some() {
                    text += &format!(" · {why}");
                } else if let Some(until) = waits.filter(|until| *until > now) {
                    text += &format!(" · waiting, {} more", until.since(now));
                }
                match truth {
                    Truth::Unheard => text += "; nobody listens to its reports: relight up",
                    Truth::Orphaned => {
                        let adopt = self.command_to_adopt(here);
                        text += &format!("; alive without a supervisor; to adopt it: {adopt}");
                    }
                    _ => {}
                }
                text
            }
            (AgentState::Crashed { again_at: Some(_) }, Truth::Forgotten) if self.is_let_go() => {
                format!(
                    "stopped with its supervisor after a crash; to continue: {}",
                    start()
                )
            }
            (AgentState::Crashed { again_at: Some(at) }, truth) => {
                let when = match *at > now {
                    true => format!("in {}", at.since(now)),
                    false => "now".to_owned(),
                };
                match (truth, not_started) {
                    (Truth::AsRecorded, Some(note)) => {
                        format!(
                            "crashed, again {when}{note}; correct that, then {}",
                            start()
                        )
                    }
                    _ => format!("crashed, again {when}{}", self.forgotten(truth, &start)),
                }
            }
            (AgentState::Crashed { again_at: None }, _) => match &self.task {
                Some(Task {
                    id,
                    status: TaskStatus::Failed,
                    ..
                }) => {
                    format!("crashed: its task {id} failed; {}", start())
                }
                _ => match not_started {
                    Some(note) => format!("crashed{note}; correct that, then {}", start()),
                    None => "crashed".to_owned(),
                },
            },
            (AgentState::Suspended { why: pause, until }, truth) => {
                let until = until
                    .map(|until| format!(" until {until}"))
                    .unwrap_or_default();
                let go_on = || match truth {
                    Truth::Forgotten => start(),
                    _ => format!("relight start {}", self.agent.name),
                };
                let note = self.last_death.as_ref();
                let note = note.and_then(|death| death.note.clone());
                let pause = match (pause, truth) {
                    (Pause::Task, _) => self.task_pause(&why, &go_on()),
                    (Pause::Incurable, _) => {
                        let note = note.or_else(|| self.agent.spent());
                        let note = note.map(|note| format!(": {note}")).unwrap_or_default();
                        format!("{why}{note}; fix it, then {}", start())
                    }
                    (Pause::HeldBack | Pause::Budget, Truth::AsRecorded) => {
                        format!("{why}; {}", go_on())
                    }
                    (Pause::Deferred, _) => {
                        let why = note.unwrap_or(why);
                        format!("{why}{}", self.forgotten(truth, &start))
                    }
                    _ => format!("{why}{}", self.forgotten(truth, &start)),
                };
                format!("suspended{until}: {pause}")
            }
            (AgentState::Stopped { .. }, _) if self.agent.is_idle() => "idle".to_owned(),
            (
                AgentState::Stopped {
                    by: Stopper::Itself,
                },
                _,
            ) => format!("stopped: {why}"),
            (AgentState::Stopped { .. }, _) => why,
            (AgentState::Terminated { .. }, _) => {
                format!(
                    "terminated: {why}{}; relight deaths {}, then {}",
                    not_started.unwrap_or_default(),
                    self.agent.name,
                    start()
                )
            }
            (AgentState::Created, _) => "created".to_owned(),
        }
    }

    fn forgotten(&self, truth: Truth, start: &impl Fn() -> String) -> String {
        match truth {
            Truth::Forgotten if self.is_let_go() => format!("; to continue: {}", start()),
            Truth::Forgotten => format!("; nothing supervises it: {}", start()),
            _ => String::new(),
        }
    }

    /// What an agent waits for that waits with its task, and what to type.
    fn task_pause(&self, why: &str, go_on: &str) -> String {
        match &self.task {
            Some(task) if task.status.waits_for_person() => {
                let resume = task.command_to_resume();
                format!(
                    "its task {} is {}; {resume}, then {go_on}",
                    task.id, task.status
                )
            }
            Some(Task { id, status, .. }) => format!("its task {id} is {status} now; {go_on}"),
            None => format!("{why}; {go_on}"),
        }
    }

    /// Of `relight.toml`, or of one that was there, and supervised by nobody.
    fn is_left_alone(&self) -> bool {
        let is_supervised = self
            .supervisor
            .as_ref()
            .is_some_and(|supervisor| supervisor.alive);
        let plan = &self.agent.plan;
        !is_supervised && !plan.labels.contains_key(FOREGROUND) && !plan.reports_itself()
    }

    /// What to type to have it run again. Of an agent of `relight.toml` that nobody supervises, the daemon
    /// that runs here knows nothing: it was removed from there.
    fn command_to_start(&self, is_daemon_up: bool, here: Option<&str>) -> String {
        let (name, plan) = (&self.agent.name, &self.agent.plan);
        if !self.is_left_alone() {
            return self.agent.command_to_start(here);
        }
        let words = plan.command.iter().map(|word| shell_word(word));
        let run = format!(
            "cd {} && relight run --name {} -- {}",
            shell_word(&plan.folder),
            shell_word(name.as_str()),
            words.collect::<Vec<_>>().join(" ")
        );
        if is_daemon_up {
            run
        } else {
            format!("{}, or {run}", start_with_daemon(&self.agent))
        }
    }

    /// What to type to have it supervised again while it lives.
    fn command_to_adopt(&self, here: Option<&str>) -> String {
        match self.agent.plan.labels.contains_key(FOREGROUND) {
            true => self.agent.command_to_start(here),
            false => "relight up -d".to_owned(),
        }
    }

    /// Its supervisor ended in order, and did not die.
    fn is_let_go(&self) -> bool {
        self.agent.lease.held.is_none()
    }
}

/// Why it is in its state; none where the state says it all.
fn why(agent: &agent::Agent) -> Option<String> {
    let text = match &agent.state {
        AgentState::Crashed { .. } if agent.plan.reports_itself() => "it does not report any more",
        AgentState::Created | AgentState::Crashed { .. } => return None,
        AgentState::Running { ending, .. } => match (*ending)? {
            StopReason::Stop => "being stopped",
            StopReason::Shutdown => "ending with its supervisor",
            StopReason::Restart => "being restarted",
            StopReason::Hung => "hung, being stopped",
            StopReason::Timeout => "out of time, being stopped",
            StopReason::Incurable => "it cannot succeed, being stopped",
            StopReason::Budget => "the budget of the store is spent, being stopped",
        },
        AgentState::Suspended { why, .. } => match why {
            Pause::Deferred => "it said later",
            Pause::HeldBack => "it waits until a person starts it",
            Pause::Asking => "a round is over",
            Pause::Resting => "it succeeded, and rests",
            Pause::Task => "its task waits for a person",
            Pause::Draining => "no new work is started while draining",
            Pause::Turn => "it waits for its turn",
            Pause::Incurable => "it cannot continue by itself",
            Pause::Budget => "the budget of the store is spent",
        },
        AgentState::Stopped { by } => match by {
            Stopper::Person => "stopped by a person",
            Stopper::Shutdown => "stopped with its supervisor",
            Stopper::Itself => "finished",
        },
        AgentState::Terminated { why } => why,
    };
    Some(text.to_owned())
}
