//! The cgroup of one attempt, if a cgroup is delegated to the supervisor.
//!
//! The shim stays in the cgroup of the next attempt, because all processes must start inside it. It
//! leaves before the cgroup is killed.

use std::io;
use std::path::{Path, PathBuf};

/// Statistics of a cgroup.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupStats {
    pub(super) oom: bool,
    pub(super) memory_max_kib: Option<u64>,
}

/// The cgroup of an attempt.
#[derive(Debug)]
pub(super) struct Cgroup {
    own: PathBuf,
    next: PathBuf,
    /// The shim is not in it, so it may be killed as a whole.
    is_the_agents_alone: bool,
}

/// The cgroup that the shim is in, if it was moved.
#[derive(Debug, Default)]
pub(super) struct ShimCgroup(Option<PathBuf>);

impl ShimCgroup {
    /// Moving costs milliseconds, so the shim is moved ahead of a restart.
    fn move_to(&mut self, cgroup: &Path) -> io::Result<()> {
        if self.0.as_deref() == Some(cgroup) {
            return Ok(());
        }
        match std::fs::create_dir(cgroup) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // 0 stands for the writing process.
        std::fs::write(cgroup.join("cgroup.procs"), "0")?;
        self.0 = Some(cgroup.to_owned());
        Ok(())
    }
}

impl Cgroup {
    /// Moves the shim there, so that its children start there.
    pub(super) fn enter(own: &Path, next: &Path, place: &mut ShimCgroup) -> io::Result<Self> {
        place.move_to(own)?;
        Ok(Self {
            own: own.to_owned(),
            next: next.to_owned(),
            is_the_agents_alone: false,
        })
    }

    /// Moves the shim to the cgroup of the next attempt.
    pub(super) fn leave(&mut self, place: &mut ShimCgroup) -> io::Result<()> {
        place.move_to(&self.next)?;
        self.is_the_agents_alone = true;
        Ok(())
    }

    /// Kills all processes in it at once.
    pub(super) fn kill(&self) {
        if self.is_the_agents_alone {
            // Kernels before 5.14 lack this file; processes are then killed one by one.
            let _ = std::fs::write(self.own.join("cgroup.kill"), "1");
        }
    }

    /// Reads the statistics and removes the cgroup.
    pub(super) fn finish(self) -> CgroupStats {
        let counted = CgroupStats {
            oom: read(&self.own, "memory.events").is_some_and(|events| counted_oom_kill(&events)),
            memory_max_kib: read(&self.own, "memory.peak")
                .and_then(|peak| peak.trim().parse::<u64>().ok())
                .map(|bytes| bytes / 1_024),
        };
        // If it cannot be removed yet, the supervisor does it later.
        let _ = std::fs::remove_dir(&self.own);
        counted
    }
}

fn read(cgroup: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(cgroup.join(file)).ok()
}

fn counted_oom_kill(events: &str) -> bool {
    let count = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    count
        .and_then(|count| count.trim().parse::<u64>().ok())
        .is_some_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kills_count_as_out_of_memory() {
        assert!(counted_oom_kill(
            "low 0\nhigh 3\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"
        ));
        assert!(!counted_oom_kill(
            "low 0\nhigh 3\nmax 9\noom 2\noom_kill 0\noom_group_kill 0\n"
        ));
        assert!(!counted_oom_kill(""));
    }
}
