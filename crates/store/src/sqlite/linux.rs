//! What only Linux has: the boot-time clock, inotify, and names of file systems.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::commit_watch::Awaited;

/// Milliseconds since boot. Clock changes do not affect it, and it runs while the machine sleeps.
pub(super) fn lease_ms() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// The first 64 bits of the boot id. Without a boot id all boots count as one, and leases only
/// expire by time.
pub(super) fn boot_number() -> i64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0).cast_signed()
}

/// Ends a thread that listens.
pub(super) type Ender = Arc<OwnedFd>;

pub(super) fn ender() -> std::io::Result<Ender> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?))
}

pub(super) fn end(ender: &Ender) {
    // Otherwise it ends at its next wake-up.
    let _ = rustix::io::write(ender, &1u64.to_ne_bytes());
}

/// Writes to a store's files.
pub(super) type Writes = OwnedFd;

pub(super) fn writes_of(store: &Path) -> Option<Writes> {
    let source = inotify::init(inotify::CreateFlags::CLOEXEC).ok()?;
    let folder = store.parent().unwrap_or(Path::new("."));
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    // Files that are moved away or back are news too: the next read finds out.
    let wanted = inotify::WatchFlags::MODIFY
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::DELETE;
    inotify::add_watch(&source, folder, wanted).ok()?;
    Some(source)
}

/// Waits for a write, at most so long.
pub(super) fn wait(writes: &mut Writes, ender: &Ender, ms: u32) -> Awaited {
    let pause = Timespec {
        tv_sec: i64::from(ms / 1_000),
        tv_nsec: i64::from(ms % 1_000) * 1_000_000,
    };
    let mut ready = [
        PollFd::new(&*writes, PollFlags::IN),
        PollFd::new(ender, PollFlags::IN),
    ];
    let is_ready = poll(&mut ready, Some(&pause)).is_ok_and(|count| count > 0);
    if !ready[1].revents().is_empty() {
        return Awaited::End;
    }
    if !is_ready {
        return Awaited::Nothing;
    }
    // One read drains a whole buffer; the content does not matter.
    let mut space = [MaybeUninit::uninit(); 4096];
    let _ = inotify::Reader::new(&*writes, &mut space).next();
    Awaited::Write
}

/// Whether a folder is on one of the usual file systems, told by one call: every command opens the store.
pub(super) fn is_surely_local(folder: &Path) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const BTRFS: u32 = 0x9123_683e;
    const TMPFS: u32 = 0x0102_1994;
    const F2FS: u32 = 0xf2f5_2010;
    let kind = rustix::fs::statfs(folder).map(|found| found.f_type as u32);
    kind.is_ok_and(|kind| [EXT, XFS, BTRFS, TMPFS, F2FS].contains(&kind))
}

/// The name of the file system that the folder is on.
pub(super) fn kind_of(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    longest_mount(&mounts, folder.to_str()?)
}

/// The mount with the longest path that holds the folder; the last one when two are equal.
fn longest_mount(mounts: &str, folder: &str) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let Some(place) = left.split(' ').nth(4) else {
            continue;
        };
        let inside = folder == place
            || place == "/"
            || folder
                .strip_prefix(place)
                .is_some_and(|rest| rest.starts_with('/'));
        let longer = best.is_none_or(|(length, _)| place.len() >= length);
        if inside && longer {
            best = Some((place.len(), right.split(' ').next()?));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_nearest_to_the_folder_counts() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 0:9 / /home rw shared:1 - nfs4 host:/home rw\n\
                      3 2 8:2 / /home/me/disk rw - xfs /dev/b rw\n";
        let kind = |folder| longest_mount(mounts, folder);
        assert_eq!(kind("/var").as_deref(), Some("ext4"));
        assert_eq!(kind("/home/me").as_deref(), Some("nfs4"));
        assert_eq!(kind("/home/me/disk/x").as_deref(), Some("xfs"));
        assert_eq!(kind("/homes").as_deref(), Some("ext4"));
    }
}
