//! One file a noun: what each command does.

mod alerting;
pub(crate) mod alerts;
pub(crate) mod beat;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod deaths;
mod default_name;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod logs;
pub(crate) mod presets;
pub(crate) mod prune;
pub(crate) mod ps;
pub(crate) mod recover;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod setup;
pub(crate) mod shell;
pub(crate) mod step;
mod step_run;
pub(crate) mod supervision;
pub(crate) mod task;
mod task_queue;
mod task_view;
pub(crate) mod trap;
pub(crate) mod up;
