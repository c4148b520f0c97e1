//! What a Rust program embeds: open a store, start or continue a task and record its steps, work
//! through the queue, mark the turns of sessions.

mod boundary;
mod engine_access;
mod open;
mod process_claims;
mod queue;
mod redact_key;
mod relight;
mod session;
mod step;
mod step_in_progress;
mod task;
mod task_builder;
mod worker;

pub use boundary::{End, EndError, Ended};
pub use engine_access::EngineAccess;
pub use open::{OpenError, RelightBuilder};
pub use queue::TaskQueue;
pub use redact_key::mark_key_beside;
pub use relight::Relight;
pub use session::{BeginError, SessionBuilder, Turn};
pub use step::{StepBuilder, StepError, StepRun};
pub use step_in_progress::{FinishedStep, StepInProgress, StepStart};
pub use task::RunningTask;
pub use task_builder::TaskBuilder;
pub use worker::{Worked, Worker};
