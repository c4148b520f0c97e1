//! The rules, each by itself.

mod boots;
mod budget;
mod checkpoint;
mod checkpoint_properties;
mod silence;
