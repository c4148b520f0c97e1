//! Tells somebody: runs the user's command with the event as JSON on its standard input.
//!
//! Beside supervision, never in its way: bounded in time, and its failure changes nothing.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use relight_core::ids::AgentName;
use serde_json::json;

use super::notice::{Notices, What};
use super::word::Word;
use crate::doors::{child, clock, process};

/// How long an alert's command may take.
const ALERT_MAX: Duration = Duration::from_secs(10);

/// Whom to tell.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    /// A program and its arguments; nobody when empty.
    pub command: Vec<Word>,
    /// The folder it runs in; ours when empty.
    pub folder: PathBuf,
}

impl Alerts {
    /// Tells of an agent, outside of the caller's way.
    pub(super) fn tell(&self, agent: &AgentName, text: &str, notices: &Notices) {
        if self.command.is_empty() {
            return;
        }
        let (alerts, notices, about) = (self.clone(), notices.clone(), agent.clone());
        let event = json!({
            "kind": "alert", "at": clock::now(), "agent": agent, "text": text,
        });
        let named = std::thread::Builder::new().name("relight-alert".to_owned());
        // Without a thread nobody is told now; the event in the store still tells.
        let _ = named.spawn(move || {
            if let Err(error) = alerts.run(&event.to_string()) {
                let program = alerts.command[0].to_text();
                let text = format!("nobody was told: {program} cannot be run: {error}");
                notices.tell(&about, What::Trouble(text));
            }
        });
    }

    fn run(&self, event: &str) -> io::Result<()> {
        let words: Vec<_> = self.command.iter().map(Word::as_os_str).collect();
        let mut command = process::command(words[0], &words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        if !self.folder.as_os_str().is_empty() {
            command.current_dir(&self.folder);
        }
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // A command that does not read is told by being run.
            let _ = input.write_all(format!("{event}\n").as_bytes());
        }
        match child::wait_or_kill(&mut child, ALERT_MAX) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(io::Error::other(format!("it ended with {status}"))),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
