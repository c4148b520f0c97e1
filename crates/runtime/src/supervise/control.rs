//! How commands talk with a live supervisor: one JSON object a line, on a Unix stream. A `relight run`
//! listens at `supervisor.sock` in its agent's folder. The daemon listens at `relight.sock` in the home
//! folder and speaks HTTP there; who may come in is decided here for both.
//!
//! A socket belongs to whoever holds the lock beside it, so that one left behind by a dead process is
//! replaced and a live one never is. The holder writes its identity into the lock, so that it can be found
//! when its socket was removed or it does not answer. Leaves to others: what a request does.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net as blocking;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::remote_command::RemoteVerb;
use relight_core::agent::{AgentStateKind, RestartRule};
use relight_core::error_code::ErrorCode;
pub use relight_core::error_code::Refused;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::time::{Span, Time};
use rustix::fs::{FlockOperation, flock};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::folder::AgentFolder;
use super::socket_path::SocketPath;
use crate::boxed::boxed;
use crate::os::{file, process};

/// Maximum length of a request line.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a reply: the status of some ten thousand agents.
const REPLY_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Maximum number of connected clients; more have to wait.
pub const CLIENTS_MAX: usize = 64;
/// Time limit for reading or writing a line.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The identity of a process is shorter.
const IDENTITY_BYTES_MAX: u64 = 1024;
/// How long a killed supervisor may take to exit.
pub(super) const DEATH_MAX: Span = Span::from_secs(2);

/// The socket of the daemon of this home folder.
pub fn daemon_socket(home: &Path) -> PathBuf {
    home.join("relight.sock")
}

/// The socket of the `relight run` of this agent.
pub fn run_socket(folder: &AgentFolder) -> PathBuf {
    folder.path().join("supervisor.sock")
}

/// A request to a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Request {
    /// Live status. Answered with [`SupervisorStatus`].
    Status,
    /// Start the agent. Answered with [`Changed`].
    Start {
        /// Which.
        agent: AgentName,
    },
    /// Stop the agent. Answered with [`Changed`] once its processes are gone.
    Stop {
        /// Which.
        agent: AgentName,
    },
    /// Restart the agent. Answered with [`Changed`] once the new attempt has begun.
    Restart {
        /// Which.
        agent: AgentName,
    },
    /// Shut down. Answered with [`ShutdownSummary`] before the connection is closed.
    Down {
        /// Leave the agents running, to be adopted.
        #[serde(default)]
        keep_agents: bool,
    },
    /// Register an agent that is not in the configuration, permanently. Answered with
    /// [`Registered`].
    Register(Box<AgentRegistration>),
    /// Stop and remove a registered agent. Answered once it is released.
    Unregister {
        /// Which.
        agent: AgentName,
    },
    /// Read the configuration again. Answered with [`Reloaded`].
    Reload,
    /// Recover what died with its supervisor.
    Recover {
        /// Only report what would be done.
        #[serde(default)]
        dry_run: bool,
    },
}

impl Request {
    /// The request for this command.
    pub fn of(agent: AgentName, verb: RemoteVerb) -> Self {
        match verb {
            RemoteVerb::Start => Self::Start { agent },
            RemoteVerb::Stop => Self::Stop { agent },
            RemoteVerb::Restart => Self::Restart { agent },
        }
    }

    /// Whether it may start an attempt.
    pub(super) fn begins_something(&self) -> bool {
        match self {
            Self::Start { .. } | Self::Restart { .. } | Self::Register(_) | Self::Reload => true,
            Self::Stop { .. }
            | Self::Status
            | Self::Down { .. }
            | Self::Unregister { .. }
            | Self::Recover { .. } => false,
        }
    }

    /// The agent and command of a start, stop or restart request.
    pub fn wish(&self) -> Option<(&AgentName, RemoteVerb)> {
        match self {
            Self::Start { agent } => Some((agent, RemoteVerb::Start)),
            Self::Stop { agent } => Some((agent, RemoteVerb::Stop)),
            Self::Restart { agent } => Some((agent, RemoteVerb::Restart)),
            Self::Status
            | Self::Down { .. }
            | Self::Register(_)
            | Self::Unregister { .. }
            | Self::Reload
            | Self::Recover { .. } => None,
        }
    }
}

/// What reading the configuration again changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// How many agents are supervised now.
    pub agents: usize,
    /// New ones, which are started.
    pub added: Vec<AgentName>,
    /// Changed ones. What runs gets its changes with its next attempt.
    pub changed: Vec<AgentName>,
    /// Removed ones, which are stopped.
    pub removed: Vec<AgentName>,
}

/// An agent to register with its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRegistration {
    /// Its name.
    pub name: AgentName,
    /// Program and arguments, without secrets.
    pub command: Vec<String>,
    /// Its working folder; the configuration's when none.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Its preset; `generic` when none.
    #[serde(default)]
    pub preset: Option<String>,
    /// When it is started again.
    #[serde(default)]
    pub restart: RestartRule,
    /// Maximum silence; the configuration's when none, unlimited when zero.
    #[serde(default)]
    pub silence_max: Option<Span>,
    /// Its skills.
    #[serde(default)]
    pub skills: Vec<String>,
}

/// Result of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// It is new.
    pub created: bool,
}

/// The reply of a supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    /// Success.
    Ok(Value),
    /// Failure.
    Error(Refused),
}

/// Result of `start`, `stop` or `restart`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Which agent.
    pub agent: AgentName,
    /// The state before.
    pub previous_state: AgentStateKind,
    /// The state now.
    pub state: AgentStateKind,
    /// The task that its attempt was working on; it continues with the next attempt.
    pub task_interrupted: Option<TaskId>,
    /// The same, if the next attempt has already begun: the previous attempt's work on it was cut off; its
    /// finished steps stay.
    pub task_cancelled: Option<TaskId>,
}

impl Changed {
    /// `task` is the one that was interrupted for it.
    pub fn new(
        agent: AgentName,
        previous_state: AgentStateKind,
        state: AgentStateKind,
        task: Option<TaskId>,
    ) -> Self {
        let task_cancelled = task.clone().filter(|_| state == AgentStateKind::Running);
        Self {
            agent,
            previous_state,
            state,
            task_interrupted: task,
            task_cancelled,
        }
    }
}

/// Reply to `down`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownSummary {
    /// The supervisor's pid.
    pub pid: u32,
    /// How many of its agents were running.
    pub agents: u32,
    /// Why the agents are left running although they were to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Live status of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisorStatus {
    /// The supervisor's pid.
    pub pid: u32,
    /// Agents with a live attempt.
    #[serde(default)]
    pub agents: Vec<AgentSigns>,
    /// Where a browser finds it; none where only the socket is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The version of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Signs of life of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSigns {
    /// Which agent.
    pub agent: AgentName,
    /// Time of the last sign of life.
    pub last_sign_at: Option<Time>,
    /// It declared that it waits until then.
    pub waiting_until: Option<Time>,
    /// It only waits for work in a Relight command.
    #[serde(default)]
    pub waits_for_work: bool,
    /// Its last status text.
    pub status: Option<String>,
    /// `starting`, `working` or `waiting`.
    #[serde(default)]
    pub phase: Option<String>,
}

impl ControlReply {
    /// A successful reply.
    pub fn ok(answer: &impl Serialize) -> Self {
        Self::Ok(serde_json::to_value(answer).expect("answers have string keys"))
    }

    /// The error of a supervisor that is shutting down.
    pub(super) fn ending() -> Self {
        Self::error(ErrorCode::ENDING, "the supervisor is ending", None)
    }

    /// An error reply.
    pub fn error(code: ErrorCode, message: impl Into<String>, hint: Option<String>) -> Self {
        Self::Error(Refused {
            code,
            message: message.into(),
            hint,
        })
    }
}

/// The listening socket of a supervisor, with access control.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket, because another process may have replaced it.
    identity: (u64, u64),
    places: Arc<Semaphore>,
    /// Released by the kernel when this process ends.
    lock: File,
}

impl Control {
    /// Listens; none when a live process already does. Needs a Tokio runtime.
    pub fn bind(path: &Path) -> io::Result<Option<Self>> {
        let at = lock_path(path);
        let lock = match take_lock(&at)? {
            None if has_holder_died(&at) => take_lock(&at)?,
            taken => taken,
        };
        lock.map(|lock| Self::listen(path, lock)).transpose()
    }

    /// Replaces a live process that does not answer: its lock file is unlinked.
    pub fn bind_over(path: &Path) -> io::Result<Self> {
        remove(&lock_path(path))?;
        let lock = take_lock(&lock_path(path))?.ok_or(io::ErrorKind::AddrInUse)?;
        Self::listen(path, lock)
    }

    fn listen(path: &Path, lock: File) -> io::Result<Self> {
        remove(path)?;
        let address = SocketPath::of(path)?;
        let listener = UnixListener::bind(address.as_path())?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        let found = fs::metadata(path)?;
        let identity = (found.dev(), found.ino());
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            identity,
            places,
            lock,
        })
    }

    /// The next client of our own user or root. Cancel-safe.
    #[boxed]
    pub async fn accept(&self) -> io::Result<ControlClient> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("it is never closed");
        let stream = self.accept_stream().await?;
        Ok(ControlClient {
            stream,
            heard: Vec::new(),
            _place: place,
        })
    }

    /// Like `accept`, for another protocol; the caller limits the number of clients.
    #[boxed]
    pub async fn accept_stream(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = match self.listener.accept().await {
                // It disconnected before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                other => other?,
            };
            let own = rustix::process::geteuid().as_raw();
            if stream
                .peer_cred()
                .is_ok_and(|peer| [0, own].contains(&peer.uid()))
            {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let found = fs::metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|found| found == self.identity) {
            // A stale file does no harm.
            let _ = fs::remove_file(&self.path);
        }
        // This process may go on: it is not the holder any more.
        let _ = self.lock.set_len(0);
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Takes the lock. The file is never removed, because a lock on an unlinked file excludes nobody.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // Optional, because the disk may be full.
            let _ = file.set_len(0);
            let _ = identity_of_this_process().and_then(|me| file.write_all_at(&me, 0));
            Ok(Some(file))
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A lock is of this machine, which may be a node for one of its users and none for another.
fn identity_of_this_process() -> io::Result<Vec<u8>> {
    let me = ProcessIdentity {
        node: None,
        ..process::know_me()?.clone()
    };
    Ok(serde_json::to_vec(&me)?)
}

fn recorded_holder(lock: &Path) -> Option<ProcessIdentity> {
    let bytes = file::read_regular(lock, IDENTITY_BYTES_MAX)?;
    serde_json::from_slice(&bytes).ok()
}

/// The live process that a socket belongs to, whether it answers there or not. Proved by its start time
/// and boot, so that no other process with its pid is taken for it. One that was just killed is waited for.
pub fn holder(socket: &Path) -> Option<ProcessIdentity> {
    let holder = recorded_holder(&lock_path(socket)).filter(process::is_alive)?;
    (!process::has_died_within(holder.pid, DEATH_MAX)).then_some(holder)
}

/// Waits for a holder that was just killed; the kernel releases its lock last.
fn has_holder_died(lock: &Path) -> bool {
    recorded_holder(lock).is_some_and(|holder| process::has_died_within(holder.pid, DEATH_MAX))
}

/// A connected client. Dropping it frees its slot.
#[derive(Debug)]
pub struct ControlClient {
    stream: UnixStream,
    heard: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

/// Why a client was disconnected.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It took too long for a line.
    #[error("a client was too slow")]
    TooSlow,
    /// Its line is too long.
    #[error("a client's line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The connection broke.
    #[error("a client's connection broke")]
    Broken(#[from] io::Error),
}

impl ControlClient {
    /// Its next request; none once it has disconnected. Invalid lines are answered here.
    #[boxed]
    pub async fn request(&mut self) -> Result<Option<Request>, ClientError> {
        loop {
            let line = timeout(PATIENCE, self.line())
                .await
                .map_err(|_| ClientError::TooSlow)??;
            let Some(line) = line else { return Ok(None) };
            match serde_json::from_slice(&line) {
                Ok(request) => return Ok(Some(request)),
                Err(error) => {
                    let message = format!("this is not a request: {error}");
                    self.reply(&ControlReply::error(ErrorCode::BAD_REQUEST, message, None))
                        .await?;
                }
            }
        }
    }

    /// Sends a reply.
    #[boxed]
    pub async fn reply(&mut self, reply: &ControlReply) -> Result<(), ClientError> {
        let line = line_of(reply)?;
        timeout(PATIENCE, self.say(&line))
            .await
            .map_err(|_| ClientError::TooSlow)?
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let rest = self.heard.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.heard, rest)));
            }
            if self.heard.len() > LINE_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            self.stream.readable().await?;
            let mut piece = [0; 4096];
            match self.stream.try_read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.heard.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn say(&mut self, mut line: &[u8]) -> Result<(), ClientError> {
        while !line.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(line) {
                Ok(count) => line = &line[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Why there was no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process listens there.
    #[error("nobody listens at {0}")]
    Nobody(PathBuf),
    /// It took too long.
    #[error("no answer within {0}")]
    TooSlow(Span),
    /// The connection broke, or the reply is invalid.
    #[error("the supervisor did not answer")]
    Broken(#[from] io::Error),
}

/// Sends a request and waits for the reply, with a time limit.
pub fn ask(path: &Path, request: &Request, patience: Span) -> Result<ControlReply, AskError> {
    let read = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::Nobody(path.to_path_buf())
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::TooSlow(patience),
        _ => AskError::Broken(error),
    };
    let mut stream = call(path, patience).map_err(read)?;
    stream.write_all(&line_of(request)?).map_err(read)?;
    let mut line = Vec::new();
    BufReader::new(stream)
        .take(REPLY_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .map_err(read)?;
    serde_json::from_slice(&line).map_err(|error| AskError::Broken(error.into()))
}

/// Connects with a time limit for each read and write. The limit also covers connecting, because a
/// frozen supervisor with a full queue blocks there.
pub fn call(path: &Path, patience: Span) -> io::Result<blocking::UnixStream> {
    let address = SocketPath::of(path)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let limit = Some(patience.as_duration().max(Duration::from_millis(1)));
    set_socket_timeout(&socket, Timeout::Send, limit)?;
    set_socket_timeout(&socket, Timeout::Recv, limit)?;
    connect(&socket, &SocketAddrUnix::new(address.as_path())?)?;
    Ok(socket.into())
}

fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;
    use std::thread::JoinHandle;

    use rustix::process::{Pid, Signal, kill_process_group};

    use serde_json::json;

    use super::*;

    /// The name of an agent.
    fn writer() -> AgentName {
        AgentName::new("writer").unwrap()
    }

    /// Asks from a thread, as another process would.
    fn asking(path: &Path, request: Request) -> JoinHandle<Result<ControlReply, AskError>> {
        let path = path.to_path_buf();
        std::thread::spawn(move || ask(&path, &request, Span::from_secs(20)))
    }

    #[tokio::test]
    async fn a_request_is_heard_and_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let control = Control::bind(&path).unwrap().unwrap();
        let asked = asking(&path, Request::Stop { agent: writer() });
        let mut client = control.accept().await.unwrap();
        assert_eq!(
            client.request().await.unwrap(),
            Some(Request::Stop { agent: writer() })
        );
        let changed = Changed::new(
            writer(),
            AgentStateKind::Running,
            AgentStateKind::Stopped,
            None,
        );
        client.reply(&ControlReply::ok(&changed)).await.unwrap();
        assert_eq!(asked.join().unwrap().unwrap(), ControlReply::ok(&changed));
        assert_eq!(client.request().await.unwrap(), None);
    }

    #[test]
    fn what_is_said_on_the_wire_is_stable() {
        let said = |message: Value| message.to_string();
        let down = serde_json::to_value(Request::Down { keep_agents: true }).unwrap();
        let stop = serde_json::to_value(Request::Stop { agent: writer() }).unwrap();
        let no = ControlReply::error(ErrorCode::NOT_FOUND, "no", None);
        let ok = ControlReply::Ok(json!({"pid": 1}));
        let lines = [down, stop, serde_json::to_value(no).unwrap(), json!(ok)].map(said);
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"verb":"down","keep_agents":true}
        {"verb":"stop","agent":"writer"}
        {"error":{"code":"not_found","exit":1,"status":404,"message":"no","hint":null}}
        {"ok":{"pid":1}}
        "#);
        let short: Request = serde_json::from_str(r#"{"verb":"down"}"#).unwrap();
        assert_eq!(short, Request::Down { keep_agents: false });
    }

    #[tokio::test]
    async fn a_live_socket_is_not_replaced_and_a_stale_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let first = Control::bind(&path).unwrap().unwrap();
        assert!(Control::bind(&path).unwrap().is_none());
        drop(first);
        assert!(!path.exists());
        // As a killed process leaves it.
        drop(blocking::UnixListener::bind(&path).unwrap());
        assert!(matches!(
            ask(&path, &Request::Status, Span::ZERO),
            Err(AskError::Nobody(_))
        ));
        let again = Control::bind(&path).unwrap();
        assert!(again.is_some());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn the_holder_is_known_without_its_socket_and_only_while_it_is_the_same_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        assert_eq!(holder(&path), None);
        let control = Control::bind(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let me = holder(&path).unwrap();
        assert_eq!(me.pid, std::process::id());
        drop(control);
        assert_eq!(holder(&path), None, "it holds the lock no more");
        let another = ProcessIdentity {
            start: me.start + 1,
            ..me.clone()
        };
        fs::write(lock_path(&path), serde_json::to_vec(&another).unwrap()).unwrap();
        assert_eq!(holder(&path), None, "another process has its pid");
        fs::write(lock_path(&path), me.pid.to_string()).unwrap();
        assert_eq!(holder(&path), None, "a pid proves nothing");
    }

    /// A process that holds the lock of a socket and was recorded there. Memory is given back before the
    /// lock is: with much of it, it holds its lock for a while after it was killed.
    fn large_holder(path: &Path) -> std::process::Child {
        let script = "exec 9>>$0; flock 9; echo locked\n\
            exec tail -c 150000000 < <(exec 9>&-; head -c 150000000 /dev/zero; echo filled >&2; exec sleep 60)";
        let lock = lock_path(path);
        let mut holder = process::command("bash", &["-c", script, lock.to_str().unwrap()]);
        holder
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        BufReader::new(holder.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let identity = process::identity(holder.id()).unwrap();
        fs::write(lock, serde_json::to_vec(&identity).unwrap()).unwrap();
        holder
    }

    #[tokio::test]
    async fn the_lock_of_a_process_that_is_being_killed_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let mut child = large_holder(&path);
        assert!(Control::bind(&path).unwrap().is_none(), "it lives");
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        let bound = Control::bind(&path).unwrap();
        child.wait().unwrap();
        assert!(bound.is_some());
    }

    #[test]
    fn a_process_that_is_being_killed_is_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let mut child = large_holder(&path);
        assert_eq!(holder(&path).map(|it| it.pid), Some(child.id()));
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        assert_eq!(holder(&path), None);
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn a_path_may_be_longer_than_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let path = daemon_socket(&deep);
        let control = Control::bind(&path).unwrap().unwrap();
        let asked = asking(&path, Request::Reload);
        let mut client = control.accept().await.unwrap();
        assert_eq!(client.request().await.unwrap(), Some(Request::Reload));
        client.reply(&ControlReply::Ok(Value::Null)).await.unwrap();
        assert_eq!(
            asked.join().unwrap().unwrap(),
            ControlReply::Ok(Value::Null)
        );
    }

    #[tokio::test]
    async fn nonsense_is_refused_and_the_next_line_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let control = Control::bind(&path).unwrap().unwrap();
        let mut stream = blocking::UnixStream::connect(&path).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\n{\"verb\":\"status\"}\n")
            .unwrap();
        let mut client = control.accept().await.unwrap();
        assert_eq!(client.request().await.unwrap(), Some(Request::Status));
        drop(client);
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert!(
            heard.starts_with(r#"{"error":{"code":"bad_request""#),
            "{heard}"
        );
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let control = Control::bind(&path).unwrap().unwrap();
        let mut stream = blocking::UnixStream::connect(&path).unwrap();
        let written = std::thread::spawn(move || stream.write_all(&[b'x'; 2 * LINE_BYTES_MAX]));
        let mut client = control.accept().await.unwrap();
        assert!(matches!(client.request().await, Err(ClientError::TooLong)));
        drop(client);
        let _ = written.join().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_says_nothing_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let control = Control::bind(&path).unwrap().unwrap();
        let _silent = blocking::UnixStream::connect(&path).unwrap();
        let mut client = control.accept().await.unwrap();
        assert!(matches!(client.request().await, Err(ClientError::TooSlow)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_in_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = daemon_socket(folder.path());
        let control = Control::bind(&path).unwrap().unwrap();
        let mut outside = Vec::new();
        let mut inside = Vec::new();
        for _ in 0..CLIENTS_MAX {
            outside.push(blocking::UnixStream::connect(&path).unwrap());
            inside.push(control.accept().await.unwrap());
        }
        outside.push(blocking::UnixStream::connect(&path).unwrap());
        assert!(timeout(PATIENCE, control.accept()).await.is_err());
        inside.pop();
        assert!(timeout(PATIENCE, control.accept()).await.is_ok());
    }
}
