//! The doors to the world: time, randomness, processes and the environment enter here and nowhere else.

pub mod clock;
pub mod environment;
pub mod pidfd;
pub mod process;
pub mod random;
