//! Supervises agents: starts them, notices their deaths, brings them back.
//!
//! Acts; the rules are in `core::agent`. A *shim* for each agent is parent of its tree and outlives the
//! supervisor, which only connects and is disposable.

mod actor;
pub mod beats;
pub mod boots;
pub mod cgroup;
pub mod control;
mod desk;
pub mod folder;
mod hearing;
pub mod log;
pub mod notice;
pub mod notify;
pub mod oom;
pub mod post_mortem;
pub mod program;
pub mod reception;
pub mod recover;
pub mod reporters;
mod roster;
mod router;
pub mod shim;
pub mod socket_path;
pub mod spec;
mod standby;
mod stream;
pub mod successor;
pub mod supervisor;
pub mod sweep;
mod sweeper;
pub mod systemd;
mod tidings;
mod waiting;
pub mod watch_process;
mod wishes;
pub mod word;
