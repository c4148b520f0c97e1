//! Agents: named workers with a policy, their attempts, and decisions about them.
//!
//! Pure. `decide` is the table of state and event; `change` describes what a decision changes.
//! Processes and records are handled elsewhere.

pub mod active_state;
pub mod attempt;
pub mod boots;
pub mod brief;
pub mod change;
pub mod death;
pub mod decide;
pub mod overspent;
pub mod plain;
pub mod remote_command;
mod reports;
pub mod silence;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::claimant::Claimant;
use crate::ids::{AgentName, TaskId};
use crate::lease::Lease;
use crate::restart_budget::{RestartPolicy, Tally, is_due};
use crate::shell::shell_word;
use crate::store_budget::Overspent;
use crate::time::{Span, Time};
use crate::usage::{AgentUsage, SpendLimit};

pub use attempt::{Attempt, AttemptTag};
pub use death::{Cause, Death, PostMortem, RecordedDeath};
pub use remote_command::RemoteCommand;

/// An agent's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// Its state.
    #[serde(flatten)]
    pub state: AgentState,
    /// Its supervisor's lease.
    pub lease: Lease,
    /// Incremented by every commit.
    pub seq: u64,
    /// Number of the newest attempt that was begun; 0 before the first.
    pub attempt_number: u32,
    /// The tag of the next attempt, allocated ahead so that a restart does not wait for the disk.
    pub next_attempt: Option<AttemptTag>,
    /// Usage of its budgets.
    pub tally: Tally,
    /// The agent's own session id, if a preset captured one.
    pub session: Option<String>,
    /// Rounds that `run --loop` has finished.
    pub iteration: u32,
    /// When its state last changed; unknown for agents of earlier versions.
    #[serde(default)]
    pub state_since: Option<Time>,
    /// What its attempts have used.
    #[serde(default, skip_serializing_if = "AgentUsage::is_unused")]
    pub usage: AgentUsage,
    /// Its current plan.
    pub plan: AgentPlan,
    /// A command from another node to the holder of its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<RemoteCommand>,
    /// When it was first seen.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

/// State of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// Never started.
    Created,
    /// An attempt runs or is about to start.
    Running {
        /// The attempt.
        attempt: AttemptTag,
        /// Since when.
        since: Time,
        /// Set when it is being stopped; recorded before the signal.
        ending: Option<StopReason>,
    },
    /// Its attempt died.
    Crashed {
        /// When it is restarted; not automatically when none.
        again_at: Option<Time>,
    },
    /// Paused by a person or a limit.
    Suspended {
        /// The reason.
        why: Pause,
        /// When it resumes automatically.
        until: Option<Time>,
    },
    /// It ended and is not restarted automatically, except after a shutdown.
    Stopped {
        /// Who stopped it.
        by: Stopper,
    },
    /// The restart budget is exhausted; only a person restarts it.
    Terminated {
        /// The limit that was reached, as text.
        why: String,
    },
}

/// The states without their data, for filters, counts and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStateKind {
    /// Never started.
    Created,
    /// An attempt runs.
    Running,
    /// Its attempt died.
    Crashed,
    /// Paused.
    Suspended,
    /// Ended.
    Stopped,
    /// The restart budget is exhausted.
    Terminated,
}

impl AgentStateKind {
    /// All states, by number.
    pub const ALL: [Self; 6] = [
        Self::Created,
        Self::Running,
        Self::Crashed,
        Self::Suspended,
        Self::Stopped,
        Self::Terminated,
    ];

    /// Its name in JSON, SQL and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Crashed => "crashed",
            Self::Suspended => "suspended",
            Self::Stopped => "stopped",
            Self::Terminated => "terminated",
        }
    }
}

impl fmt::Display for AgentStateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a state of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a state of an agent; known are {words}", words = AgentStateKind::ALL.map(AgentStateKind::as_str).join(", "))]
pub struct UnknownAgentState(String);

impl FromStr for AgentStateKind {
    type Err = UnknownAgentState;
    fn from_str(text: &str) -> Result<Self, UnknownAgentState> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownAgentState(text.to_owned()))
    }
}

impl AgentState {
    /// When it goes on by itself; none when it does not, or when it runs.
    pub fn again_at(&self) -> Option<Time> {
        match self {
            Self::Crashed { again_at } => *again_at,
            Self::Suspended { until, .. } => *until,
            Self::Created
            | Self::Running { .. }
            | Self::Stopped { .. }
            | Self::Terminated { .. } => None,
        }
    }

    /// The state without its data.
    pub fn kind(&self) -> AgentStateKind {
        match self {
            Self::Created => AgentStateKind::Created,
            Self::Running { .. } => AgentStateKind::Running,
            Self::Crashed { .. } => AgentStateKind::Crashed,
            Self::Suspended { .. } => AgentStateKind::Suspended,
            Self::Stopped { .. } => AgentStateKind::Stopped,
            Self::Terminated { .. } => AgentStateKind::Terminated,
        }
    }
}

impl Agent {
    /// The limit of its own that it has reached without progress, as text.
    pub fn spent(&self) -> Option<String> {
        self.plan.spend.reached(self.usage.since_progress())
    }

    /// Whether the spent budget of the store stops it. One that a person started since may continue until the
    /// limit is reached again; one that reports itself is not under a supervisor's control.
    pub fn is_stopped_by(&self, overspent: &Overspent) -> bool {
        let is_allowed = self
            .usage
            .allowed_at
            .is_some_and(|at| at >= overspent.since);
        !is_allowed && !self.plan.reports_itself()
    }

    /// Whether it waits for a task of the queue.
    pub fn is_idle(&self) -> bool {
        self.plan.takes == Takes::Start
            && self.state
                == AgentState::Stopped {
                    by: Stopper::Itself,
                }
    }

    /// Why an agent that reports by itself is given no work now; none when it may work. The supervisor of
    /// all others sees to it that they do not run.
    pub fn refuses_work(&self, now: Time) -> Option<String> {
        match &self.state {
            _ if !self.plan.reports_itself() => None,
            AgentState::Stopped {
                by: Stopper::Person,
            } => Some("a person stopped it".to_owned()),
            AgentState::Terminated { why } => Some(format!("it is terminated: {why}")),
            AgentState::Crashed { again_at: Some(at) } if !is_due(&self.plan.policy, *at, now) => {
                Some(format!(
                    "it was silent too often, and may work again at {at}"
                ))
            }
            _ => None,
        }
    }

    /// The command to run it again, for the folder `here` if known. An agent of `relight run` has
    /// no supervisor left to ask, so the whole command is given.
    pub fn command_to_start(&self, here: Option<&str>) -> String {
        let name = shell_word(self.name.as_str());
        if !self.plan.labels.contains_key(FOREGROUND) {
            return format!("relight start {name}");
        }
        let mut words = vec!["relight".to_owned()];
        let folder = match &self.plan.typed {
            Some(Typed { folder, flags }) => {
                words.extend(flags.iter().map(|word| shell_word(word)));
                folder
            }
            // Written by an earlier version, which stored less.
            None => {
                words.push(format!("run --name {name}"));
                if self.plan.preset != AgentPlan::default().preset {
                    words.push(format!("--preset {}", shell_word(&self.plan.preset)));
                }
                let task = self.plan.task.iter();
                words.extend(task.map(|task| format!("--task {}", shell_word(task.as_str()))));
                &self.plan.folder
            }
        };
        words.push("--".to_owned());
        words.extend(self.plan.command.iter().map(|word| shell_word(word)));
        let command = words.join(" ");
        match folder.is_empty() || here == Some(folder) {
            true => command,
            false => format!("cd {} && {command}", shell_word(folder)),
        }
    }

    /// Whether this attempt has ended, and with it everything it held. An attempt starts only when
    /// the one before is dead, but it may run before that death is recorded. Then `asker`, the
    /// attempt that asks, has the tag that was allocated for it.
    pub fn has_ended(&self, attempt: &AttemptTag, asker: Option<&AttemptTag>) -> bool {
        let is_asked_by_next = asker.is_some() && self.next_attempt.as_ref() == asker;
        if is_asked_by_next && asker != Some(attempt) {
            return true;
        }
        let runs = matches!(&self.state, AgentState::Running { attempt: current, .. } if current == attempt);
        // A starting attempt may hold its task before its own record is written.
        let is_newer = attempt
            .number()
            .is_some_and(|number| number > self.attempt_number);
        !runs && !is_newer
    }
}

/// Why a live attempt is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person stopped it.
    Stop,
    /// Its supervisor shuts down.
    Shutdown,
    /// A person restarted it.
    Restart,
    /// All its declared sources of signs of life were silent for too long.
    Hung,
    /// The attempt exceeded its time limit.
    Timeout,
    /// It cannot succeed before a person acts: it has spent its limit without progress, or it only
    /// repeats a request that its provider refuses.
    Incurable,
    /// The budget of the store is spent.
    Budget,
}

/// Who stopped an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopper {
    /// A person; no recovery, reboot or reload brings it back.
    Person,
    /// Its supervisor ended; the next one starts it again.
    Shutdown,
    /// It finished by itself.
    Itself,
}

/// What paused an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// It asked to be resumed later (exit 75, or a limit detected by its preset).
    Deferred,
    /// Nothing is resumed before a person allows it: the machine is in a boot loop, or the
    /// supervisor was started so.
    HeldBack,
    /// A round of its loop ended, and the loop's condition is being checked.
    Asking,
    /// It succeeded and is always restarted: the next attempt waits for the cooldown.
    Resting,
    /// Its task is blocked, in review or suspended, so there is nothing for the agent to do.
    Task,
    /// A drain is in effect.
    Draining,
    /// It waits for its turn: recovery is rate-limited.
    Turn,
    /// It failed with an error that no retry can cure: a wrong key, an unknown model or option, an
    /// exhausted budget of its provider or of its own. A person starts it again.
    Incurable,
    /// The budget of the store is spent.
    Budget,
}

/// When an agent is restarted after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartRule {
    /// After a failure.
    #[default]
    OnFailure,
    /// After any end.
    Always,
    /// Never.
    Never,
}

/// How an agent gets tasks of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// It runs all the time and claims tasks itself.
    #[default]
    Claim,
    /// It is started for each task and is idle in between.
    Start,
}

/// The plan of an agent: everything that decisions and successors need. Contains no secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// Program and arguments, redacted, for display.
    pub command: Vec<String>,
    /// The folder it runs in.
    pub folder: String,
    /// The preset's name.
    pub preset: String,
    /// The task it works on, if named or assigned by the queue.
    pub task: Option<TaskId>,
    /// When it is started again.
    pub restart: RestartRule,
    /// Its budgets.
    #[serde(flatten)]
    pub policy: RestartPolicy,
    /// What it may use without progress.
    #[serde(flatten)]
    pub spend: SpendLimit,
    /// How long all sources may be silent; unlimited when none.
    #[serde(rename = "silence_max_ms")]
    pub silence_max: Option<Span>,
    /// How long an open step or tool call without a time limit of its own excuses silence, counted
    /// from its last CPU or I/O use; as long as it is open when none.
    #[serde(rename = "step_silence_max_ms", default = "step_silence_max_default")]
    pub step_silence_max: Option<Span>,
    /// How long one attempt may take.
    #[serde(rename = "timeout_ms")]
    pub timeout: Option<Span>,
    /// How long it has to end after the first signal.
    #[serde(rename = "grace_ms")]
    pub grace: Span,
    /// Default wait when it asks to be resumed later.
    #[serde(rename = "defer_ms")]
    pub defer: Span,
    /// Whether exit 0 finishes the task it holds.
    pub exit_completes: bool,
    /// Maximum number of rounds of `run --loop`; 0 when it is not a loop.
    pub iterations_max: Option<u32>,
    /// How it gets tasks of the queue.
    #[serde(default)]
    pub takes: Takes,
    /// Its skills, matched with those that tasks require.
    #[serde(default)]
    pub skills: Vec<String>,
    /// The name of its pool.
    #[serde(default)]
    pub pool: Option<AgentName>,
    /// Maximum number of tasks held at a time; unlimited when none.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The `relight run` command line that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<Typed>,
}

/// A `relight run` command line, redacted, so that it can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typed {
    /// The working folder, to which relative paths refer.
    pub folder: String,
    /// The arguments between `relight` and the `--` before the agent's command.
    pub flags: Vec<String>,
}

/// Default for plans of earlier versions.
fn step_silence_max_default() -> Option<Span> {
    Some(STEP_SILENCE_MAX)
}

/// Default limit of open steps and tool calls.
pub const STEP_SILENCE_MAX: Span = Span::from_secs(3_600);

impl Default for AgentPlan {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            folder: String::new(),
            preset: "generic".to_owned(),
            task: None,
            restart: RestartRule::OnFailure,
            policy: RestartPolicy::default(),
            spend: SpendLimit::default(),
            silence_max: Some(Span::from_secs(180)),
            step_silence_max: step_silence_max_default(),
            timeout: None,
            grace: Span::from_secs(10),
            defer: Span::from_secs(60),
            exit_completes: false,
            iterations_max: None,
            takes: Takes::Claim,
            skills: Vec::new(),
            pool: None,
            concurrency: None,
            labels: BTreeMap::new(),
            typed: None,
        }
    }
}

/// Label of agents that are not supervised and report their own heartbeats.
pub const SELF_REPORTING: &str = "self_reporting";
/// Label of agents registered with a command over HTTP; their configuration is in the store.
pub const REGISTERED: &str = "registered";
/// Label of agents of `relight run`, whose supervisor ends with them.
pub const FOREGROUND: &str = "foreground";

impl AgentPlan {
    /// Whether it reports its own heartbeats: an attempt begins with a report and ends with
    /// silence.
    pub fn reports_itself(&self) -> bool {
        self.labels.contains_key(SELF_REPORTING)
    }

    /// Whether it was registered over HTTP, with a command.
    pub fn is_registered(&self) -> bool {
        self.labels.contains_key(REGISTERED)
    }

    /// The agent as a claimant for tasks.
    pub fn claimant(&self, agent: &AgentName) -> Claimant {
        let (pool, skills) = (self.pool.clone(), self.skills.clone());
        Claimant {
            agent: agent.clone(),
            pool,
            skills,
        }
    }

    /// Whether it runs in rounds.
    pub fn is_loop(&self) -> bool {
        self.iterations_max.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::change::AgentChange;
    use super::*;

    fn tag(number: u32) -> AttemptTag {
        AttemptTag::from_text(format!("a.{number}.x"))
    }

    /// At its second attempt, with the tag of the third allocated.
    fn agent(state: AgentState) -> Agent {
        let name = AgentName::new("a").expect("a good name");
        let first = AgentChange::first(&name, &AgentPlan::default(), Time::from_ms(0));
        Agent {
            state,
            attempt_number: 2,
            next_attempt: Some(tag(3)),
            ..first
        }
    }

    #[test]
    fn an_attempt_is_over_when_another_runs_or_is_about_to_ask() {
        let since = Time::from_ms(0);
        let runs = agent(AgentState::Running {
            attempt: tag(2),
            since,
            ending: None,
        });
        let over = |agent: &Agent, asker: Option<AttemptTag>| {
            [1, 2, 3].map(|n| agent.has_ended(&tag(n), asker.as_ref()))
        };
        assert_eq!(over(&runs, None), [true, false, false]);
        assert_eq!(over(&runs, Some(tag(2))), [true, false, false]);
        assert_eq!(
            over(&runs, Some(tag(3))),
            [true, true, false],
            "the death is not recorded yet"
        );
        // One of another store, or of long ago, has no say.
        assert_eq!(
            over(&runs, Some(AttemptTag::from_text("a.9.y"))),
            [true, false, false]
        );
        let died = agent(AgentState::Crashed { again_at: None });
        assert_eq!(over(&died, None), [true, true, false]);
    }
}
