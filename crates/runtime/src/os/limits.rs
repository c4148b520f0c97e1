//! Limits of this process, and of the host.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for commands, the store and sweeps.
const RESERVE: u64 = 16;

/// How many files this process may have open.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors per supervised agent: shim, notify socket and main process.
const FOR_AN_AGENT: u64 = 4;

/// Number of agents that are about to open their descriptors: the limit is one for the process.
static TAKING: AtomicU64 = AtomicU64::new(0);

/// A reservation of descriptors for one agent.
#[derive(Debug)]
pub struct Room(());

impl Room {
    /// Reserves descriptors for one agent; none when too few are left. The kernel assigns the
    /// smallest free number, so that number shows how many are in use.
    pub fn take() -> io::Result<Option<Self>> {
        let room = Self(());
        let taking = TAKING.fetch_add(1, Relaxed) + 1;
        let limit = open_files();
        let next = match fcntl_dupfd_cloexec(io::stderr(), 0) {
            Ok(next) => u64::from(next.as_raw_fd().unsigned_abs()),
            Err(Errno::MFILE) => return Ok(None),
            // Standard error is closed.
            Err(Errno::BADF) => 0,
            Err(error) => return Err(error.into()),
        };
        let needed = next.saturating_add(taking * FOR_AN_AGENT);
        Ok((needed <= limit - RESERVE.min(limit / 4)).then_some(room))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKING.fetch_sub(1, Relaxed);
    }
}

/// Whether the error is a temporary lack of descriptors, processes or memory.
pub fn is_exhausted(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS)
    )
}

/// Raises the limit of open files to the maximum, because a supervisor needs several per agent.
/// Returns the original limit, for agents; none when nothing changed.
pub fn raise_open_files() -> Option<u64> {
    // The limit is one for the process, and is raised once.
    static BEFORE: LazyLock<Option<u64>> = LazyLock::new(|| {
        let limit = getrlimit(Resource::Nofile);
        if limit.current == limit.maximum {
            return None;
        }
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).ok()?;
        limit.current
    });
    *BEFORE
}

/// Descriptors that a Tokio runtime opens at its start.
const FOR_A_RUNTIME: usize = 8;

/// Checks that a Tokio runtime can be built; without descriptors it would panic.
pub fn check_room_for_runtime() -> io::Result<()> {
    if has_room(FOR_A_RUNTIME)? {
        return Ok(());
    }
    raise_open_files();
    match has_room(FOR_A_RUNTIME)? {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "too few files may be open: {} (ulimit -n)",
            open_files()
        ))),
    }
}

fn has_room(count: usize) -> io::Result<bool> {
    let mut opened = Vec::new();
    for _ in 0..count {
        match std::fs::File::open("/dev/null") {
            Ok(file) => opened.push(file),
            Err(error) if is_exhausted(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
