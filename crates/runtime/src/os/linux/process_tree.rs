//! Everything that descends from a process, and signals to all of it.
//!
//! A process counts only when it is proved to be part of the tree: its parent is the root, or a proved process that still
//! lives after the child named it as its parent. It is signalled through a handle that was opened
//! before its start time was compared.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use relight_core::lease::ProcessIdentity;
use rustix::process::{Pid, Signal, kill_process_group};

use super::pidfd;
use crate::os::process;

/// Deeper ones come up when those above them are gone.
const DEPTH_MAX: usize = 100;

/// How often one round of killing looks again for what was born meanwhile.
const LOOKS_MAX: usize = 10;

/// A process of the tree.
#[derive(Debug, Clone, Copy)]
struct Descendant {
    pid: u32,
    stat: process::Stat,
}

/// Sends a signal to each process below this one, once. A stopped one is woken, or it would not hear.
///
/// All are found before the first is told, or the children of those that end at once would be missed.
pub fn signal(signal: Signal) {
    for descendant in &descendants() {
        tell(descendant, signal);
        if descendant.stat.state == 'T' {
            tell(descendant, Signal::CONT);
        }
    }
}

/// Sends SIGKILL to all below this process, and again to what was born meanwhile.
///
/// Groups go first, at one blow, so that nothing forks away between two signals; not where they may
/// hold others (`groups_are_ours`).
pub fn kill(groups_are_ours: bool) {
    for _ in 0..LOOKS_MAX {
        let found = descendants();
        if groups_are_ours {
            kill_groups(&found);
        }
        for descendant in &found {
            tell(descendant, Signal::KILL);
        }
        if living(&found) == 0 {
            break;
        }
    }
}

/// How many are alive below this process.
pub(crate) fn count() -> u32 {
    living(&descendants())
}

/// Kills everything below another process, which lives on. If that adopts what loses its parent, as a shim
/// does, nothing escapes meanwhile.
pub(crate) fn kill_below(root: &ProcessIdentity) {
    for _ in 0..LOOKS_MAX {
        let Ok(Some(handle)) = pidfd::open_identified(root) else {
            return;
        };
        let mut found = Vec::new();
        collect(root.pid, Some(&handle), 0, &mut found);
        for descendant in &found {
            tell(descendant, Signal::KILL);
        }
        if living(&found) == 0 {
            return;
        }
    }
}

fn living(found: &[Descendant]) -> u32 {
    let alive = found
        .iter()
        .filter(|descendant| descendant.stat.is_alive())
        .count();
    u32::try_from(alive).unwrap_or(u32::MAX)
}

/// Kills the groups that a proved process has just belonged to; its membership keeps their numbers from
/// being reused.
fn kill_groups(found: &[Descendant]) {
    let own = process::stat(std::process::id()).map(|stat| stat.group);
    let groups: BTreeSet<u32> = found
        .iter()
        .map(|descendant| descendant.stat.group)
        .collect();
    for group in groups
        .into_iter()
        .filter(|group| *group > 1 && Some(*group) != own)
    {
        if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
            // One that is gone is what we want; one that refuses is told one by one below.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn tell(descendant: &Descendant, signal: Signal) {
    let Ok(handle) = pidfd::open(descendant.pid) else {
        return;
    };
    let is_the_same =
        process::stat(descendant.pid).is_some_and(|stat| stat.start == descendant.stat.start);
    if is_the_same {
        // A process that may not be signalled is counted among the survivors in the end.
        let _ = pidfd::signal(&handle, signal);
    }
}

fn descendants() -> Vec<Descendant> {
    let mut found = Vec::new();
    collect(std::process::id(), None, 0, &mut found);
    found
}

/// `handle` is on the parent; none where that is this process.
fn collect(parent: u32, handle: Option<&OwnedFd>, depth: usize, found: &mut Vec<Descendant>) {
    for pid in process::children(parent) {
        let Ok(child_handle) = pidfd::open(pid) else {
            continue;
        };
        let Some(stat) = process::stat(pid) else {
            continue;
        };
        let parent_lives = handle.is_none_or(|handle| !pidfd::has_ended(handle));
        if stat.parent != parent || !parent_lives {
            continue;
        }
        found.push(Descendant { pid, stat });
        if depth < DEPTH_MAX {
            collect(pid, Some(&child_handle), depth + 1, found);
        }
    }
}
