//! Brings AI agents back after any crash.
//!
//! A program records each step of its work in a store before anything depends on it. Kill the
//! program at any moment and start it again: finished steps return their recorded values, and the
//! work continues with the first step that is not finished.
//!
//! ```
//! use relight::Relight;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let relight = Relight::open("memory:").await?; // or "sqlite:relight.db", "postgres://…"
//! let task = relight.task("report-7")?.title("Weekly report").start().await?;
//! let text: String = task.step("fetch", || async { Ok::<_, std::io::Error>("one two".to_owned()) }).await?;
//! let words: usize = task.step("count", || async { Ok::<_, std::io::Error>(text.split(' ').count()) }).await?;
//! task.done().await?;
//! assert_eq!(words, 2);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | open a store | [`Relight::open`], [`Relight::builder`] |
//! | run one task by name | [`Relight::task`], [`TaskBuilder::start`], [`RunningTask`] |
//! | record a step | [`RunningTask::step`], [`RunningTask::plan`] with a [`RepeatRule`] |
//! | work through a queue | [`TaskBuilder::add`], [`Relight::worker`], [`Relight::queue`] |
//! | mark the turns of conversations | [`Relight::session`], [`Relight::recover_sessions`] |
//! | decide what happens to a task whose holder died | [`RecoveryStrategy`] |
//!
//! The command line and the daemon use the same store at the same time. The guide is
//! `docs/guides/rust-library.md`.
//!
//! Without default features nothing of PostgreSQL, TLS or HTTP is compiled. `postgres`, `webhooks`
//! and `otlp` bring back stores in PostgreSQL, alerts by webhook and traces. `supervision` tells the
//! supervisor of the agent that the program runs in when a worker waits; it needs Linux.

pub use relight_core::recovery::{Decision, HolderDeath, RecoveryContext, TaskPolicy};
pub use relight_core::session::{Policy, Rules};
pub use relight_core::step::RepeatRule;
pub use relight_core::task::{Task, Usage};
pub use relight_core::time::{Span, Time};
pub use relight_runtime::engine::ActError;
pub use relight_runtime::sessions::SessionError;
pub use relight_runtime::{
    BeginError, End, EndError, Ended, OpenError, RecoveryAnswer, RecoveryStrategy, Relight,
    RelightBuilder, RunningTask, SessionBuilder, StepBuilder, StepError, StepRun, StrategyError,
    TaskBuilder, TaskQueue, Turn, Worked, Worker,
};
