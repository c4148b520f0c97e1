//! Relight's decisions: agents, states, transitions, repeat rules, budgets and the checkpoint
//! document.
//!
//! Pure: no clock, file, process, socket or async. What needs a time or an id takes it as an
//! argument, so that everything here can be checked by a table.

pub mod agent;
pub mod alert;
pub mod change;
pub mod checkpoint;
pub mod claimant;
pub mod decide;
pub mod error_code;
pub mod event;
pub mod explain;
pub mod ids;
pub mod lease;
pub mod limits;
pub mod node;
pub mod progress;
pub mod recovery;
pub mod restart_budget;
pub mod resume_rate;
pub mod session;
pub mod shell;
pub mod status;
pub mod step;
pub mod store_budget;
pub mod task;
pub mod time;
pub mod usage;
