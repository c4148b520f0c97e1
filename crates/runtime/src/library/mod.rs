//! What a Rust program embeds: open a store, start or continue a task, record its steps.

mod home;
mod relight;
mod step;
mod task;

pub use home::mark_key_beside;
pub use relight::{OpenError, Relight, TaskBuilder};
pub use step::{StepBuilder, StepError, StepRun};
pub use task::RunningTask;
