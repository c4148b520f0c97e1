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
pub mod process;
pub mod random;
pub mod signals;
// The door to what each system does in its own way; `portable` chooses that of any Unix on Linux too, to
// test it.
#[cfg_attr(
    all(target_os = "linux", not(feature = "portable")),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(target_os = "linux", not(feature = "portable"))),
    path = "portable/mod.rs"
)]
pub(crate) mod system;
pub mod threads;
pub mod word;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use self::system::{pidfd, process_tree};
