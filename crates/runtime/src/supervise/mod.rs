//! Supervises agents: starts them, notices their deaths, brings them back.
//!
//! Acts; the rules are in `core::agent`. A *shim* for each agent is parent of its tree and outlives the
//! supervisor, which only connects and is disposable.

mod actor;
pub mod boots;
pub mod cgroup;
mod context;
pub mod control;
pub mod control_server;
mod event_subscription;
pub mod folder;
pub mod heartbeats;
pub mod log;
pub mod notice;
pub mod notify;
pub mod oom;
pub mod post_mortem;
pub mod program;
pub mod recover;
mod remote_commands;
pub mod reporters;
mod roster;
mod router;
pub mod shim;
pub mod socket_path;
pub mod spec;
mod store_changes;
mod stream;
pub mod successor;
pub mod supervisor;
pub mod sweep;
mod sweeper;
pub mod systemd;
mod takeover;
mod waiting;
pub mod watch_process;
pub mod word;
