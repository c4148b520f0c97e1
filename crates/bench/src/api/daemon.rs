//! A daemon that serves, and the floor beside it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use relight_testkit::world::clock;
use relight_testkit::world::daemon::{Home, Supervisor};

use super::door::{Door, Place};
use crate::stage::Stage;

/// No daemon takes longer to listen.
const LISTEN_MAX: Duration = Duration::from_secs(30);
const SERVING: &str = "serving http://";

/// `relight up` without agents.
pub(crate) struct Daemon {
    supervisor: Option<Supervisor>,
    pub(crate) tcp: Door,
    pub(crate) socket: Door,
}

impl Daemon {
    /// Starts in this home, whatever is in its store.
    pub(crate) fn start(stage: &Stage, folder: &Path) -> anyhow::Result<Daemon> {
        let home = Home::new(stage.relight(), folder)?;
        ensure!(home.has_verb("up"), "there is no `relight up` yet");
        home.configure(&[])?;
        let supervisor = home.serve(&[])?;
        Daemon::of(&home, supervisor)
    }

    /// One that was started already.
    pub(crate) fn of(home: &Home, supervisor: Supervisor) -> anyhow::Result<Daemon> {
        let (tcp, socket) = doors(home, &supervisor)?;
        Ok(Daemon {
            supervisor: Some(supervisor),
            tcp,
            socket,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.supervisor
            .as_ref()
            .expect("it is taken only when it is dropped")
            .pid()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.kill();
        }
    }
}

/// Where a daemon listens that was just started.
pub(crate) fn doors(home: &Home, supervisor: &Supervisor) -> anyhow::Result<(Door, Door)> {
    supervisor.is_ready(home)?;
    let address = || -> anyhow::Result<Option<String>> {
        let said = fs::read_to_string(home.said())?;
        // The last one: the file is of all daemons that were here.
        let found = said
            .rsplit_once(SERVING)
            .and_then(|(_, rest)| rest.split(';').next());
        Ok(found.map(str::to_owned))
    };
    clock::becomes(LISTEN_MAX, || Ok(address()?.is_some()))?;
    let address = address()?.with_context(|| format!("no address: {}", home.last_said()))?;
    let token = fs::read_to_string(home.folder.join("token"))?
        .trim()
        .to_owned();
    let socket = Place::Socket(home.folder.join("relight.sock"));
    let tcp = Door {
        place: Place::Tcp(address.parse()?),
        token: token.clone(),
    };
    Ok((
        tcp,
        Door {
            place: socket,
            token,
        },
    ))
}

/// axum alone, over TCP or at a socket.
pub(crate) struct Floor {
    process: Child,
    pub(crate) door: Door,
}

impl Floor {
    pub(crate) fn start(stage: &Stage, socket: Option<&Path>) -> anyhow::Result<Floor> {
        let mut command = Command::new(stage.floor("floor-axum"));
        command
            .args(socket)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("standard output is a pipe")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let place = match socket {
            Some(path) => Place::Socket(path.to_owned()),
            None => Place::Tcp(line.trim().parse()?),
        };
        // As long as one of the daemon's.
        Ok(Floor {
            process,
            door: Door {
                place,
                token: "x".repeat(64),
            },
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
