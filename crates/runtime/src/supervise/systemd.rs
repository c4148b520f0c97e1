//! The daemon under systemd: says that it is up, that it ends, and that it lives.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::notify::{Sign, send};
use crate::doors::environment;

/// What systemd wants to hear; nothing when it did not start us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Systemd {
    address: Option<String>,
    watchdog: Option<Duration>,
}

impl Systemd {
    /// As these variables say: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`. A watchdog that is
    /// meant for another process is none of ours.
    pub fn from_environment(variables: &[(OsString, OsString)]) -> Self {
        let text = |wanted: &str| {
            let found = environment::texts(variables).find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
        };
        let is_ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let us = text("WATCHDOG_USEC").and_then(|us| us.parse().ok()).filter(|us| *us > 0);
        let address = text("NOTIFY_SOCKET").filter(|to| to.starts_with(['/', '@']));
        let watchdog = us.filter(|_| is_ours && address.is_some()).map(Duration::from_micros);
        Self { address, watchdog }
    }

    /// How often to call [`Systemd::alive`]: half of what systemd waits. None when it does not.
    pub fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// The daemon is up.
    pub fn ready(&self) -> io::Result<()> {
        self.say(Sign::Ready)
    }

    /// The daemon ends.
    pub fn stopping(&self) -> io::Result<()> {
        self.say(Sign::Stopping)
    }

    /// What it is doing, for `systemctl status`.
    pub fn status(&self, text: &str) -> io::Result<()> {
        self.say(Sign::Status(text.to_owned()))
    }

    /// The daemon lives.
    pub fn alive(&self) -> io::Result<()> {
        self.say(Sign::Alive)
    }

    fn say(&self, sign: Sign) -> io::Result<()> {
        let Some(address) = &self.address else { return Ok(()) };
        send(address, &[sign])
    }
}
