//! The doors to the world: time, randomness and processes enter here and nowhere else.

pub mod clock;
pub mod process;
pub mod random;
