//! The cgroup of one attempt, where the supervisor was given a place for it.
//!
//! The shim sits in the cgroup where the next attempt is to be born, because only what is born there
//! is all there; it leaves before the tree is ever killed by it.

use std::io;
use std::path::{Path, PathBuf};

/// What the kernel counted in a cgroup.
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
    /// The shim itself is not in it, so all of it may be killed.
    is_the_agents_alone: bool,
}

/// The cgroup that the shim itself is in, where it was moved to one.
#[derive(Debug, Default)]
pub(super) struct ShimCgroup(Option<PathBuf>);

impl ShimCgroup {
    /// Moving costs milliseconds, so a restart, for which the shim sits there already, does not.
    fn move_to(&mut self, cgroup: &Path) -> io::Result<()> {
        if self.0.as_deref() == Some(cgroup) {
            return Ok(());
        }
        match std::fs::create_dir(cgroup) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // 0 is the one who writes it.
        std::fs::write(cgroup.join("cgroup.procs"), "0")?;
        self.0 = Some(cgroup.to_owned());
        Ok(())
    }
}

impl Cgroup {
    /// Moves the shim there, so that what it starts is born there.
    pub(super) fn enter(own: &Path, next: &Path, place: &mut ShimCgroup) -> io::Result<Self> {
        place.move_to(own)?;
        Ok(Self { own: own.to_owned(), next: next.to_owned(), is_the_agents_alone: false })
    }

    /// Moves the shim on to where the next attempt will be born.
    pub(super) fn leave(&mut self, place: &mut ShimCgroup) -> io::Result<()> {
        place.move_to(&self.next)?;
        self.is_the_agents_alone = true;
        Ok(())
    }

    /// Ends all that is in it, at one blow.
    pub(super) fn kill(&self) {
        if self.is_the_agents_alone {
            // Kernels before 5.14 have no such file; the tree is killed one by one then.
            let _ = std::fs::write(self.own.join("cgroup.kill"), "1");
        }
    }

    /// Reads what was counted and removes it.
    pub(super) fn finish(self) -> CgroupStats {
        let counted = CgroupStats {
            oom: read(&self.own, "memory.events").is_some_and(|events| counted_oom_kill(&events)),
            memory_max_kib: read(&self.own, "memory.peak")
                .and_then(|peak| peak.trim().parse::<u64>().ok())
                .map(|bytes| bytes / 1_024),
        };
        // One that cannot be removed yet is swept by the supervisor.
        let _ = std::fs::remove_dir(&self.own);
        counted
    }
}

fn read(cgroup: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(cgroup.join(file)).ok()
}

fn counted_oom_kill(events: &str) -> bool {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kills_count_as_out_of_memory() {
        assert!(counted_oom_kill("low 0\nhigh 3\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"));
        assert!(!counted_oom_kill("low 0\nhigh 3\nmax 9\noom 2\noom_kill 0\noom_group_kill 0\n"));
        assert!(!counted_oom_kill(""));
    }
}
