//! An agent's folder with a shim in it, and a pipe on which its agents can be heard.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::ids::AgentName;
use relight_core::lease::{Fence, ProcessIdentity};
use relight_core::time::Span;
use relight_runtime::os::word::Word;
use relight_runtime::os::{pidfd, process};
use relight_runtime::presets::Rung;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::shim::client::{self, ShimConnection};
use relight_runtime::supervise::shim::wire::{ExitRecord, Input, Order, ShimReport, StartOrder};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// Every wait of these tests is bounded by this.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const SIGINT: i32 = 2;
pub(crate) const SIGTERM: i32 = 15;

pub(crate) struct Stage {
    home: TempDir,
    pub(crate) folder: AgentFolder,
    voices: pipe::Receiver,
    heard: Vec<u8>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = AgentFolder::of(home.path(), &name());
        Self::in_folder(home, folder)
    }

    /// In a folder whose path is longer than a socket's address can be.
    pub(crate) fn far_away() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = AgentFolder::of(&home.path().join("far".repeat(50)), &name());
        Self::in_folder(home, folder)
    }

    fn in_folder(home: TempDir, folder: AgentFolder) -> Self {
        folder.create().unwrap();
        let place = home.path().join("voices");
        mknodat(CWD, &place, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let voices = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(&place)
            .unwrap();
        Self {
            home,
            folder,
            voices,
            heard: Vec::new(),
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.logs().join("agent.log")
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap()
    }

    /// A shim that was just started.
    pub(crate) async fn shim(&self) -> Shim {
        let lock = client::take_lock(&self.folder)
            .unwrap()
            .expect("nothing of it lives");
        self.shim_with(lock, None).await
    }

    pub(crate) async fn shim_with(&self, lock: OwnedFd, terminal: Option<[OwnedFd; 3]>) -> Shim {
        let program = Path::new(env!("CARGO_BIN_EXE_relight-shim"));
        let streams = terminal.into_iter().flatten().collect();
        let connection =
            client::spawn(program, &self.folder, lock, streams, &name(), Fence(1)).unwrap();
        Shim::greeted(connection).await
    }

    /// The shim that lives already, as another supervisor finds it.
    pub(crate) async fn adopted(&self, fence: u64) -> Shim {
        let found = client::connect(&self.folder, Fence(fence)).await.unwrap();
        Shim::greeted(found.expect("a shim lives")).await
    }

    pub(crate) fn is_locked(&self) -> bool {
        client::take_lock(&self.folder).unwrap().is_none()
    }

    /// An order to run a shell script, which finds the pipe in `$VOICES`.
    pub(crate) fn script(&self, script: &str) -> StartOrder {
        self.order(&["/bin/sh", "-c", script])
    }

    pub(crate) fn order(&self, command: &[&str]) -> StartOrder {
        let voices = self.home().join("voices").into_os_string();
        StartOrder {
            tag: tag(1),
            number: 1,
            command: command.iter().map(|word| (*word).into()).collect(),
            environment: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("VOICES".into(), voices.into()),
            ],
            folder: self.home().to_owned(),
            log: self.log(),
            input: Input::Null,
            nofile: None,
            user: None,
            cgroups: None,
            leftover_grace: Span::from_secs(10),
            guard: None,
        }
    }

    /// The next line that an agent wrote to the pipe.
    pub(crate) async fn hear(&mut self) -> String {
        timeout(PATIENCE, async {
            loop {
                if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<_> = self.heard.drain(..=end).collect();
                    return String::from_utf8(line).unwrap().trim_end().to_owned();
                }
                self.voices.readable().await.unwrap();
                let mut chunk = [0; 512];
                match self.voices.try_read(&mut chunk) {
                    Ok(len) => self.heard.extend_from_slice(&chunk[..len]),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
        })
        .await
        .expect("an agent is heard")
    }

    /// The next line, which is a pid.
    pub(crate) async fn hear_pid(&mut self) -> u32 {
        self.hear().await.parse().unwrap()
    }

    pub(crate) fn record(&self, number: u32) -> ExitRecord {
        let text = std::fs::read_to_string(self.folder.exit_record(number)).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    }
}

/// Whatever a test left is ended, by the newest right there is.
impl Drop for Stage {
    fn drop(&mut self) {
        let Ok(mut stream) = UnixStream::connect(self.folder.shim_socket()) else {
            return;
        };
        for order in [
            Order::Hello {
                fence: Fence(u64::MAX),
            },
            Order::Stop {
                ladder: Vec::new(),
                tag: None,
            },
        ] {
            let _ = writeln!(stream, "{}", serde_json::to_string(&order).unwrap());
        }
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.find(|line| line.contains("\"ended\"") || line.contains("\"running\":null"));
    }
}

pub(crate) struct Shim {
    pub(crate) connection: ShimConnection,
    pub(crate) identity: ProcessIdentity,
    pub(crate) running: Option<(AttemptTag, ProcessIdentity)>,
}

impl Shim {
    async fn greeted(connection: ShimConnection) -> Self {
        let mut connection = connection;
        match next(&mut connection).await {
            Some(ShimReport::Status { shim, running }) => Self {
                connection,
                identity: shim,
                running,
            },
            other => panic!("no status but {other:?}"),
        }
    }

    pub(crate) async fn send(&mut self, order: Order) {
        timeout(PATIENCE, self.connection.send(&order))
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) async fn next(&mut self) -> Option<ShimReport> {
        next(&mut self.connection).await
    }

    pub(crate) async fn start(&mut self, order: StartOrder) -> ProcessIdentity {
        self.send(Order::Start(Box::new(order))).await;
        match self.next().await {
            Some(ShimReport::Started { process, .. }) => process,
            other => panic!("not started but {other:?}"),
        }
    }

    pub(crate) async fn stop(&mut self, ladder: &[(i32, u64)]) {
        let rung = |(signal, ms): &(i32, u64)| Rung {
            signal: *signal,
            wait: Span::from_ms(*ms),
        };
        self.send(Order::Stop {
            ladder: ladder.iter().map(rung).collect(),
            tag: None,
        })
        .await;
    }

    pub(crate) async fn ended(&mut self) -> ExitRecord {
        match self.next().await {
            Some(ShimReport::Ended(record)) => record,
            other => panic!("not ended but {other:?}"),
        }
    }

    /// Starts what ends by itself, and waits for it.
    pub(crate) async fn run(&mut self, order: StartOrder) -> ExitRecord {
        self.start(order).await;
        self.ended().await
    }

    /// Starts what cannot be started.
    pub(crate) async fn fail(&mut self, order: StartOrder) -> ExitRecord {
        self.send(Order::Start(Box::new(order))).await;
        self.ended().await
    }

    pub(crate) async fn quit(mut self) {
        self.send(Order::Quit).await;
        assert_eq!(self.next().await, None);
    }
}

pub(crate) async fn next(connection: &mut ShimConnection) -> Option<ShimReport> {
    timeout(PATIENCE, connection.next())
        .await
        .expect("the shim answers")
        .unwrap()
}

/// Waits, without looking again and again, until a process that is not our child is gone.
pub(crate) async fn gone(pid: u32) {
    let Ok(handle) = pidfd::open(pid) else { return };
    timeout(PATIENCE, pidfd::ended(handle))
        .await
        .expect("it ends")
        .unwrap();
}

pub(crate) fn name() -> AgentName {
    "writer".parse().unwrap()
}

pub(crate) fn tag(number: u32) -> AttemptTag {
    AttemptTag::new(&name(), number, 7)
}

pub(crate) fn words(words: &[&[u8]]) -> Vec<Word> {
    use std::os::unix::ffi::OsStrExt;
    words
        .iter()
        .map(|word| std::ffi::OsStr::from_bytes(word).into())
        .collect()
}

/// Whether there is such a process, dead or alive.
pub(crate) fn exists(pid: u32) -> bool {
    process::stat(pid).is_some()
}

pub(crate) fn kill(pid: u32) {
    pidfd::signal(pidfd::open(pid).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn read_to_end(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Reset instead of ended: it had not read everything.
    let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
    bytes
}
