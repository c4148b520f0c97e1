//! One file a noun: what each command does.

pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod prune;
pub(crate) mod service;
pub(crate) mod setup;
pub(crate) mod shell;
pub(crate) mod step;
mod step_run;
pub(crate) mod task;
