//! The doors to the world: time, randomness, processes and the environment enter here and nowhere else.

pub mod attempts;
pub mod child;
pub mod clock;
pub mod descriptor;
pub mod environment;
pub mod file;
pub mod fleet;
pub mod limits;
pub mod pidfd;
pub mod process;
pub mod random;
