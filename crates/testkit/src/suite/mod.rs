//! The ways in which things are killed, one a file.

pub mod agents;
pub mod crowd;
pub mod disks;
pub mod driver_calls;
pub mod failover;
pub mod faults;
pub mod fleet;
pub mod frozen;
pub mod kill;
pub mod power;
pub mod queue;
pub mod red;
mod reference;
pub mod sessions;
pub mod simulate;
pub mod supervise;
pub mod syscalls;
pub mod verbs;
