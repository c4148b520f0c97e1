//! The first process of a machine of a fleet: starts what it is told, reaps whoever is left to it.

use std::fs::File;
use std::io::BufRead as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{WaitOptions, wait};

use super::COMPLETED;
use crate::world::clock;

/// How long it waits for a child where it has none.
const IDLE: Duration = Duration::from_millis(20);

/// Lives until nobody tells it anything any more; the machine ends with it. Each line of standard input
/// is a program with its arguments, with tabs between.
pub fn run(said: &Path) -> anyhow::Result<u8> {
    std::thread::spawn(reap);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split('\t').collect();
        let Some((program, arguments)) = words.split_first() else {
            continue;
        };
        let said = File::options().append(true).create(true).open(said)?;
        let mut command = relight_runtime::os::process::command(Path::new(program), arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()?;
    }
    Ok(COMPLETED)
}

fn reap() {
    loop {
        if wait(WaitOptions::empty()).is_err() {
            clock::pause(IDLE);
        }
    }
}
