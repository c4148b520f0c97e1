//! A daemon that serves and has nothing to do: memory and wake-ups.

use std::thread;
use std::time::Duration;

use super::daemon::Daemon;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::usage::{Memory, Work};

/// After that everything that a start leaves to do is done.
const CALM: Duration = Duration::from_secs(3);
/// What idleness is measured over.
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let daemon = Daemon::start(stage, &stage.subfolder("quiet")?)?;
    thread::sleep(stage.pick(CALM, Duration::from_secs(1)));
    let before = Work::of(&[daemon.pid()])?;
    thread::sleep(stage.pick(IDLE, Duration::from_secs(2)));
    let idle = Work::of(&[daemon.pid()])?.since(before);
    let memory = Memory::of(daemon.pid())?;
    let one = |value: f64| Samples::new(vec![value]);
    Ok(vec![
        Row::new("daemon without agents, RSS", "MiB")
            .figure(Some(&one(memory.rss_kib / 1024.0)))
            .target(Target::ValueMax(25.0)),
        Row::new("daemon without agents, idle CPU", "ms").figure(Some(&one(idle.cpu_ms))),
        Row::new("daemon without agents, idle wake-ups", "").figure(Some(&one(idle.wake_ups))),
    ])
}
