//! Limits of this process, and of the host.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept for what goes on without new agents: commands, the store, sweeps.
const RESERVE: u64 = 16;

/// How many files this process may have open.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What an agent needs while it is supervised: its shim, its socket for signs of life, its leader.
const FOR_AN_AGENT: u64 = 4;

/// How many agents are about to take their descriptors.
static TAKING: AtomicU64 = AtomicU64::new(0);

/// Room for the descriptors of one agent, until it has them.
#[derive(Debug)]
pub struct Room(());

impl Room {
    /// Room for one more agent that leaves the last descriptors for others; none when there is none. The
    /// kernel gives out the smallest number that is free, so that number tells how many are in use.
    pub fn take() -> io::Result<Option<Self>> {
        let room = Self(());
        let taking = TAKING.fetch_add(1, Relaxed) + 1;
        let limit = open_files();
        let next = match fcntl_dupfd_cloexec(io::stderr(), 0) {
            Ok(next) => u64::from(next.as_raw_fd().unsigned_abs()),
            Err(Errno::MFILE) => return Ok(None),
            // Whoever closed it has other troubles.
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

/// Whether the system said that it has no more descriptors, processes or memory: nothing is wrong with
/// what was asked for, and it may be had later.
pub fn is_exhausted(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS)
    )
}

/// Asks for as many open files as are allowed: a supervisor needs a few for each agent. Answers how
/// many were allowed before the first time, for agents to have; none when nothing changed.
pub fn raise_open_files() -> Option<u64> {
    static BEFORE: OnceLock<Option<u64>> = OnceLock::new();
    *BEFORE.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile);
        if limit.current == limit.maximum {
            return None;
        }
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).ok()?;
        limit.current
    })
}

/// What the runtime that waits for events opens at its start.
const FOR_A_RUNTIME: usize = 8;

/// Makes sure that a runtime for events can be built: without descriptors it panics instead of answering
/// an error.
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
