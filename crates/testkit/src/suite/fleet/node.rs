//! One node of a fleet under proof: a machine, its clock and its daemon.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::Signal;

use super::schedule::Trouble;
use crate::world::machine::Machine;
use crate::world::{clock, processes};

/// By what a wall clock is off.
pub(super) const SKEWS: [&str; 4] = ["+0", "-1h", "+1h", "+30d"];

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) machine: Machine,
    /// The file that says by what its wall clock is off.
    pub(super) clock_file: PathBuf,
    /// What befalls it now.
    pub(super) trouble: Option<Trouble>,
    pub(super) started_at: Instant,
    pub(super) frozen_from_ns: u64,
}

impl Node {
    /// Starts its daemon.
    pub(super) fn start(&mut self, relight: &Path) -> anyhow::Result<()> {
        let configuration = self
            .machine
            .home()
            .parent()
            .context("a home has a folder")?;
        let configuration = configuration.join("relight.toml").display().to_string();
        let relight = relight.display().to_string();
        // Power cuts are what this is about: nobody is to wait for a person after the third.
        let words = [
            &relight,
            "up",
            "--config",
            &configuration,
            "--no-http",
            "--resume-anyway",
        ];
        self.machine
            .start(&[&words[..], &["--node", &self.name]].concat())?;
        self.started_at = clock::now();
        Ok(())
    }

    /// Sends its daemon a signal, where one lives.
    pub(super) fn signal_daemon(&self, signal: Signal) {
        if let Some(pid) = self.machine.daemon() {
            processes::signal(pid, signal);
        }
    }
}
