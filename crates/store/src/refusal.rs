//! Why an operation of the writer did not happen, whatever it was about.

use crate::contract::{AgentCommitError, CommitError, StoreError};

/// The writer's answer to one operation that was not done.
#[derive(Debug, Clone)]
pub enum OperationRefusal {
    /// To a commit about a task.
    Task(CommitError),
    /// To a commit about an agent.
    Agent(AgentCommitError),
    /// To anything.
    Store(StoreError),
}

impl OperationRefusal {
    /// For whoever asked for something about a task.
    pub fn of_task(self) -> CommitError {
        match self {
            Self::Task(error) => error,
            Self::Store(error) => error.into(),
            Self::Agent(error) => unreachable!("a task's operation was refused: {error}"),
        }
    }

    /// For whoever asked for something about an agent.
    pub fn of_agent(self) -> AgentCommitError {
        match self {
            Self::Agent(error) => error,
            Self::Store(error) => error.into(),
            Self::Task(error) => unreachable!("an agent's operation was refused: {error}"),
        }
    }

    /// For whoever asked for something without a guard: only the store refuses that.
    pub fn of_store(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            other => unreachable!("an operation without a guard was refused: {other:?}"),
        }
    }
}

impl From<CommitError> for OperationRefusal {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => Self::Store(error),
            other => Self::Task(other),
        }
    }
}

impl From<AgentCommitError> for OperationRefusal {
    fn from(error: AgentCommitError) -> Self {
        match error {
            AgentCommitError::Store(error) => Self::Store(error),
            other => Self::Agent(other),
        }
    }
}

impl From<StoreError> for OperationRefusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
