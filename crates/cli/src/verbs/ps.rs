//! `relight ps`: agents as the store has them, with what it says of processes checked. A live
//! supervisor is asked for signs of life; without one nothing is missing but those.

use std::collections::HashMap;
use std::path::Path;

use relight_core::agent::{
    Agent, AgentState, AgentStateKind, Attempt, Cause, FOREGROUND, Pause, RecordedDeath,
    StopReason, Stopper,
};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_core::lease::{Holder, HolderLife};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_runtime::drain;
use relight_runtime::engine::Engine;
use relight_runtime::os::{clock, fleet, process};
use relight_runtime::supervise::control::{
    self, AgentSigns, ControlReply, Request, SupervisorStatus, daemon_socket, run_socket,
};
use relight_runtime::supervise::folder::AgentFolder;
use relight_server::client;
use relight_store::{AgentQuery, AttemptQuery, TaskQuery};
use serde_json::{Value, json};

use crate::arguments::agent::PsArguments;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::{block_on, output};

/// A supervisor that does not answer at once has its agents shown without signs of life.
const SIGNS_WAIT_MAX: Span = Span::from_ms(500);

pub(crate) fn run(environment: &Environment, arguments: &PsArguments) -> Outcome {
    let engine = environment.engine()?;
    let mut views = block_on(views(&engine, arguments))?;
    let drain = block_on(drain::now(engine.store().as_ref()))?;
    let home = environment.store_folder(&engine)?;
    add_signs(&home, &mut views);
    // Asked only where it matters: a daemon that hangs takes its time.
    if views.iter().any(View::is_left_alone) {
        let status = client::ask(&daemon_socket(&home), &Request::Status, SIGNS_WAIT_MAX);
        views.iter_mut().for_each(|view| view.is_daemon_up = status.is_ok());
    }
    let now = clock::now();
    if environment.json {
        let agents: Vec<Value> = views.iter().map(|view| view.to_json(now)).collect();
        let since = drain.map(|drain| drain.since);
        output::json(&json!({"items": agents, "next": null, "draining_since": since}));
    } else if !environment.quiet {
        print(environment, arguments, &views, now);
        if let Some(drain) = drain {
            output::line(&super::drain::line(drain.since));
        }
    }
    Ok(0)
}

pub(super) fn no_such_agent(name: &AgentName) -> Failure {
    Failure::of(ErrorCode::NOT_FOUND, format!("there is no agent {name}"))
        .hint(format!("relight ps lists all; relight run --name {name} -- CMD makes it"))
}

/// Who holds an agent.
pub(super) struct Supervisor {
    /// `run` or `up`; known once it answered.
    kind: Option<&'static str>,
    pub(super) pid: u32,
    pub(super) is_alive: bool,
    since: Time,
    /// The other node of a fleet that it is on.
    pub(super) elsewhere: Option<NodeName>,
}

/// The holder of its lease; none when it is free, or ended by a clock.
pub(super) fn supervisor_of(agent: &Agent) -> Option<Supervisor> {
    let held = agent.lease.held.as_ref()?;
    let pid = match &held.holder {
        Holder::Process(process) => process.pid,
        Holder::Attempt { shim, .. } => shim.pid,
        Holder::Time { .. } => return None,
    };
    let is_alive = process::holder_life(held) == HolderLife::Alive;
    let elsewhere = held.holder.node().filter(|node| fleet::node() != Some(node)).cloned();
    Some(Supervisor { kind: None, pid, is_alive, since: held.since, elsewhere })
}

/// What an agent really is, beside what its row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    /// As the row says.
    AsRecorded,
    /// It runs, and nobody would notice its death.
    Orphaned,
    /// It died, and nobody noticed.
    DiedUnnoticed,
    /// It waits for a time, and nobody would bring it back then.
    Forgotten,
    /// It reports by itself, and nobody listens.
    Unheard,
}

impl Truth {
    pub(super) fn of(
        agent: &Agent,
        attempt: Option<&Attempt>,
        supervisor: Option<&Supervisor>,
    ) -> Self {
        if supervisor.is_some_and(|supervisor| supervisor.is_alive) {
            return Self::AsRecorded;
        }
        if agent.plan.reports_itself() {
            let runs = matches!(agent.state, AgentState::Running { .. });
            return if runs { Self::Unheard } else { Self::AsRecorded };
        }
        let leader = attempt.and_then(|attempt| attempt.process.as_ref());
        match &agent.state {
            AgentState::Running { .. } if leader.is_some_and(process::is_alive) => Self::Orphaned,
            AgentState::Running { .. } => Self::DiedUnnoticed,
            AgentState::Crashed { again_at: Some(_) } | AgentState::Suspended { .. } => {
                Self::Forgotten
            }
            AgentState::Created
            | AgentState::Crashed { again_at: None }
            | AgentState::Stopped { .. }
            | AgentState::Terminated { .. } => Self::AsRecorded,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::AsRecorded => "as_recorded",
            Self::Orphaned => "orphaned",
            Self::DiedUnnoticed => "died_unnoticed",
            Self::Forgotten => "forgotten",
            Self::Unheard => "unheard",
        }
    }
}

/// All that is shown of one agent.
struct View {
    agent: Agent,
    /// Of a running agent.
    attempt: Option<Attempt>,
    last_death: Option<(u32, RecordedDeath)>,
    /// With the step it is at.
    task: Option<(Task, Option<String>)>,
    supervisor: Option<Supervisor>,
    truth: Truth,
    signs: Option<AgentSigns>,
    /// Whether the daemon of this home runs. It starts only agents that it supervises.
    is_daemon_up: bool,
}

async fn views(engine: &Engine, arguments: &PsArguments) -> Result<Vec<View>, Failure> {
    let store = engine.store();
    let agents = match &arguments.name {
        Some(name) => vec![store.agent(name).await?.ok_or_else(|| no_such_agent(name))?],
        None => {
            let states = arguments.states.clone();
            store.agents(AgentQuery { states, ..AgentQuery::default() }).await?
        }
    };
    let mut views = Vec::with_capacity(agents.len());
    for agent in agents {
        views.push(view(engine, agent).await?);
    }
    Ok(views)
}

async fn view(engine: &Engine, agent: Agent) -> Result<View, Failure> {
    let store = engine.store();
    let attempt = match &agent.state {
        AgentState::Running { attempt, .. } => store.attempt(attempt).await?,
        _ => None,
    };
    let newest =
        AttemptQuery { agent: Some(agent.name.clone()), ended: true, limit: 1, before: None };
    let last_death = store.attempts(newest).await?.pop();
    let last_death = last_death.and_then(|attempt| Some((attempt.number, attempt.ended?)));
    let task = task_of(engine, &agent).await?;
    let supervisor = supervisor_of(&agent);
    let truth = Truth::of(&agent, attempt.as_ref(), supervisor.as_ref());
    Ok(View {
        agent,
        attempt,
        last_death,
        task,
        supervisor,
        truth,
        signs: None,
        is_daemon_up: false,
    })
}

/// The task that its attempt holds, else the one that it was given.
async fn task_of(
    engine: &Engine,
    agent: &Agent,
) -> Result<Option<(Task, Option<String>)>, Failure> {
    let held = match &agent.state {
        AgentState::Running { attempt, .. } => {
            let held_by = Some(attempt.clone());
            let query = TaskQuery { held_by, limit: Some(1), ..TaskQuery::default() };
            engine.store().tasks(query).await?.pop()
        }
        _ => None,
    };
    let task = match (held, &agent.plan.task) {
        (Some(task), _) => task,
        (None, Some(id)) => match engine.store().task(id).await? {
            Some(task) => task,
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let step = engine.view(&task.id).await?.progress.next_step;
    Ok(Some((task, step)))
}

/// Each live supervisor is asked once.
fn add_signs(home: &Path, views: &mut [View]) {
    let mut answers: HashMap<u32, Option<Answer>> = HashMap::new();
    for View { agent, supervisor, signs, .. } in views {
        let is_near = |s: &&mut Supervisor| s.is_alive && s.elsewhere.is_none();
        let live = supervisor.as_mut().filter(is_near);
        let Some(supervisor) = live else { continue };
        let asked = || ask_for_signs(home, &agent.name, supervisor.pid);
        let Some(answer) = answers.entry(supervisor.pid).or_insert_with(asked) else { continue };
        supervisor.kind = Some(answer.kind);
        *signs = answer.signs.remove(&agent.name);
    }
}

/// Whether an agent waits for work in a verb and does nothing else, as its supervisor here says.
pub(super) fn waits_for_work(home: &Path, agent: &Agent) -> bool {
    let near = supervisor_of(agent).filter(|s| s.is_alive && s.elsewhere.is_none());
    let answer = near.and_then(|supervisor| ask_for_signs(home, &agent.name, supervisor.pid));
    let signs = answer.and_then(|mut answer| answer.signs.remove(&agent.name));
    signs.is_some_and(|signs| signs.waits_for_work)
}

/// What a supervisor answered.
struct Answer {
    kind: &'static str,
    signs: HashMap<AgentName, AgentSigns>,
}

/// Asks where a `relight run` of this agent would listen, then where the daemon does.
fn ask_for_signs(home: &Path, name: &AgentName, pid: u32) -> Option<Answer> {
    let own = run_socket(&AgentFolder::of(home, name));
    let asked = [
        ("run", control::ask(&own, &Request::Status, SIGNS_WAIT_MAX)),
        ("up", client::ask(&daemon_socket(home), &Request::Status, SIGNS_WAIT_MAX)),
    ];
    for (kind, reply) in asked {
        let Ok(ControlReply::Ok(value)) = reply else { continue };
        let Ok(status) = serde_json::from_value::<SupervisorStatus>(value) else { continue };
        if status.pid == pid {
            let signs = status.agents.into_iter().map(|signs| (signs.agent.clone(), signs));
            return Some(Answer { kind, signs: signs.collect() });
        }
    }
    None
}

impl View {
    fn state_text(&self, now: Time) -> String {
        match (&self.agent.state, self.truth) {
            (AgentState::Running { .. }, Truth::DiedUnnoticed) => {
                "died unnoticed; relight recover".to_owned()
            }
            (AgentState::Running { since, ending, .. }, _) => {
                let mut text = format!("running {}", now.since(*since));
                if let Some(ending) = ending {
                    text += ending_text(*ending);
                } else if let Some(until) = self.waiting_until().filter(|until| *until > now) {
                    text += &format!(" · waiting, {} more", until.since(now));
                }
                text += &self.forgotten_text();
                text
            }
            (AgentState::Crashed { again_at: Some(_) }, Truth::Forgotten) if self.is_let_go() => {
                format!("stopped with its supervisor after a crash{}", self.forgotten_text())
            }
            (AgentState::Crashed { again_at: Some(at) }, _) => {
                format!("crashed, again {}{}", in_or_now(*at, now), self.forgotten_text())
            }
            (AgentState::Crashed { again_at: None }, _) => match &self.task {
                Some((Task { id, status, .. }, _)) if *status == TaskStatus::Failed => {
                    format!("crashed: its task {id} failed; {}", self.command_to_start())
                }
                _ => "crashed".to_owned(),
            },
            (AgentState::Suspended { why, until }, _) => {
                let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
                let pause = match (why, self.truth) {
                    (Pause::Task, _) => self.task_pause_text(),
                    (Pause::HeldBack, Truth::AsRecorded) => {
                        format!("{}; {}", pause_text(*why), self.command_to_go_on())
                    }
                    _ => format!("{}{}", pause_text(*why), self.forgotten_text()),
                };
                format!("suspended{until}: {pause}")
            }
            (AgentState::Stopped { .. }, _) if self.agent.is_idle() => "idle".to_owned(),
            (AgentState::Stopped { by }, _) => stopped_text(*by).to_owned(),
            (AgentState::Terminated { why }, _) => {
                let (name, start) = (&self.agent.name, self.command_to_start());
                format!("terminated: {why}; relight deaths {name}, then {start}")
            }
            (AgentState::Created, _) => "created".to_owned(),
        }
    }

    fn forgotten_text(&self) -> String {
        match self.truth {
            Truth::Forgotten if self.is_let_go() => {
                format!("; to go on: {}", self.command_to_go_on())
            }
            Truth::Forgotten => format!("; nothing supervises it: {}", self.command_to_go_on()),
            Truth::Unheard => "; nobody listens to its reports: relight up".to_owned(),
            Truth::AsRecorded | Truth::Orphaned | Truth::DiedUnnoticed => String::new(),
        }
    }

    /// Of `relight.toml`, or of one that was there, and supervised by nobody.
    fn is_left_alone(&self) -> bool {
        let is_supervised = self.supervisor.as_ref().is_some_and(|supervisor| supervisor.is_alive);
        let plan = &self.agent.plan;
        !is_supervised && !plan.labels.contains_key(FOREGROUND) && !plan.reports_itself()
    }

    /// What to type to have it run again. Of an agent of `relight.toml` that nobody supervises, the daemon
    /// that runs here knows nothing: it was removed from there.
    fn command_to_start(&self) -> String {
        let (name, plan) = (&self.agent.name, &self.agent.plan);
        if !self.is_left_alone() {
            return self.agent.command_to_start(output::here().as_deref());
        }
        let words = plan.command.iter().map(|word| output::shell_word(word));
        let run = format!(
            "cd {} && relight run --name {} -- {}",
            output::shell_word(&plan.folder),
            output::shell_word(name.as_str()),
            words.collect::<Vec<_>>().join(" ")
        );
        if self.is_daemon_up { run } else { format!("relight up, or {run}") }
    }

    /// What to type. Where no supervisor is there, a command that asks one finds nobody.
    fn command_to_go_on(&self) -> String {
        let name = &self.agent.name;
        match self.truth {
            Truth::Forgotten => self.command_to_start(),
            Truth::AsRecorded | Truth::Orphaned | Truth::DiedUnnoticed | Truth::Unheard => {
                format!("relight start {name}")
            }
        }
    }

    /// What an agent waits for that waits with its task, and what to type.
    fn task_pause_text(&self) -> String {
        let go_on = self.command_to_go_on();
        match &self.task {
            Some((task, _)) if task.status.waits_for_person() => {
                let resume = task.command_to_resume();
                format!("its task {} is {}; {resume}, then {go_on}", task.id, task.status)
            }
            Some((Task { id, status, .. }, _)) => format!("its task {id} is {status} now; {go_on}"),
            None => format!("{}; {go_on}", pause_text(Pause::Task)),
        }
    }

    /// Its supervisor ended in order, and did not die.
    fn is_let_go(&self) -> bool {
        self.agent.lease.held.is_none()
    }

    fn waiting_until(&self) -> Option<Time> {
        self.signs.as_ref()?.waiting_until
    }

    /// Since when it is what it is.
    fn since(&self) -> Time {
        match &self.agent.state {
            AgentState::Running { since, .. } => *since,
            _ => self.agent.state_since.unwrap_or(self.agent.updated_at),
        }
    }

    /// Of a process that may still live.
    fn pid(&self) -> Option<u32> {
        if self.truth == Truth::DiedUnnoticed {
            return None;
        }
        Some(self.attempt.as_ref()?.process.as_ref()?.pid)
    }

    fn restarts_text(&self) -> String {
        let tally = &self.agent.tally;
        format!("{} / {}", tally.in_a_row, tally.total())
    }

    fn last_death_text(&self, now: Time) -> String {
        let Some((_, ended)) = &self.last_death else { return none() };
        let ago = now.since(ended.death.at);
        match ended.cause {
            // What else there is to say about these the cause does not say.
            Cause::Failed | Cause::Signal => {
                format!("{}: {}, {ago} ago", ended.cause, ended.in_words())
            }
            _ => format!("{}, {ago} ago", ended.cause),
        }
    }

    fn task_text(&self) -> String {
        let Some((task, step)) = &self.task else {
            return self.agent.plan.task.as_ref().map_or_else(none, ToString::to_string);
        };
        match step {
            Some(step) => format!("{} · {step}", task.id),
            None => format!("{} · {}", task.id, task.status),
        }
    }

    fn supervisor_text(&self) -> String {
        match (&self.supervisor, self.truth) {
            (_, Truth::Orphaned) => "none: orphaned".to_owned(),
            (Some(Supervisor { kind, pid, is_alive: true, .. }), _) => {
                format!("{} {pid}", kind.unwrap_or("pid"))
            }
            (_, Truth::DiedUnnoticed | Truth::Forgotten | Truth::Unheard) => "none".to_owned(),
            (_, Truth::AsRecorded) => none(),
        }
    }

    fn row(&self, now: Time) -> Vec<String> {
        vec![
            self.agent.name.to_string(),
            self.state_text(now),
            self.agent.attempt_number.to_string(),
            self.pid().map_or_else(none, |pid| pid.to_string()),
            to_second(self.since()),
            self.restarts_text(),
            self.last_death_text(now),
            self.task_text(),
            self.supervisor_text(),
        ]
    }

    /// The node of a fleet that has it, or had it last.
    fn node(&self) -> Option<&NodeName> {
        let holder = self.agent.lease.held.as_ref().and_then(|held| held.holder.node());
        let process = self.attempt.as_ref().and_then(|attempt| attempt.process.as_ref());
        holder.or_else(|| process.and_then(|process| process.node.as_ref()))
    }

    /// One agent, a line a fact.
    fn facts(&self, now: Time) -> Vec<Vec<String>> {
        let plan = &self.agent.plan;
        let signs = self.signs.as_ref();
        let facts = [
            ("agent", Some(self.agent.name.to_string())),
            ("state", Some(self.state_text(now))),
            ("since", Some(to_second(self.since()))),
            ("attempt", Some(self.agent.attempt_number.to_string())),
            ("pid", self.pid().map(|pid| pid.to_string())),
            ("restarts", Some(format!("{} (in a row / in all)", self.restarts_text()))),
            ("last death", self.last_death.as_ref().map(|_| self.last_death_text(now))),
            ("last sign", signs.and_then(|s| s.last_sign_at).map(|at| ago(at, now))),
            ("says", signs.and_then(|signs| signs.status.clone())),
            (
                "task",
                plan.task
                    .as_ref()
                    .or(self.task.as_ref().map(|(task, _)| &task.id))
                    .map(|_| self.task_text()),
            ),
            ("supervisor", Some(self.supervisor_text())),
            ("node", self.node().map(ToString::to_string)),
            ("session", self.agent.session.clone()),
            ("round", plan.is_loop().then(|| self.agent.iteration.to_string())),
            ("preset", Some(plan.preset.clone())),
            ("command", Some(plan.command.join(" "))),
            ("folder", Some(plan.folder.clone())),
        ];
        let present = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        present.map(|(name, value)| vec![name.to_owned(), value]).collect()
    }

    fn to_json(&self, now: Time) -> Value {
        let Self { agent, attempt, signs, .. } = self;
        let last_death = self.last_death.as_ref().map(|(number, ended)| {
            json!({
                "attempt": number, "at": ended.death.at, "cause": ended.cause,
                "how": ended.in_words(), "note": ended.death.note,
            })
        });
        json!({
            "name": agent.name,
            "state": agent.state.kind(),
            "detail": self.state_text(now),
            "truth": self.truth.as_str(),
            "since": self.since(),
            "again_at": until(&agent.state),
            "attempt": agent.attempt_number,
            "tag": attempt.as_ref().map(|attempt| &attempt.tag),
            "pid": self.pid(),
            "recoveries_in_a_row": agent.tally.in_a_row,
            "restarts_total": agent.tally.total(),
            "last_death": last_death,
            "last_sign_at": signs.as_ref().and_then(|signs| signs.last_sign_at),
            "waiting_until": self.waiting_until(),
            "status_text": signs.as_ref().and_then(|signs| signs.status.as_ref()),
            "task": self.task.as_ref().map(|(task, step)| json!({
                "id": task.id, "status": task.status, "step": step,
            })),
            "supervisor": self.supervisor.as_ref().map(|supervisor| json!({
                "kind": supervisor.kind, "pid": supervisor.pid,
                "alive": supervisor.is_alive, "since": supervisor.since,
            })),
            "node": self.node(),
            "session": agent.session,
            "iteration": agent.iteration,
            "takes": agent.plan.takes,
            "skills": agent.plan.skills,
            "pool": agent.plan.pool,
            "preset": agent.plan.preset,
            "command": agent.plan.command,
            "folder": agent.plan.folder,
            "created_at": agent.created_at,
            "updated_at": agent.updated_at,
        })
    }

    /// The colour of its state's first word.
    fn colour(&self) -> Option<&'static str> {
        match (self.agent.state.kind(), self.truth) {
            (_, Truth::DiedUnnoticed) | (AgentStateKind::Terminated, _) => Some(RED),
            (_, Truth::Orphaned | Truth::Forgotten | Truth::Unheard)
            | (AgentStateKind::Crashed | AgentStateKind::Suspended, _) => Some(YELLOW),
            (AgentStateKind::Running, Truth::AsRecorded) => Some(GREEN),
            (AgentStateKind::Created | AgentStateKind::Stopped, Truth::AsRecorded) => None,
        }
    }
}

const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const GREEN: &str = "\u{1b}[32m";
const PLAIN: &str = "\u{1b}[0m";

const HEADER: [&str; 9] =
    ["agent", "state", "attempt", "pid", "since", "restarts", "last death", "task", "supervisor"];

fn print(environment: &Environment, arguments: &PsArguments, views: &[View], now: Time) {
    if views.is_empty() {
        let text = if arguments.states.is_empty() {
            "no agents; relight run -- CMD makes the first"
        } else {
            "no agent is in such a state; relight ps shows all"
        };
        output::line(text);
        return;
    }
    if let (Some(_), [view]) = (&arguments.name, views) {
        output::line(&output::facts(&view.facts(now)));
        return;
    }
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    rows.extend(views.iter().map(|view| view.row(now)));
    if views.iter().any(|view| view.node().is_some()) {
        let nodes = views.iter().map(|view| view.node().map_or_else(none, ToString::to_string));
        let column = std::iter::once("node".to_owned()).chain(nodes);
        rows.iter_mut().zip(column).for_each(|(row, node)| row.push(node));
    }
    let text = output::table(&rows);
    output::line(&if output::has_colours(environment) { paint(&text, views, now) } else { text });
}

/// Colours each state where it stands, after the name; the table laid it out without colours.
fn paint(table: &str, views: &[View], now: Time) -> String {
    let mut lines = table.lines();
    let mut painted = vec![lines.next().unwrap_or_default().to_owned()];
    for (line, view) in lines.zip(views) {
        let (name, rest) = line.split_at(view.agent.name.as_str().len());
        let state = output::one_line(&view.state_text(now));
        painted.push(match view.colour() {
            Some(colour) => {
                name.to_owned() + &rest.replacen(&state, &format!("{colour}{state}{PLAIN}"), 1)
            }
            None => line.to_owned(),
        });
    }
    painted.join("\n")
}

fn ending_text(ending: StopReason) -> &'static str {
    match ending {
        StopReason::Stop => " · being stopped",
        StopReason::Shutdown => " · ending with its supervisor",
        StopReason::Restart => " · being restarted",
        StopReason::Hung => " · hung, being stopped",
        StopReason::Timeout => " · out of time, being stopped",
    }
}

fn pause_text(why: Pause) -> &'static str {
    match why {
        Pause::Deferred => "it said later",
        Pause::HeldBack => "nothing is resumed by itself now",
        Pause::Asking => "a round is over",
        Pause::Resting => "it succeeded, and rests",
        Pause::Task => "its task waits for a person",
        Pause::Draining => "nothing is begun while draining",
        Pause::Turn => "it waits for its turn",
    }
}

fn stopped_text(by: Stopper) -> &'static str {
    match by {
        Stopper::Person => "stopped by a person",
        Stopper::Shutdown => "stopped with its supervisor",
        Stopper::Itself => "stopped: finished",
    }
}

fn in_or_now(at: Time, now: Time) -> String {
    if at > now { format!("in {}", at.since(now)) } else { "now".to_owned() }
}

fn until(state: &AgentState) -> Option<Time> {
    match state {
        AgentState::Crashed { again_at } => *again_at,
        AgentState::Suspended { until, .. } => *until,
        AgentState::Created
        | AgentState::Running { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => None,
    }
}

fn ago(at: Time, now: Time) -> String {
    format!("{} ago", now.since(at))
}

/// Milliseconds help nobody in a table.
pub(super) fn to_second(at: Time) -> String {
    Time::from_ms(at.as_ms().div_euclid(1_000) * 1_000).to_string()
}

fn none() -> String {
    "–".to_owned()
}
