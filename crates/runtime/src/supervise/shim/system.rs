//! The two calls of the product that need `unsafe`, because neither the standard library nor rustix has
//! them: waiting for a child with what it used, and closing what nobody here opened.
#![expect(unsafe_code, reason = "C functions; the reason why each use is sound stands beside it")]

use std::io;

use relight_core::agent::death::HowEnded;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// This child is dead, and now forgotten by the kernel.
    Child(DeadChild),
    /// There are children, and they live.
    NoneDead,
    /// There is no child at all.
    NoChild,
}

/// A child that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeadChild {
    pub(super) pid: u32,
    pub(super) how: HowEnded,
    pub(super) memory_max_kib: u64,
    pub(super) cpu_ms: u64,
}

/// Takes one dead child away, without waiting for one.
pub(super) fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid; both pointers are to locals that
    // outlive the call.
    let (pid, used) = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut used), used)
    };
    match pid {
        0 => Reaped::NoneDead,
        1.. => Reaped::Child(DeadChild {
            pid: pid.unsigned_abs(),
            how: how_ended(status),
            memory_max_kib: used.ru_maxrss.unsigned_abs(),
            cpu_ms: milliseconds(used.ru_utime) + milliseconds(used.ru_stime),
        }),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) => Reaped::NoChild,
        _ => Reaped::NoneDead,
    }
}

/// Closes every file but the three standard ones: what the supervisor's own parent left open would be
/// kept open by the shim and its agents for as long as they live.
///
/// Only to be called before anything of this process has opened a file.
pub(super) fn close_inherited_files() {
    // SAFETY: takes numbers only; by the rule above nothing here owns one of these files. A kernel
    // without the call (before 5.9) says so, and the files stay open.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

fn how_ended(status: i32) -> HowEnded {
    if libc::WIFEXITED(status) {
        HowEnded::Code(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        HowEnded::Signal(libc::WTERMSIG(status))
    } else {
        HowEnded::Unknown
    }
}

fn milliseconds(time: libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000 + time.tv_usec.unsigned_abs() / 1_000
}
