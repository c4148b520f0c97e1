//! What a process costs: memory, processor time, wake-ups, as the kernel counts them.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Memory of one or more processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) rss_kib: f64,
    /// What is shared is split among those who share it.
    pub(crate) pss_kib: f64,
}

/// Counts since the start of a process, over all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) cpu_ms: f64,
    pub(crate) wake_ups: f64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Memory> {
        let text = read(&format!("/proc/{pid}/smaps_rollup"))?;
        let memory = Memory {
            rss_kib: field(&text, "Rss:")?,
            pss_kib: field(&text, "Pss:")?,
        };
        Ok(memory)
    }

    /// The mean over all of them; nothing when there are none.
    pub(crate) fn mean(pids: &[u32]) -> anyhow::Result<Memory> {
        let mut sum = Memory::default();
        for pid in pids {
            let one = Memory::of(*pid)?;
            sum.rss_kib += one.rss_kib / pids.len() as f64;
            sum.pss_kib += one.pss_kib / pids.len() as f64;
        }
        Ok(sum)
    }
}

impl Work {
    pub(crate) fn of(pids: &[u32]) -> anyhow::Result<Work> {
        let mut sum = Work::default();
        for pid in pids {
            for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
                // A thread that has ended meanwhile did little.
                let _ = sum.add_thread(&thread?.path());
            }
        }
        Ok(sum)
    }

    pub(crate) fn since(self, before: Work) -> Work {
        Work {
            cpu_ms: self.cpu_ms - before.cpu_ms,
            wake_ups: self.wake_ups - before.wake_ups,
        }
    }

    fn add_thread(&mut self, thread: &Path) -> anyhow::Result<()> {
        let status = read(&thread.join("status").display().to_string())?;
        let voluntary = field(&status, "voluntary_ctxt_switches:")?;
        self.wake_ups += voluntary + field(&status, "nonvoluntary_ctxt_switches:")?;
        let schedule = read(&thread.join("schedstat").display().to_string())?;
        let ns = schedule.split(' ').next().context("time on a processor")?;
        self.cpu_ms += ns.parse::<f64>()? / 1e6;
        Ok(())
    }
}

/// How long the first thread of a process was ready and had no processor, since its start.
pub(crate) fn waited_ms(pid: u32) -> anyhow::Result<f64> {
    let schedule = read(&format!("/proc/{pid}/task/{pid}/schedstat"))?;
    let ns = schedule
        .split(' ')
        .nth(1)
        .context("time without a processor")?;
    Ok(ns.parse::<f64>()? / 1e6)
}

/// The most memory that a process had so far; a dead one has none.
pub(crate) fn peak_kib(pid: u32) -> anyhow::Result<f64> {
    field(&read(&format!("/proc/{pid}/status"))?, "VmHWM:")
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.split_whitespace().next());
    Ok(value.with_context(|| name.to_owned())?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_works_when_it_is_woken() {
        use std::io::{Read as _, Write as _};
        use std::process::Stdio;
        let mut cat = relight_runtime::os::process::command("cat", &[] as &[&str]);
        let mut cat = cat
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = cat.id();
        let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let mut echo = || {
            input.write_all(b"x").unwrap();
            output.read_exact(&mut [0]).unwrap();
        };
        echo();
        let memory = Memory::of(pid).unwrap();
        assert!(
            memory.rss_kib >= memory.pss_kib && memory.pss_kib > 0.0,
            "{memory:?}"
        );
        let before = Work::of(&[pid]).unwrap();
        (0..3).for_each(|_| echo());
        assert!(Work::of(&[pid]).unwrap().since(before).wake_ups >= 1.0);
        drop(input);
        cat.wait().unwrap();
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "nonvoluntary_ctxt_switches:\t3\nvoluntary_ctxt_switches:\t5\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:").unwrap(), 5.0);
    }
}
