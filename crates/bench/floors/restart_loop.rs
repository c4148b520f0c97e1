//! Floor: `floor-restart-loop PROGRAM ARGUMENT…` starts a program whenever it has ended.
//!
//! The least that bringing a process back can cost: wait for it, start it (posix_spawn), nothing else.
#![expect(clippy::disallowed_methods, reason = "a floor starts programs by itself")]

use std::process::{Command, Stdio};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    loop {
        command.spawn()?.wait()?;
    }
}
