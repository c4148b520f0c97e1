//! Floor: `floor-restart-loop PROGRAM ARGUMENT…` starts a program whenever it has ended.
//!
//! The least that bringing a process back can cost: wait for it, start it (posix_spawn), nothing else.
//! In a session of its own, as a shim is: where the kernel shares the processor out by sessions, both
//! stand equal beside a load.
#![expect(
    clippy::disallowed_methods,
    reason = "a floor starts programs by itself"
)]

use std::process::{Command, Stdio};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    // The leader of a group cannot, and has a session of its own, or it is somebody's shell.
    let _ = rustix::process::setsid();
    loop {
        command.spawn()?.wait()?;
    }
}
