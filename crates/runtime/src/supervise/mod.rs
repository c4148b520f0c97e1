//! Supervises agents: starts them, notices their deaths, brings them back.
//!
//! Acts; the rules are in `core::agent`. A *shim* for each agent is parent of its tree and outlives the
//! supervisor, which only connects and is disposable.

pub mod cgroup;
pub mod control;
pub mod folder;
pub mod log;
pub mod notify;
pub mod shim;
pub mod socket_path;
pub mod systemd;
pub mod oom;
pub mod post_mortem;
pub mod shim;
pub mod successor;
pub mod sweep;
pub mod watch_process;
pub mod word;
