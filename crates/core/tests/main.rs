//! The rules, each by itself.

mod boots;
mod checkpoint;
mod checkpoint_properties;
mod restart_budget;
mod silence;
