//! Access to the operating system: time, randomness, processes and the environment are used only
//! here.

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
pub mod signals;
pub mod threads;
pub mod word;
