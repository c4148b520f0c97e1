//! What goes over the wire, one noun a file. Times are RFC 3339 UTC, durations `90s`, `10m`, `7d`.

pub(crate) mod agent;
pub(crate) mod attempt;
pub(crate) mod event;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod node;
pub(crate) mod stats;
