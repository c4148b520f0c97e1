//! The calls of the product that need `unsafe`, because neither the standard library nor rustix has
//! them: waiting for a child together with its resource usage, closing inherited descriptors, and a
//! timer that continues a stopped process.
#![expect(
    unsafe_code,
    reason = "C functions; the reason why each use is sound stands beside it"
)]

use std::io;

use relight_core::agent::death::HowEnded;

/// How often a shim whose deadline has passed is continued.
const CONTINUE_EVERY_MS: u64 = 100;

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
        (
            libc::wait4(
                -1,
                &raw mut status,
                libc::WNOHANG | libc::__WALL,
                &raw mut used,
            ),
            used,
        )
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

/// A timer by which the kernel sends SIGCONT to this process. An agent may have stopped its shim, and
/// after the supervisor's death no other process would continue it.
#[derive(Debug)]
pub(super) struct ContinueTimer(libc::timer_t);

impl ContinueTimer {
    pub(super) fn new() -> io::Result<Self> {
        let mut timer = std::ptr::null_mut();
        // SAFETY: `sigevent` is plain numbers and pointers, for which zeros are valid; both pointers are
        // to locals that outlive the call.
        let made = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGCONT;
            libc::timer_create(libc::CLOCK_BOOTTIME, &raw mut event, &raw mut timer)
        };
        if made == 0 {
            Ok(Self(timer))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Continues this process at this boot time, and again and again from then on, because it may be
    /// stopped again.
    pub(super) fn set(&self, at_ms: u64) {
        let time = |ms: u64| libc::timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1_000 * 1_000_000).unwrap_or(0),
        };
        // Zero would switch it off.
        let spec = libc::itimerspec {
            it_interval: time(CONTINUE_EVERY_MS),
            it_value: time(at_ms.max(1)),
        };
        // SAFETY: the timer was made by `new` and is never deleted; the pointer is to a local that outlives
        // the call.
        let _ = unsafe {
            libc::timer_settime(
                self.0,
                libc::TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            )
        };
    }
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
