//! One function for each parser of outside input; it panics when its promise does not hold.

pub(crate) mod cli;
pub(crate) mod core;
pub(crate) mod runtime;
pub(crate) mod server;
