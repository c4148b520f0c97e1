//! Why a write operation was refused.

use super::{AgentCommitError, CommitError, StoreError};

/// The error of a write operation.
#[derive(Debug, Clone)]
pub enum OperationRefusal {
    /// A commit about a task was refused.
    Task(CommitError),
    /// A commit about an agent was refused.
    Agent(AgentCommitError),
    /// The store failed.
    Store(StoreError),
}

impl OperationRefusal {
    /// The error of an operation on a task.
    pub fn of_task(self) -> CommitError {
        match self {
            Self::Task(error) => error,
            Self::Store(error) => error.into(),
            Self::Agent(error) => unreachable!("a task's operation was refused: {error}"),
        }
    }

    /// The error of an operation on an agent.
    pub fn of_agent(self) -> AgentCommitError {
        match self {
            Self::Agent(error) => error,
            Self::Store(error) => error.into(),
            Self::Task(error) => unreachable!("an agent's operation was refused: {error}"),
        }
    }

    /// The error of an operation without a guard, which only a store failure can refuse.
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
