//! A cgroup (v2) for each attempt, if the system allows it.
//!
//! All processes of an attempt stay in its cgroup, and one write kills them all. Each attempt gets
//! a new one, because processes cloned into a killed one die at once. Path below the delegated
//! cgroup: `relight.<home>/_<agent>/<tag>`.
//!
//! Only a cgroup that systemd delegated or a user configured is used.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use relight_core::agent::AttemptTag;
use relight_core::ids::AgentName;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access, getxattr};
use rustix::io::Errno;

use crate::checkpoint_files::encoded_name;
use crate::os::clock;

/// The leaf that a supervisor moves into, so that the delegated cgroup itself holds no process.
const SUPERVISOR: &str = "supervisor";
/// Controllers enabled for each attempt, if possible.
const CONTROLLERS: [&str; 2] = ["+memory", "+pids"];
/// Maximum depth of nested cgroups that are removed.
const DEPTH_MAX: u32 = 8;

/// Configured use of cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CgroupSetting {
    /// The cgroup that systemd delegated to us, if it did.
    #[default]
    Auto,
    /// None.
    Off,
    /// This one.
    At(PathBuf),
}

/// The parent of all cgroups of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    delegated: PathBuf,
    own: PathBuf,
    counts: bool,
}

/// Result of clearing the cgroups of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// Number of processes found.
    pub found: u32,
    /// Nothing is left of them.
    pub is_empty: bool,
}

/// An attempt's cgroup that is still in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillUsed(pub PathBuf);

impl Cgroups {
    /// Finds a usable cgroup; `home` separates supervisors of several homes.
    pub fn find(setting: &CgroupSetting, home: &Path) -> Option<Self> {
        let ours = our_cgroup();
        let delegated = Self::delegated(setting)?;
        let hash = blake3::hash(home.as_os_str().as_bytes()).to_hex();
        let own = delegated.join(format!("relight.{}", &hash[..12]));
        make(&own).ok()?;
        // Linux 5.14 and later; without it a cgroup ends nothing that a sweep would not.
        if !own.join("cgroup.kill").exists() {
            return None;
        }
        let counts = count_in(&delegated, ours.as_deref()) && count_below(&own);
        Some(Self {
            delegated,
            own,
            counts,
        })
    }

    /// The delegated cgroup, if usable. Creates nothing.
    pub fn delegated(setting: &CgroupSetting) -> Option<PathBuf> {
        let ours = our_cgroup();
        let delegated = match setting {
            CgroupSetting::Off => return None,
            CgroupSetting::Auto => delegated_to(ours.as_deref()?)?,
            CgroupSetting::At(folder) => folder.clone(),
        };
        may_move(ours.as_deref(), &delegated).then_some(delegated)
    }

    /// The cgroup of an attempt, created if needed.
    pub fn for_attempt(&self, agent: &AgentName, tag: &AttemptTag) -> io::Result<PathBuf> {
        let folder = self.of_agent(agent);
        make(&folder)?;
        if self.counts {
            count_below(&folder);
        }
        let attempt = folder.join(encoded_name(tag.as_str()));
        make(&attempt)?;
        Ok(attempt)
    }

    /// Removes the cgroups of an agent's attempts except `keep`; returns those still in use.
    pub fn remove_old(
        &self,
        agent: &AgentName,
        keep: &[&AttemptTag],
    ) -> io::Result<Vec<StillUsed>> {
        let kept: Vec<String> = keep.iter().map(|tag| encoded_name(tag.as_str())).collect();
        let mut used = Vec::new();
        for folder in folders_in(&self.of_agent(agent))? {
            let is_kept = kept.iter().any(|name| folder.ends_with(name));
            if !is_kept && !remove(&folder, DEPTH_MAX)? {
                used.push(StillUsed(folder));
            }
        }
        Ok(used)
    }

    /// Kills all processes in the cgroups of an agent and removes the cgroups.
    pub fn clear(&self, agent: &AgentName, wait: Span) -> io::Result<Cleared> {
        let mut cleared = Cleared {
            found: 0,
            is_empty: true,
        };
        for used in self.remove_old(agent, &[])? {
            cleared.found += members(&used.0, DEPTH_MAX);
            cleared.is_empty &= used.end(wait)?;
        }
        // A remaining one is reused.
        let _ = fs::remove_dir(self.of_agent(agent));
        Ok(cleared)
    }

    /// Whether memory is accounted per attempt.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// OOM kills in the delegated cgroup, as a hint where attempts are not accounted separately.
    pub fn oom_kills(&self) -> Option<u64> {
        oom_kills(&self.delegated)
    }

    fn of_agent(&self, agent: &AgentName) -> PathBuf {
        // The prefix avoids clashes with kernel files: an agent may be named `cgroup.procs`.
        self.own.join(format!("_{}", encoded_name(agent.as_str())))
    }
}

impl StillUsed {
    /// Kills all processes in it and removes it; false when some are left after the wait.
    pub fn end(self, wait: Span) -> io::Result<bool> {
        fs::write(self.0.join("cgroup.kill"), "1")?;
        Ok(wait_until_empty(&self.0, wait)? && remove(&self.0, DEPTH_MAX)?)
    }
}

/// OOM kills in it and below; none when not accounted.
pub fn oom_kills(cgroup: &Path) -> Option<u64> {
    let events = fs::read_to_string(cgroup.join("memory.events")).ok()?;
    value(&events, "oom_kill")
}

/// Number of processes in it and below.
fn members(cgroup: &Path, depth: u32) -> u32 {
    let inside = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let own = u32::try_from(inside.lines().count()).unwrap_or(u32::MAX);
    let below = if depth > 0 {
        folders_in(cgroup).unwrap_or_default()
    } else {
        Vec::new()
    };
    below.iter().fold(own, |sum, folder| {
        sum.saturating_add(members(folder, depth - 1))
    })
}

/// Waits until it is empty; the kernel reports the change.
fn wait_until_empty(cgroup: &Path, wait: Span) -> io::Result<bool> {
    let deadline = clock::boot_ms().saturating_add(wait.as_ms());
    let path = cgroup.join("cgroup.events");
    loop {
        // A change is reported once to a file that was read before.
        let file = fs::File::open(&path)?;
        let events = io::read_to_string(&file)?;
        if value(&events, "populated") == Some(0) {
            return Ok(true);
        }
        let ms = deadline.saturating_sub(clock::boot_ms());
        if ms == 0 {
            return Ok(false);
        }
        let time = Timespec::try_from(Span::from_ms(ms).as_duration()).ok();
        match poll(
            &mut [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI)],
            time.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The value of a name in lines of `name number`.
fn value(lines: &str, name: &str) -> Option<u64> {
    lines
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// The delegated cgroup, if we are in it or in its supervisor leaf.
fn delegated_to(ours: &Path) -> Option<PathBuf> {
    let above = ours.parent().filter(|_| ours.ends_with(SUPERVISOR));
    let found = [Some(ours), above]
        .into_iter()
        .flatten()
        .find(|path| is_delegated(path));
    found.map(Path::to_path_buf)
}

/// Whether systemd marked it as delegated; user managers cannot set the trusted mark.
fn is_delegated(cgroup: &Path) -> bool {
    ["user.delegate", "trusted.delegate"]
        .into_iter()
        .any(|name| {
            let mut mark = [0_u8; 8];
            getxattr(cgroup, name, &mut mark).is_ok_and(|length| &mark[..length] == b"1")
        })
}

/// Moving a process requires write access to the common ancestor.
fn may_move(ours: Option<&Path>, delegated: &Path) -> bool {
    let Some(ours) = ours else { return false };
    let above = delegated.ancestors().find(|above| ours.starts_with(above));
    above.is_some_and(|above| access(above.join("cgroup.procs"), Access::WRITE_OK).is_ok())
}

/// Enables accounting for the children of the delegated cgroup; false when that fails.
///
/// Then it may hold no process itself. Not below a *service*: systemd starts the next supervisor in
/// that very cgroup, and could not while agents of the last one live on.
fn count_in(delegated: &Path, ours: Option<&Path>) -> bool {
    if delegated.extension().is_some_and(|kind| kind == "service") {
        return false;
    }
    if ours == Some(delegated) && delegated.join("cgroup.type").exists() && !step_aside(delegated) {
        return false;
    }
    count_below(delegated)
}

/// Moves us into the supervisor leaf, if no others are in the cgroup.
fn step_aside(delegated: &Path) -> bool {
    let own = std::process::id().to_string();
    let inside = fs::read_to_string(delegated.join("cgroup.procs")).unwrap_or_default();
    let leaf = delegated.join(SUPERVISOR);
    inside.lines().eq([own.as_str()])
        && make(&leaf).is_ok()
        && fs::write(leaf.join("cgroup.procs"), "0").is_ok()
}

/// Enables controllers; whether at least memory is accounted.
fn count_below(cgroup: &Path) -> bool {
    let there = fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
    let file = cgroup.join("cgroup.subtree_control");
    for controller in CONTROLLERS {
        if there
            .split_whitespace()
            .any(|name| name == &controller[1..])
        {
            // A controller that could not be enabled is not in the file afterwards.
            let _ = fs::write(&file, controller);
        }
    }
    let on = fs::read_to_string(&file).unwrap_or_default();
    on.split_whitespace().any(|name| name == "memory")
}

/// The folder of the cgroup that this process is in.
fn our_cgroup() -> Option<PathBuf> {
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    place(&cgroups, &mounts)
}

/// The folder, from `/proc/self/cgroup` and `/proc/self/mountinfo`: unified or hybrid hierarchy.
fn place(cgroups: &[u8], mounts: &[u8]) -> Option<PathBuf> {
    let path = lines(cgroups).find_map(|line| line.strip_prefix(b"0::"))?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    lines(mounts).find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        if fields.get(dash + 1) != Some(&&b"cgroup2"[..]) {
            return None;
        }
        let below = path.strip_prefix(unescaped(fields.get(3)?)).ok()?;
        Some(unescaped(fields.get(4)?).join(below).components().collect())
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// Decodes a path of `mountinfo`, which escapes blanks as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (byte, escaped) {
            (b'\\', Some(escaped)) => {
                path.push(escaped);
                rest = &after[3..];
            }
            _ => {
                path.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(path).into()
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Removes a cgroup and those below it; false when it is still in use.
fn remove(folder: &Path, depth: u32) -> io::Result<bool> {
    if depth > 0 {
        for below in folders_in(folder)? {
            remove(&below, depth - 1)?;
        }
    }
    match fs::remove_dir(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    }
}

fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::*;
    use crate::os::process::command;
    use crate::os::random;

    const LONG: Span = Span::from_secs(30);

    /// A cgroup for one test, which is removed with all that is in it.
    struct Stage {
        folder: PathBuf,
    }

    impl Stage {
        /// None, and said loudly, where no cgroup can be made.
        fn new() -> Option<Self> {
            let name = format!("relight-test-{:016x}", random::number());
            let folder = our_cgroup().map(|ours| ours.join(name));
            let made = folder.filter(|folder| fs::create_dir(folder).is_ok());
            let usable = made.filter(|folder| folder.join("cgroup.kill").exists());
            if usable.is_none() {
                eprintln!("SKIPPED: no cgroup (v2) can be made here; that needs root");
            }
            usable.map(|folder| Self { folder })
        }

        fn cgroups(&self) -> Cgroups {
            let at = CgroupSetting::At(self.folder.clone());
            Cgroups::find(&at, Path::new("/home/test")).unwrap()
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = StillUsed(self.folder.clone()).end(LONG);
        }
    }

    fn agent() -> AgentName {
        AgentName::new("team/cgroup.procs").unwrap()
    }

    fn tag(number: u32) -> AttemptTag {
        AttemptTag::new(&agent(), number, 7)
    }

    fn sleeper_in(cgroup: &Path) -> Child {
        let child = command("sleep", &["60"]).spawn().unwrap();
        fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).unwrap();
        child
    }

    #[test]
    fn an_attempt_gets_a_cgroup_that_ends_with_all_that_is_in_it() {
        let Some(stage) = Stage::new() else { return };
        let cgroups = stage.cgroups();
        let [first, second, third] =
            [1, 2, 3].map(|n| cgroups.for_attempt(&agent(), &tag(n)).unwrap());
        assert!(first.starts_with(&stage.folder) && first != second);
        let mut child = sleeper_in(&first);
        let used = cgroups.remove_old(&agent(), &[&tag(2)]).unwrap();
        assert_eq!(used, [StillUsed(first.clone())]);
        assert!(second.exists() && !third.exists());
        assert!(used.into_iter().all(|used| used.end(LONG).unwrap()));
        assert_eq!(child.wait().unwrap().code(), None, "it was killed");
        assert!(!first.exists());
    }

    #[test]
    fn cgroups_that_an_agent_made_go_too() {
        let Some(stage) = Stage::new() else { return };
        let cgroups = stage.cgroups();
        let attempt = cgroups.for_attempt(&agent(), &tag(1)).unwrap();
        fs::create_dir_all(attempt.join("a/b")).unwrap();
        let mut child = sleeper_in(&attempt.join("a/b"));
        let [used] =
            <[StillUsed; 1]>::try_from(cgroups.remove_old(&agent(), &[]).unwrap()).unwrap();
        assert!(used.end(LONG).unwrap() && !attempt.exists());
        child.wait().unwrap();
    }

    #[test]
    fn only_what_was_delegated_is_taken() {
        let Some(stage) = Stage::new() else { return };
        let leaf = stage.folder.join(SUPERVISOR);
        let other = stage.folder.join("other");
        fs::create_dir(&leaf).unwrap();
        fs::create_dir(&other).unwrap();
        assert_eq!(delegated_to(&stage.folder), None);
        for name in ["trusted.delegate", "user.delegate"] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&stage.folder, name, b"1", flags).unwrap();
            assert_eq!(delegated_to(&stage.folder), Some(stage.folder.clone()));
            assert_eq!(delegated_to(&leaf), Some(stage.folder.clone()));
            assert_eq!(delegated_to(&other), None);
            rustix::fs::removexattr(&stage.folder, name).unwrap();
        }
    }

    #[test]
    fn switched_off_or_not_there_gives_none() {
        let home = Path::new("/home/test");
        assert_eq!(Cgroups::find(&CgroupSetting::Off, home), None);
        assert_eq!(
            Cgroups::find(&CgroupSetting::At("/nowhere".into()), home),
            None
        );
        assert_eq!(
            Cgroups::find(&CgroupSetting::At(std::env::temp_dir()), home),
            None
        );
    }

    #[test]
    fn our_place_is_read_from_unified_and_hybrid_mounts() {
        let unified = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw shared:4 - cgroup2 cgroup2 rw\n";
        let below = "41 31 0:38 /a.slice /cg rw - cgroup2 cgroup2 rw\n";
        let table = [
            (
                "0::/a.slice/b.service\n",
                unified,
                Some("/sys/fs/cgroup/a.slice/b.service"),
            ),
            ("0::/\n", unified, Some("/sys/fs/cgroup")),
            (
                "4:memory:/x\n0::/b\n",
                hybrid,
                Some("/sys/fs/cgroup/uni fied/b"),
            ),
            ("0::/a.slice/b\n", below, Some("/cg/b")),
            ("0::/other\n", below, None),
            ("4:memory:/x\n", hybrid, None),
            (
                "0::/b\n",
                "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n",
                None,
            ),
        ];
        for (cgroups, mounts, expected) in table {
            let found = place(cgroups.as_bytes(), mounts.as_bytes());
            assert_eq!(
                found.as_deref(),
                expected.map(Path::new),
                "{cgroups} {mounts}"
            );
        }
    }

    #[test]
    fn numbers_are_read_by_their_whole_name() {
        let events = "oom 1\noom_kill 3\noom_group_kill 0\n";
        assert_eq!(value(events, "oom_kill"), Some(3));
        assert_eq!(value(events, "max"), None);
    }
}
