//! The signals of the shim itself: a dead child wakes it, and signals that would end it are ignored.
//!
//! Ignored by a handler that does nothing, because exec resets handlers: what the shim *ignored* its
//! agents would ignore too. For the same reason a signal that was already ignored when the shim began
//! (`nohup`, a shell's `&`) gets such a handler, and agents start with the defaults.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{FORBIDDEN, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

/// Only the supervisor ends a shim, by its order. A timer by an ignored SIGCONT would fire once only.
const DEAF_TO: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT];

/// Installs the handlers; a byte can be read from what is returned whenever a child ended.
pub(super) fn install() -> io::Result<UnixStream> {
    let unread = Arc::new(AtomicBool::new(false));
    for signal in DEAF_TO.into_iter().chain(ignored_already()) {
        flag::register(signal, Arc::clone(&unread))?;
    }
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    low_level::pipe::register(SIGCHLD, write)?;
    Ok(read)
}

/// What the kernel says is ignored. SIGPIPE is the standard library's, which resets it in children.
fn ignored_already() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    // Above them are the real-time signals; the C library uses the first ones.
    (1..32).filter(move |signal| {
        let is_ours_to_take = ![SIGPIPE, SIGCHLD].contains(signal) && !FORBIDDEN.contains(signal);
        mask & (1 << (signal - 1)) != 0 && is_ours_to_take
    })
}
