//! What the packages of other languages share, so that each of them is thin.
//!
//! A [`Client`] opens the store by the rules of the command line, owns the threads that it needs, and runs
//! every operation by its name with JSON in and out ([`Client::call`]). Work that is done in the process
//! itself has handles: [`TaskHandle`], [`StepHandle`], [`TurnHandle`]. Each error is a [`Refused`], as all
//! fronts have it.
//!
//! A process that was forked after the client was opened gets the error `forked` from every call, and
//! nothing of the parent's is touched or closed there.

mod agent;
mod beat;
mod client;
mod fork_guard;
mod open;
mod session;
mod step;
mod strategy;
mod task;
mod waiting;

pub use agent::{AgentHandle, AgentRequest, BeatRequest};
pub use beat::beat;
pub use client::{Client, read_object};
pub use open::OpenOptions;
pub use relight_core::error_code::{ErrorCode, Refused};
pub use relight_core::time::{Span, TimeError};
pub use relight_runtime::operations::table::names as operation_names;
pub use session::{TurnHandle, TurnRequest};
pub use step::{StepBegun, StepHandle, StepRequest};
pub use strategy::StrategyCallback;
pub use task::{TaskEnd, TaskHandle, TaskRequest};
pub use waiting::INTERRUPT_CHECK;
