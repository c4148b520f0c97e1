//! What a Rust program embeds: open a store, start or continue a task and record its steps, mark the
//! turns of sessions.

mod home;
mod relight;
mod session;
mod step;
mod task;

pub use home::mark_key_beside;
pub use relight::{OpenError, Relight, TaskBuilder};
pub use session::{BeginError, SessionBuilder, Turn};
pub use step::{StepBuilder, StepError, StepRun};
pub use task::RunningTask;
