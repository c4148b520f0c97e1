//! Notifications to systemd: ready, stopping, watchdog.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::notify::{NotifySign, send};
use crate::os::environment;

/// The notification socket of systemd; none if systemd did not start us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Systemd {
    address: Option<String>,
    watchdog: Option<Duration>,
}

impl Systemd {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. A watchdog for another process is
    /// ignored.
    pub fn from_environment(variables: &[(OsString, OsString)]) -> Self {
        let text = |wanted: &str| {
            let found = environment::texts(variables).find(|(name, _)| *name == wanted);
            found
                .map(|(_, value)| value.to_owned())
                .filter(|value| !value.is_empty())
        };
        let is_ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let us = text("WATCHDOG_USEC")
            .and_then(|us| us.parse().ok())
            .filter(|us| *us > 0);
        let address = text("NOTIFY_SOCKET").filter(|to| to.starts_with(['/', '@']));
        let watchdog = us
            .filter(|_| is_ours && address.is_some())
            .map(Duration::from_micros);
        Self { address, watchdog }
    }

    /// How often to call [`Systemd::alive`]: half of systemd's timeout. None without a watchdog.
    pub fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Reports that the daemon is ready.
    pub fn ready(&self) -> io::Result<()> {
        self.say(NotifySign::Ready)
    }

    /// Reports that the daemon shuts down.
    pub fn stopping(&self) -> io::Result<()> {
        self.say(NotifySign::Stopping)
    }

    /// Sets the text of `systemctl status`.
    pub fn status(&self, text: &str) -> io::Result<()> {
        self.say(NotifySign::Status(text.to_owned()))
    }

    /// Sends a watchdog heartbeat.
    pub fn alive(&self) -> io::Result<()> {
        self.say(NotifySign::Alive)
    }

    fn say(&self, sign: NotifySign) -> io::Result<()> {
        let Some(address) = &self.address else {
            return Ok(());
        };
        send(address, &[sign])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::folder::AgentFolder;
    use crate::supervise::notify::NotifySocket;

    fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn without_systemd_nothing_is_said() {
        let alone = Systemd::from_environment(&environment(&[("NOTIFY_SOCKET", "")]));
        assert_eq!(alone, Systemd::default());
        assert_eq!(alone.alive_interval(), None);
        alone.ready().unwrap();
    }

    #[test]
    fn half_of_the_watchdog_is_the_interval() {
        let interval = |usec: &str, pid: &str| {
            let variables = [
                ("NOTIFY_SOCKET", "@x"),
                ("WATCHDOG_USEC", usec),
                ("WATCHDOG_PID", pid),
            ];
            Systemd::from_environment(&environment(&variables)).alive_interval()
        };
        let own = std::process::id().to_string();
        assert_eq!(interval("30000000", &own), Some(Duration::from_secs(15)));
        assert_eq!(interval("30000000", ""), Some(Duration::from_secs(15)));
        assert_eq!(interval("30000000", "1"), None);
        assert_eq!(interval("0", &own), None);
        assert_eq!(interval("soon", &own), None);
    }

    #[tokio::test]
    async fn systemd_hears_the_daemon() {
        let home = tempfile::tempdir().unwrap();
        let folder = AgentFolder::of(home.path(), &"systemd".parse().unwrap());
        folder.create().unwrap();
        let socket = NotifySocket::bind(&folder, None).unwrap();
        let systemd =
            Systemd::from_environment(&environment(&[("NOTIFY_SOCKET", socket.address())]));
        systemd.ready().unwrap();
        systemd.status("3 agents").unwrap();
        systemd.alive().unwrap();
        systemd.stopping().unwrap();
        let said = [
            NotifySign::Ready,
            NotifySign::Status("3 agents".into()),
            NotifySign::Alive,
            NotifySign::Stopping,
        ];
        assert_eq!(socket.recv().await.unwrap(), said);
    }
}
