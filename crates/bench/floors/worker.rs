//! What every contestant of `restart` keeps alive: says when its first instruction ran, then waits.
//!
//! `floor-worker [FIFO]`; without an argument the pipe is `births` in its folder, for supervisors that
//! start a program without arguments. Nothing comes before the clock but the start of every Rust program.

use std::fs::OpenOptions;
use std::io::Write as _;

use rustix::time::{ClockId, clock_gettime};

fn main() {
    let now = clock_gettime(ClockId::Monotonic);
    let pipe = std::env::args_os()
        .nth(1)
        .unwrap_or_else(|| "births".into());
    let ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    let line = format!("{} {ns}\n", std::process::id());
    let told = OpenOptions::new()
        .write(true)
        .open(pipe)
        .and_then(|mut to| to.write_all(line.as_bytes()));
    // Nobody reads: there is nothing to live for.
    if told.is_err() {
        return;
    }
    loop {
        rustix::event::pause();
    }
}
