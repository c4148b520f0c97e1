//! What only Linux has.

pub(crate) mod child;
pub(crate) mod clock;
pub mod pidfd;
pub(crate) mod process;
pub mod process_tree;
mod process_watch;

pub(crate) use self::process_watch::WatchedProcesses as ProcessWatch;
