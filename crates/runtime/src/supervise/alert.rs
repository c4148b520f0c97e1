//! Tells somebody: runs the user's command with the event as JSON on its standard input.
//!
//! Beside supervision, never in its way: bounded in time, and its failure changes nothing.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use relight_core::ids::AgentName;
use serde_json::json;

use super::word::Word;
use crate::doors::{child, clock, process};

/// How long an alert's command may take.
const ALERT_MAX: Duration = Duration::from_secs(10);

/// Whom to tell.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    /// A program and its arguments; nobody when empty.
    pub command: Vec<Word>,
}

impl Alerts {
    /// Tells of an agent, outside of the caller's way.
    pub(super) fn tell(&self, agent: &AgentName, text: &str) {
        if self.command.is_empty() {
            return;
        }
        let command = self.command.clone();
        let event = json!({
            "kind": "alert", "at": clock::now(), "agent": agent, "text": text,
        });
        let named = std::thread::Builder::new().name("relight-alert".to_owned());
        // Without a thread nobody is told now; the event in the store still tells.
        let _ = named.spawn(move || run(&command, &event.to_string()));
    }
}

fn run(command: &[Word], event: &str) {
    let words: Vec<_> = command.iter().map(Word::as_os_str).collect();
    let mut child = process::command(words[0], &words[1..]);
    child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = child.spawn() else { return };
    if let Some(mut input) = child.stdin.take() {
        // A command that does not read is told by being run.
        let _ = input.write_all(event.as_bytes());
    }
    let _ = child::wait_or_kill(&mut child, ALERT_MAX);
}
