//! Brings AI agents back after any crash: the library.
//!
//! [`Relight`] opens a store; a [`RunningTask`] records its steps there before anything else acts on
//! them. Killed at any moment, the next start goes on after the last finished step.

#![cfg_attr(
    not(all(
        target_os = "linux",
        feature = "postgres",
        feature = "supervision",
        feature = "webhooks"
    )),
    allow(
        dead_code,
        unused_imports,
        reason = "some helpers serve one of these alone"
    )
)]

#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod alerts;
mod boxed;
pub mod checkpoint_files;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod daemon;
#[cfg_attr(
    not(all(target_os = "linux", feature = "supervision")),
    path = "declared_wait_absent.rs"
)]
pub mod declared_wait;
pub mod dialect;
pub mod drain;
pub mod engine;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod fleet;
pub mod git_state;
pub mod handover;
pub mod holders;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod hooks;
#[cfg(feature = "http-client")]
mod http_client;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod inflight;
mod library;
pub mod meter;
pub mod operations;
pub mod os;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod presets;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod project;
pub mod prune;
pub mod queue;
pub mod recovery;
pub mod redact_input;
pub mod running_step;
pub mod sessions;
pub mod spelling;
pub mod stale_check;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod state_location;
pub mod store_url;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod supervise;
#[cfg(feature = "otlp")]
pub mod telemetry;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod transcripts;

pub use library::{
    BeginError, End, EndError, Ended, EngineAccess, FinishedStep, OpenError, Relight,
    RelightBuilder, RunningTask, SessionBuilder, StepBuilder, StepError, StepInProgress, StepRun,
    StepStart, TaskBuilder, TaskQueue, Turn, Worked, Worker, mark_key_beside,
};
pub use recovery::{RecoveryAnswer, RecoveryStrategy, StrategyError};
pub use relight_core as core;
pub use relight_core::recovery::{Decision, HolderDeath, RecoveryContext, TaskPolicy};
pub use relight_store as store;
