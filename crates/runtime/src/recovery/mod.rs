//! Recovers work: finds tasks whose holder is gone, asks their strategy and commits its decision.
//!
//! The rules are in `core::recovery`. Agents and their processes are handled by `supervise`.

mod exec;
pub mod operator;
mod recoverer;
mod strategies;
mod strategy;
mod sweep;

pub use exec::{Exec, ExecError};
pub use exec::{case as exec_case, read as read_exec_answer};
pub use recoverer::{Recovered, Recoverer};
pub use strategies::{Strategies, StrategyAnswer, UnknownStrategy};
pub use strategy::{RecoveryAnswer, RecoveryStrategy, StrategyError};
pub use sweep::{OrphanedTask, SWEEP, SWEEP_MIN, TaskSweep, lost, sweep, sweep_all};
pub(crate) use sweep::{held, interrupted, left_by, left_without_lease};
