//! One file a noun: what each command does.

mod alerting;
pub(crate) mod alerts;
pub(crate) mod beat;
pub(crate) mod check;
pub(crate) mod checkpoint;
mod configured;
pub(crate) mod control;
pub(crate) mod dashboard;
pub(crate) mod deaths;
mod default_name;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod events;
mod http;
pub(crate) mod inflight;
mod live_names;
pub(crate) mod logs;
#[cfg_attr(not(feature = "mcp"), path = "absent/mcp.rs")]
pub(crate) mod mcp;
mod membership;
pub(crate) mod node;
mod operate;
mod operator;
pub(crate) mod presets;
pub(crate) mod prune;
pub(crate) mod ps;
pub(crate) mod recover;
mod registered;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod shell;
pub(crate) mod step;
mod step_run;
pub(crate) mod store;
pub(crate) mod supervision;
pub(crate) mod task;
mod task_queue;
mod task_view;
pub(crate) mod token;
#[cfg_attr(not(feature = "otlp"), path = "absent/tracing.rs")]
mod tracing;
pub(crate) mod trap;
pub(crate) mod trust;
pub(crate) mod up;
