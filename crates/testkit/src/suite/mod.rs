//! The ways in which things are killed, one a file.

pub mod faults;
pub mod kill;
pub mod power;
mod reference;
pub mod syscalls;
pub mod verbs;
