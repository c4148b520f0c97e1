//! The processes of this machine, found by what only they have: a tag, a program, a session.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::clock;

/// Rounds of killing what is left.
const ROUNDS_MAX: u32 = 100;

/// Every live process whose `RELIGHT_ATTEMPT` is of one of these agents: its pid and its tag.
pub fn tagged(is_ours: impl Fn(&str) -> bool) -> Vec<(u32, String)> {
    let tag = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let tag = variables.find_map(|variable| variable.strip_prefix(b"RELIGHT_ATTEMPT="))?;
        String::from_utf8(tag.to_vec()).ok()
    };
    let found = all()
        .into_iter()
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some((pid, tag(pid)?)));
    found.filter(|(_, tag)| is_ours(agent_of(tag))).collect()
}

/// The agent's name in a tag.
fn agent_of(tag: &str) -> &str {
    let end = tag
        .rmatch_indices('.')
        .nth(1)
        .map_or(tag.len(), |(at, _)| at);
    &tag[..end]
}

/// The shims that are of one of these agents: pid and agent. A shim names its agent after
/// `relight-shim`.
pub fn shims(is_ours: impl Fn(&str) -> bool) -> Vec<(u32, String)> {
    let agent = |pid: u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = String::from_utf8(command).ok()?;
        let after = words
            .strip_prefix("relight-shim")?
            .trim_start_matches([' ', '\0']);
        after.split('\0').next().map(str::to_owned)
    };
    let found = all()
        .into_iter()
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some((pid, agent(pid)?)));
    found.filter(|(_, agent)| is_ours(agent)).collect()
}

/// All live processes in a PID namespace, by what `/proc/PID/ns/pid` says.
pub fn in_namespace(namespace: &Path) -> Vec<u32> {
    let is_in = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|found| found == namespace)
    };
    all()
        .into_iter()
        .filter(|pid| is_in(pid) && is_alive(*pid))
        .collect()
}

/// The words that a process was started with.
pub fn words(pid: u32) -> Vec<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = command.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// Whether a process is stopped.
pub fn is_stopped(pid: u32) -> bool {
    state_and_session(pid).is_none_or(|(state, _)| matches!(state, 'T' | 'Z' | 'X'))
}

/// Whether there is such a process that is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    state_and_session(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Kills one by its pid. The caller has just looked at it; nobody else reaps it in between unless its
/// parent lives, and then the moment is too short for the pid to come round again.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Ends all that lives of these agents, shims first: they would bring others back. For the end of a
/// proof or a bench, whatever went wrong in it.
pub fn end_all(is_ours: impl Fn(&str) -> bool) {
    // What is killed before its child is born leaves one more round.
    for _ in 0..ROUNDS_MAX {
        let left = [shims(&is_ours), tagged(&is_ours)].concat();
        left.iter().for_each(|(pid, _)| kill(*pid));
        reap_orphans();
        if left.is_empty() {
            return;
        }
        clock::pause(Duration::from_millis(5));
    }
}

/// Sends any signal.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Reaps dead orphans that came to this process. Those in our own session are somebody's children here
/// and are left to whoever waits for them; shims and agents have sessions of their own.
pub fn reap_orphans() {
    let Some((_, ours)) = state_and_session(std::process::id()) else {
        return;
    };
    for pid in children() {
        let is_orphan =
            state_and_session(pid).is_some_and(|(state, of)| state == 'Z' && of != ours);
        if let (true, Some(pid)) = (is_orphan, pid.try_into().ok().and_then(Pid::from_raw)) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

fn children() -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let of_thread = |thread: &Path| {
        let text = std::fs::read_to_string(thread.join("children")).unwrap_or_default();
        text.split(' ')
            .filter_map(|pid| pid.parse().ok())
            .collect::<Vec<u32>>()
    };
    threads
        .flatten()
        .flat_map(|thread| of_thread(&thread.path()))
        .collect()
}

fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Of `/proc/PID/stat`, where the fields after the name are state, parent, group, session.
fn state_and_session(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(2)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::product::plain;

    #[test]
    fn a_tag_names_its_agent_whatever_dots_are_in_it() {
        assert_eq!(agent_of("writer.7.9f3c"), "writer");
        assert_eq!(agent_of("a.b.7.9f3c"), "a.b");
        assert_eq!(agent_of("untagged"), "untagged");
    }

    #[test]
    fn a_tagged_process_is_found_while_it_lives() {
        let name = format!("found-{}", std::process::id());
        let mut command = plain(Path::new("sleep"), &["60"]);
        let mut child = command
            .env("RELIGHT_ATTEMPT", format!("{name}.1.ff"))
            .spawn()
            .unwrap();
        assert_eq!(
            tagged(|agent| agent == name),
            [(child.id(), format!("{name}.1.ff"))]
        );
        kill(child.id());
        child.wait().unwrap();
        assert_eq!(tagged(|agent| agent == name), []);
    }
}
