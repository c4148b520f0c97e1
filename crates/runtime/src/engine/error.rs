//! Why something was not done to a task.

use relight_core::decide::Refusal;
use relight_core::error_code::{ErrorCode, Refused, model_hint};
use relight_core::ids::{AgentName, IdError, TaskId};
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_store::{CommitError, StoreError};

use super::workflow_error::WorkflowError;
use crate::redact_input::{self, without_secrets};

/// What to do about work that is refused while draining.
pub const DRAIN_HINT: &str = "later; relight drain --cancel allows new work again";

/// Why something was not done. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ActError {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such task.
    #[error("there is no task {0}")]
    NoSuchTask(TaskId),
    /// There is no such agent.
    #[error("there is no agent {0}")]
    NoSuchAgent(AgentName),
    /// The task is there and is not the one that was asked for.
    #[error("task {task} exists with another {}", .differs.join(", "))]
    Exists {
        /// Which task.
        task: TaskId,
        /// What differs.
        differs: Vec<&'static str>,
    },
    /// The task that was to be added is there and has ended.
    #[error("task {task} is {status}; nothing was added")]
    Ended {
        /// Which task.
        task: TaskId,
        /// How.
        status: TaskStatus,
    },
    /// A name that must not be written.
    #[error(transparent)]
    SecretName(#[from] redact_input::SecretName),
    /// A name that cannot be.
    #[error(transparent)]
    BadName(#[from] IdError),
    /// Others were faster every time.
    #[error("task {0} is being changed by others all the time")]
    Contended(TaskId),
    /// A drain lasts, and this would have begun new work. A task that was to be started is in the store
    /// all the same, and waits there.
    #[error("no new work is started while draining; task {task} {}", was_left(*.status))]
    Draining {
        /// Which task.
        task: TaskId,
        /// Its status now; none when it was not added.
        status: Option<TaskStatus>,
    },
    /// An agent that reports by itself is stopped, terminated, or has to wait.
    #[error("agent {agent} may not work now: {why}")]
    MayNotWork {
        /// Which agent.
        agent: AgentName,
        /// Why.
        why: String,
    },
    /// A drain lasts, and no task is given out.
    #[error("no new work is started while draining")]
    NothingBegun,
    /// The agent works on its maximum number of tasks.
    #[error("{agent} holds {held} {} already, which is the maximum", if *.held == 1 { "task" } else { "tasks" })]
    Full {
        /// Which.
        agent: AgentName,
        /// How many.
        held: u32,
    },
    /// A request that cannot be.
    #[error("{message}")]
    Invalid {
        /// What it is for programs.
        code: ErrorCode,
        /// What is wrong with it.
        message: String,
        /// What to do about it, for people and models.
        hint: Option<String>,
    },
    /// What only checkpoint verbs answer.
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ActError {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::NoSuchTask(_) | Self::NoSuchAgent(_) => ErrorCode::NOT_FOUND,
            Self::Exists { .. } | Self::MayNotWork { .. } => ErrorCode::CONFLICT,
            Self::Ended { .. } => ErrorCode::ENDED,
            Self::SecretName(_) | Self::BadName(_) => ErrorCode::INVALID,
            Self::Contended(_) => ErrorCode::CONTENDED,
            Self::Draining { .. } | Self::NothingBegun => ErrorCode::DRAINING,
            Self::Full { .. } => ErrorCode::FULL,
            Self::Invalid { code, .. } => *code,
            Self::Workflow(error) => error.code(),
            Self::Store(_) => ErrorCode::STORE_UNAVAILABLE,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Workflow(error) => error.hint(),
            Self::NoSuchTask(task) => Some(match TaskId::strict(task.as_str()) {
                Ok(task) => format!(
                    "relight task list shows all tasks; relight task add {} adds it",
                    shell_word(task.as_str())
                ),
                Err(error) => format!(
                    "relight task list shows all tasks; only a workflow of relight checkpoint can have \
                     this id: {error}"
                ),
            }),
            Self::NoSuchAgent(agent) => Some(format!(
                "relight ps lists all; relight reload adds one that is new in relight.toml, relight \
                 run --name {} -- CMD makes another",
                shell_word(agent.as_str())
            )),
            Self::Exists { task, .. } => {
                Some(format!("relight task show {}", shell_word(task.as_str())))
            }
            Self::Ended { .. } => Some("it has ended; new work needs a new id".to_owned()),
            Self::MayNotWork { agent, .. } => Some(format!(
                "relight start {} lets it work",
                shell_word(agent.as_str())
            )),
            Self::Draining { .. } | Self::NothingBegun => Some(DRAIN_HINT.to_owned()),
            Self::Full { agent, .. } => Some(format!(
                "finish one; relight task list --agent {} --status in_progress",
                shell_word(agent.as_str())
            )),
            Self::Store(StoreError::Replaced { .. }) => Some(StoreError::REPLACED_HINT.to_owned()),
            Self::Contended(_) | Self::Store(_) => Some("try again".to_owned()),
            Self::SecretName(name) => name.hint().map(str::to_owned),
            Self::Invalid { hint, .. } => hint.clone(),
            Self::BadName(_) => None,
        }
    }

    /// What a model does about it.
    pub fn model_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused(refusal) => return refusal.model_hint(),
            Self::Workflow(error) => return error.model_hint(),
            Self::NoSuchTask(_) => "check the id; task_start begins a new task",
            Self::NoSuchAgent(_) => "check the name, or leave it out",
            Self::Exists { .. } => "leave out what differs, or take another id",
            Self::Ended { .. } => model_hint::ENDED,
            Self::MayNotWork { .. } => {
                "stop working; a person, or the time that is named, lets you work again"
            }
            Self::Draining { .. } | Self::NothingBegun => "begin nothing now; try again later",
            Self::Full { .. } => "finish one first",
            Self::Contended(_) | Self::Store(_) => model_hint::AGAIN,
            Self::SecretName(name) => return name.hint(),
            Self::BadName(_) | Self::Invalid { .. } => return None,
        })
    }
}

impl From<ActError> for Refused {
    fn from(error: ActError) -> Self {
        let message = match &error {
            ActError::Store(error) => return error.clone().into(),
            error => error.to_string(),
        };
        Self {
            code: error.code(),
            hint: error.hint().map(without_secrets),
            message: without_secrets(message),
        }
    }
}

fn was_left(status: Option<TaskStatus>) -> String {
    status.map_or_else(
        || "was not added".to_owned(),
        |status| format!("is {status}"),
    )
}

/// A refusal of the store in the words of the rules.
pub(crate) fn act_error(error: CommitError) -> ActError {
    match error {
        CommitError::Fenced { task, ours, newest } => Refusal::Fenced { task, ours, newest }.into(),
        CommitError::Moved(task) | CommitError::Exists(task) => ActError::Contended(task),
        CommitError::KeyTaken { task, .. } => ActError::Exists {
            task,
            differs: vec!["key"],
        },
        CommitError::Absent(task) => ActError::NoSuchTask(task),
        CommitError::Store(error) => ActError::Store(error),
    }
}
