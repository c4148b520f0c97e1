//! Detects whether the kernel killed a process for lack of memory.
//!
//! Only a death by SIGKILL is looked into. What counts as proof is the attempt's own cgroup (the exit
//! record), or a line of the kernel's log that names the process. That other processes of the machine
//! were killed for memory meanwhile is a hint and no proof: it is noted, and the cause stays `signal`,
//! for a wrong `oom` would send people after memory that is not short.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use relight_core::agent::death::HowEnded;
use relight_core::time::Span;
use rustix::time::{ClockId, clock_gettime};

const SIGKILL: i32 = 9;
/// Maximum size of the kernel's counters.
const COUNTS_BYTES_MAX: usize = 16 << 10;
/// Maximum number of log records read.
const RECORDS_MAX: usize = 100_000;
/// Maximum difference between the kernel log's clock and ours.
const CLOCK_SLACK: Span = Span::from_secs(2);

/// The kernel's OOM kill count when an attempt began; unknown by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Oom {
    kills: Option<u64>,
}

/// Reads the kernel's counters with one read, because a restart waits for it.
fn read_counts() -> Option<String> {
    let mut text = vec![0; COUNTS_BYTES_MAX];
    let len = File::open("/proc/vmstat").ok()?.read(&mut text).ok()?;
    text.truncate(len);
    String::from_utf8(text).ok()
}

/// Whether a kill was for lack of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryKill {
    /// No.
    No,
    /// Likely, with the reason.
    Likely(String),
    /// Proved, with the reason.
    Proved(String),
}

impl Oom {
    /// Call it when an attempt begins or is adopted.
    pub fn before() -> Self {
        Self {
            kills: read_counts().and_then(|text| kills(&text)),
        }
    }

    /// Looks into a death right after it: `counted` is what the attempt's cgroup says, `lived` how long
    /// the process did. Free unless it was a SIGKILL; some milliseconds, for the kernel's log, only when
    /// the kernel has killed for memory since.
    pub fn look(self, how: HowEnded, counted: bool, pid: Option<u32>, lived: Span) -> MemoryKill {
        if counted {
            return MemoryKill::Proved("its cgroup counted a kill for memory".to_owned());
        }
        if how != HowEnded::Signal(SIGKILL) {
            return MemoryKill::No;
        }
        let since_boot = Self::before().kills;
        let meanwhile = since_boot.map(|now| now.saturating_sub(self.kills.unwrap_or(0)));
        if meanwhile == Some(0) {
            return MemoryKill::No;
        }
        if let Some(line) = pid.and_then(|pid| kernel_line(pid, lived)) {
            return MemoryKill::Proved(line);
        }
        match (self.kills, meanwhile) {
            (Some(_), Some(count)) => MemoryKill::Likely(format!(
                "the kernel killed {count} processes of this machine for memory meanwhile"
            )),
            _ => MemoryKill::No,
        }
    }
}

fn kills(vmstat: &str) -> Option<u64> {
    let mut fields = vmstat.lines().filter_map(|line| line.split_once(' '));
    fields
        .find(|(name, _)| *name == "oom_kill")
        .and_then(|(_, count)| count.trim().parse().ok())
}

/// The kernel log line that reports the OOM kill of this process. Readable only with privileges;
/// never blocks.
fn kernel_line(pid: u32, lived: Span) -> Option<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let log = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open("/dev/kmsg")
        .ok()?;
    let now = clock_gettime(ClockId::Monotonic);
    let now_us = now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000;
    let ago_us = (lived.as_ms() + CLOCK_SLACK.as_ms()).saturating_mul(1_000);
    let since_us = now_us.saturating_sub(ago_us);
    records(log).find_map(|record| killed_line(&record, pid, since_us))
}

/// Reads one record at a time; overwritten ones are skipped.
fn records(mut log: File) -> impl Iterator<Item = String> {
    let mut bytes = [0; 8 << 10];
    let mut reads = 0..RECORDS_MAX;
    std::iter::from_fn(move || {
        loop {
            reads.next()?;
            match log.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => return Some(String::from_utf8_lossy(&bytes[..count]).into_owned()),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(_) => return None,
            }
        }
    })
}

/// `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`. A priority of 8 or more was written by a program, which
/// may say anything.
fn killed_line(record: &str, pid: u32, since_us: u64) -> Option<String> {
    let (prefix, text) = record.split_once(';')?;
    let mut fields = prefix.split(',');
    let is_kernels = fields.next()?.parse::<u32>().ok()? < 8;
    let at_us: u64 = fields.nth(1)?.parse().ok()?;
    let text = text.lines().next()?;
    let names_it = ["Killed process", "Kill process"]
        .iter()
        .any(|words| text.contains(&format!("{words} {pid} ")));
    let is_for_memory = text.to_ascii_lowercase().contains("out of memory");
    (is_kernels && at_us >= since_us && names_it && is_for_memory).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILLED: &str =
        "3,900,5000000,-;Out of memory: Killed process 42 (python3) total-vm:1kB\n SUBSYSTEM=x\n";

    #[test]
    fn a_line_of_the_kernel_counts_only_for_that_process_and_that_time() {
        assert!(killed_line(KILLED, 42, 5_000_000).is_some_and(|text| text.ends_with("1kB")));
        let group = KILLED.replace("Out of", "Memory cgroup out of");
        assert!(killed_line(&group, 42, 0).is_some());
        for (record, pid, since_us) in [
            (KILLED, 4, 0),
            (KILLED, 420, 0),
            (KILLED, 42, 5_000_001),
            (
                "11,900,5000000,-;Out of memory: Killed process 42 (written by a program)",
                42,
                0,
            ),
            ("3,900,5000000,-;systemd: Killed process 42 (x)", 42, 0),
            ("garbage", 42, 0),
            ("3,900;Out of memory: Killed process 42 (x)", 42, 0),
        ] {
            assert_eq!(killed_line(record, pid, since_us), None, "{record}");
        }
    }

    #[test]
    fn only_an_unexplained_sigkill_is_looked_into() {
        let known = Oom { kills: Some(0) };
        let look = |how, counted| known.look(how, counted, None, Span::ZERO);
        assert_eq!(look(HowEnded::Signal(11), false), MemoryKill::No);
        assert_eq!(look(HowEnded::Code(137), false), MemoryKill::No);
        assert!(matches!(
            look(HowEnded::Signal(9), true),
            MemoryKill::Proved(_)
        ));
    }

    #[test]
    fn without_a_kill_on_the_whole_machine_it_was_something_else() {
        let now = Oom {
            kills: Oom::before().kills.or(Some(0)),
        };
        let verdict = now.look(HowEnded::Signal(9), false, Some(1), Span::ZERO);
        assert_eq!(verdict, MemoryKill::No);
    }

    #[test]
    fn kills_are_counted_by_the_kernel() {
        assert_eq!(kills("nr_free 1\noom_kill 7\nother 2\n"), Some(7));
        assert_eq!(kills("oom_killed 7\n"), None);
    }
}
