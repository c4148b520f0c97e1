//! Processes, as `ps` shows them, and the boot, as `sysctl` does.
//!
//! `ps -o lstart` is known to macOS, the BSDs and Linux. It tells when a process started by the wall
//! clock, in seconds.

use std::io;
use std::process::{Output, Stdio};

use crate::os::process::{command, is_any};

/// Where `ps` is on every system.
const PS: &str = "/bin/ps";
/// What shows the boot: a text on macOS, bytes on FreeBSD.
const BOOT_IDS: [(&str, &str, &str); 2] = [
    ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"),
    ("/sbin/sysctl", "-nx", "kern.boot_id"),
];
/// Some systems compute the start time from the age, and are off by a second now and then.
const START_OFF_BY_MAX: u64 = 2;

/// A line of `ps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PsLine {
    /// The letter of its state.
    state: char,
    /// Its parent.
    pub parent: u32,
    /// When it started, in seconds since 1970.
    pub start: u64,
}

impl PsLine {
    /// Whether it still runs, waits or is stopped.
    pub fn is_alive(self) -> bool {
        self.state != 'Z'
    }

    /// Whether this is when it started.
    pub fn began_at(self, start: u64) -> bool {
        self.start.abs_diff(start) <= START_OFF_BY_MAX
    }

    /// Whether it is neither stopped nor ended.
    pub fn is_acting(self) -> bool {
        self.is_alive() && self.state != 'T'
    }
}

/// What `ps` says of a process; none when it does not exist.
pub fn stat(pid: u32) -> Option<PsLine> {
    look(pid).ok().flatten()
}

/// The same, with errors.
pub(crate) fn look(pid: u32) -> io::Result<Option<PsLine>> {
    if !is_any(pid) {
        return Ok(None);
    }
    let pid = pid.to_string();
    let fields = ["-o", "stat=", "-o", "ppid=", "-o", "lstart=", "-p", &pid];
    let told = output(PS, &fields)?;
    let text = String::from_utf8_lossy(&told.stdout);
    if text.trim().is_empty() && told.status.code() == Some(1) {
        return Ok(None);
    }
    let unreadable = || io::Error::other(format!("{PS} answered {text:?}"));
    read_line(&text).ok_or_else(unreadable).map(Some)
}

/// The programs of the system, in one language and one time zone.
fn output(program: &str, arguments: &[&str]) -> io::Result<Output> {
    let mut command = command(program, arguments);
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC0");
    command.stdin(Stdio::null()).stderr(Stdio::null()).output()
}

fn read_line(text: &str) -> Option<PsLine> {
    let mut fields = text.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let start = fields.collect::<Vec<_>>().join(" ");
    let start = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", &start).ok()?;
    let start = start.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(PsLine {
        state,
        parent,
        start: start.timestamp().as_second().unsigned_abs(),
    })
}

/// The boot that processes belong to; not by the time of the boot, which a step of the clock moves. Where the system has no name for it, all boots of a machine are
/// one: start times tell their processes apart.
pub(crate) fn read_boot_id() -> io::Result<String> {
    let named = BOOT_IDS.iter().find_map(|(program, form, name)| {
        let told = output(program, &[form, name]).ok()?;
        let text = String::from_utf8(told.stdout).ok()?;
        (told.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
    });
    let machine = || {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    };
    Ok(named.unwrap_or_else(|| format!("unknown on {}", machine())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_all_systems_write_it() {
        let start = 1_795_092_834;
        for line in [
            "S+       1 Thu Nov 19 12:53:54 2026    \n",
            "Ss  1 Thu Nov 19 12:53:54 2026",
        ] {
            let read = read_line(line).unwrap();
            assert_eq!((read.state, read.parent, read.start), ('S', 1, start));
            assert!(read.began_at(start + 1) && !read.began_at(start + 3));
        }
        let first = read_line("T 1 Sun Nov  1 02:03:04 2026").unwrap();
        assert!(first.is_alive() && !first.is_acting());
        assert_eq!(read_line("Z 1 -"), None);
    }
}
