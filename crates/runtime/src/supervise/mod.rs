//! Supervises agents: starts them, notices their deaths, brings them back.
//!
//! Acts; the rules are in `core::agent`. A *shim* for each agent is parent of its tree and outlives the
//! supervisor, which only connects and is disposable.

mod actor;
mod attempt_waits;
pub mod boots;
pub mod cgroup;
mod context;
pub mod control;
pub mod control_server;
pub mod daemon_client;
mod event_subscription;
pub mod folder;
mod follow_output;
pub mod heartbeats;
pub mod log;
pub mod notices;
pub mod notify;
pub mod oom;
mod open_steps;
pub mod post_mortem;
pub mod program;
mod remote_command_executor;
pub mod remote_command_sender;
pub mod reporters;
mod roster;
pub mod shim;
pub mod socket_path;
pub mod spec;
pub(crate) mod store_budget;
mod store_changes;
pub mod successor;
pub mod supervisor;
pub mod sweep;
mod sweeper;
pub mod systemd;
mod takeover;
mod task_assigner;
pub mod unnoticed_deaths;
pub mod watch_process;
