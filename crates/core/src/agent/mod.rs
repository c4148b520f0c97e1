//! Agents: named workers with a policy, their attempts and deaths, and what becomes of them.
//!
//! Pure. `decide` is the table of state and event; `change` says what a decision changes. Leaves to
//! others: starting and stopping processes, noticing deaths, keeping records.

pub mod active_state;
pub mod attempt;
pub mod boots;
pub mod brief;
pub mod change;
pub mod death;
pub mod decide;
pub mod plain;
pub mod remote_command;
mod reports;
pub mod silence;
pub mod step_deaths;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::{RestartPolicy, Tally};
use crate::claimant::Claimant;
use crate::ids::{AgentName, TaskId};
use crate::lease::Lease;
use crate::shell::shell_word;
use crate::time::{Span, Time};

pub use attempt::{Attempt, AttemptTag};
pub use death::{Cause, Death, PostMortem, RecordedDeath};
pub use remote_command::RemoteCommand;

/// An agent as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// What it is doing.
    #[serde(flatten)]
    pub state: AgentState,
    /// Its supervisor's right.
    pub lease: Lease,
    /// Grows with every commit.
    pub seq: u64,
    /// Number of the newest attempt that was begun; 0 before the first.
    pub attempt_number: u32,
    /// The tag that the next attempt will have, allocated ahead so that a restart need not wait for
    /// the disk.
    pub next_attempt: Option<AttemptTag>,
    /// What was used up of its budgets.
    pub tally: Tally,
    /// The id of the agent's own session, where a preset captured one.
    pub session: Option<String>,
    /// Rounds that `run --loop` has finished.
    pub iteration: u32,
    /// What it was last asked to be.
    pub plan: AgentPlan,
    /// What another node wants of whoever holds its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<RemoteCommand>,
    /// When it was first seen.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// Known, and never started.
    Created,
    /// An attempt of it lives, or is about to.
    Running {
        /// Which one.
        attempt: AttemptTag,
        /// Since when.
        since: Time,
        /// It was told to end, by whom or why; recorded before the signal.
        ending: Option<StopReason>,
    },
    /// Its attempt died.
    Crashed {
        /// When it is brought back; never by itself when none.
        again_at: Option<Time>,
    },
    /// A person or a limit paused it.
    Suspended {
        /// What did.
        why: Pause,
        /// When it goes on by itself.
        until: Option<Time>,
    },
    /// It ended, and nothing brings it back but whoever may.
    Stopped {
        /// Who stopped it.
        by: Stopper,
    },
    /// Recovery is used up; only a person restarts it.
    Terminated {
        /// Which limit was reached, in words.
        why: String,
    },
}

/// The states without their data, for filters, counts and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStateKind {
    /// Known, and never started.
    Created,
    /// An attempt lives.
    Running,
    /// Its attempt died.
    Crashed,
    /// Paused.
    Suspended,
    /// Ended.
    Stopped,
    /// Recovery is used up.
    Terminated,
}

impl AgentStateKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Created,
        Self::Running,
        Self::Crashed,
        Self::Suspended,
        Self::Stopped,
        Self::Terminated,
    ];

    /// The word used everywhere.
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

impl AgentState {
    /// Which of the six.
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
    /// Whether it waits for a task of the queue to be started with.
    pub fn is_idle(&self) -> bool {
        self.plan.takes == Takes::Start && self.state == AgentState::Stopped { by: Stopper::Itself }
    }

    /// What to type to have it run again, in the folder `here` where that is known. Nobody is left to ask
    /// where it had a `relight run` of its own.
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
            // Of an earlier version, which kept less.
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

    /// Whether this attempt of it is over, and with it everything that it held. An attempt is started
    /// only when the one before is dead, and may be faster than the record of that death: `asker`, the
    /// attempt that asks, then has the tag that was allocated for it.
    pub fn has_ended(&self, attempt: &AttemptTag, asker: Option<&AttemptTag>) -> bool {
        let is_asked_by_next = asker.is_some() && self.next_attempt.as_ref() == asker;
        if is_asked_by_next && asker != Some(attempt) {
            return true;
        }
        let runs = matches!(&self.state, AgentState::Running { attempt: current, .. } if current == attempt);
        // One that is being started may hold its task before its own record is written.
        let is_newer = attempt.number().is_some_and(|number| number > self.attempt_number);
        !runs && !is_newer
    }
}

/// Why a live attempt is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person does not want it any more.
    Stop,
    /// Its supervisor ends, and the agent with it.
    Shutdown,
    /// A person wants a new attempt.
    Restart,
    /// All its declared sources were silent for too long.
    Hung,
    /// The attempt took too long.
    Timeout,
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
    /// It said "later" (exit 75, or a limit that its preset read).
    Deferred,
    /// Nothing is resumed before a person says so: the machine went down again and again soon after,
    /// or the supervisor was started so.
    HeldBack,
    /// A round of its loop is over, and whether it was the last is being asked.
    Asking,
    /// It succeeded, and always runs: the next attempt waits for the cooldown.
    Resting,
    /// Its task is blocked, in review or suspended: working on it is not the agent's turn.
    Task,
    /// Nothing is begun while a drain lasts.
    Draining,
    /// It goes on when it is its turn: what comes back is paced.
    Turn,
}

/// When an agent that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartRule {
    /// When it did not succeed.
    #[default]
    OnFailure,
    /// Whatever it ended with.
    Always,
    /// Never.
    Never,
}

/// How an agent comes by tasks of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// It runs by itself, and claims what it wants.
    #[default]
    Claim,
    /// It is started with each task, and is idle in between.
    Start,
}

/// What an agent was asked to be: all that decisions and successors need, and no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// Program and arguments, redacted, for people to read.
    pub command: Vec<String>,
    /// The folder it runs in.
    pub folder: String,
    /// The preset's name.
    pub preset: String,
    /// The task it works on, when one was named, or given to it by the queue.
    pub task: Option<TaskId>,
    /// When it is started again.
    pub restart: RestartRule,
    /// Its budgets.
    #[serde(flatten)]
    pub policy: RestartPolicy,
    /// How long all sources may be silent; never judged when none.
    #[serde(rename = "silence_max_ms")]
    pub silence_max: Option<Span>,
    /// How long an open step or tool call without a time limit of its own explains silence, counted from
    /// its last use of CPU or I/O; for as long as it is open when none.
    #[serde(rename = "step_silence_max_ms", default = "step_silence_max_default")]
    pub step_silence_max: Option<Span>,
    /// How long one attempt may take.
    #[serde(rename = "timeout_ms")]
    pub timeout: Option<Span>,
    /// How long it has to end after the first signal.
    #[serde(rename = "grace_ms")]
    pub grace: Span,
    /// How long "later" is.
    #[serde(rename = "defer_ms")]
    pub defer: Span,
    /// Whether exit 0 finishes the task it holds.
    pub exit_completes: bool,
    /// Rounds of `run --loop`: at most so many; 0 when it is no loop.
    pub iterations_max: Option<u32>,
    /// How it comes by tasks of the queue.
    #[serde(default)]
    pub takes: Takes,
    /// What it can do, for tasks that ask for it.
    #[serde(default)]
    pub skills: Vec<String>,
    /// The name that it shares with others who do the same work.
    #[serde(default)]
    pub pool: Option<AgentName>,
    /// Most tasks that it holds at a time; any number when none.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// What else a reader wants to know, by name.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How its `relight run` was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<Typed>,
}

/// A `relight run` as somebody typed it, redacted, so that it can be typed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typed {
    /// Where: what is relative in it is relative to that.
    pub folder: String,
    /// The words between `relight` and the `--` before the agent's command.
    pub flags: Vec<String>,
}

/// Plans of earlier versions have none.
fn step_silence_max_default() -> Option<Span> {
    Some(STEP_SILENCE_MAX)
}

/// The limit of open steps and tool calls when nobody says.
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

/// The label of agents that nobody supervises and that say themselves that they live.
pub const SELF_REPORTING: &str = "self_reporting";
/// The label of agents with a command that were registered over HTTP: the store is their configuration.
pub const REGISTERED: &str = "registered";
/// The label of agents of `relight run`: their supervisor ends with them.
pub const FOREGROUND: &str = "foreground";

impl AgentPlan {
    /// Whether it reports by itself: a life of it begins with a report and ends with silence.
    pub fn reports_itself(&self) -> bool {
        self.labels.contains_key(SELF_REPORTING)
    }

    /// Whether it was registered over HTTP, with a command.
    pub fn is_registered(&self) -> bool {
        self.labels.contains_key(REGISTERED)
    }

    /// The agent as one who wants work.
    pub fn claimant(&self, agent: &AgentName) -> Claimant {
        let (pool, skills) = (self.pool.clone(), self.skills.clone());
        Claimant { agent: agent.clone(), pool, skills }
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
        Agent { state, attempt_number: 2, next_attempt: Some(tag(3)), ..first }
    }

    #[test]
    fn an_attempt_is_over_when_another_runs_or_is_about_to_ask() {
        let since = Time::from_ms(0);
        let runs = agent(AgentState::Running { attempt: tag(2), since, ending: None });
        let over = |agent: &Agent, asker: Option<AttemptTag>| {
            [1, 2, 3].map(|n| agent.has_ended(&tag(n), asker.as_ref()))
        };
        assert_eq!(over(&runs, None), [true, false, false]);
        assert_eq!(over(&runs, Some(tag(2))), [true, false, false]);
        assert_eq!(over(&runs, Some(tag(3))), [true, true, false], "the death is not recorded yet");
        // One of another store, or of long ago, has no say.
        assert_eq!(over(&runs, Some(AttemptTag::from_text("a.9.y"))), [true, false, false]);
        let died = agent(AgentState::Crashed { again_at: None });
        assert_eq!(over(&died, None), [true, true, false]);
    }
}
