//! What any Unix has: less, and slower, than what Linux has.

pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod process;
mod process_watch;

pub(crate) use self::process_watch::PolledProcesses as ProcessWatch;
