//! `relight up -d`: the daemon in a session of its own. Waits until it serves, says where, and leaves its
//! log in the home.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use relight_core::time::Span;
use relight_runtime::os::{file, process};
use relight_runtime::supervise::control::SupervisorStatus;
use relight_runtime::supervise::daemon_client::{self, DaemonState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome, cannot_use};
use crate::output;

/// How long the daemon may take to serve; a large store may have to be upgraded first.
const START_MAX: Span = Span::from_secs(120);
/// How long another daemon may take to say where it serves.
const ANSWER_MAX: Span = Span::from_secs(2);
/// A longer log is set aside when the daemon starts.
const LOG_BYTES_MAX: u64 = 10_000_000;
/// Of what the daemon said before it ended, the end.
const SAID_BYTES_MAX: u64 = 64 << 10;

/// What the daemon tells whoever started it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ReadyReport {
    pid: u32,
    url: Option<String>,
    /// Agents that cannot be started.
    warnings: Vec<String>,
}

/// Where the daemon of this home writes its log when nobody watches it.
pub(super) fn log_file(home: &Path) -> PathBuf {
    home.join("daemon.log")
}

/// Starts the same command line once more, without a terminal.
pub(super) fn start(environment: &Environment) -> Outcome {
    let home = environment.state_folder()?;
    let log_path = log_file(&home);
    let (log, begin) = open_log(&home, &log_path).map_err(|error| cannot_use(&log_path, &error))?;
    let mut child = spawn(&log)
        .map_err(|error| Failure::new(Exit::Io, format!("cannot start the daemon: {error}")))?;
    let stdout = child.stdout.take().expect("it is a pipe");
    match until_ready(stdout) {
        DaemonStart::Ready(ready) => {
            tell(environment, &ready, &log_path);
            Ok(0)
        }
        DaemonStart::Late => {
            let text = format!("the daemon (pid {}) is still starting", child.id());
            Err(Failure::new(Exit::Busy, text)
                .hint(format!("relight status; its log is {}", log_path.display())))
        }
        DaemonStart::Ended => {
            let failure = ended(child, &log_path, begin);
            match daemon_client::find(&home, ANSWER_MAX) {
                DaemonState::Answers(other) if failure.exit == Exit::Busy => Err(runs(&other)),
                _ => Err(failure),
            }
        }
    }
}

/// For the daemon itself: the terminal that it was started from is not its own.
pub(super) fn leave_terminal() {
    // It fails only for the leader of a group, which whoever was just started is not.
    let _ = rustix::process::setsid();
}

/// For the daemon itself: tells whoever started it, once. Nobody reads its standard output after that.
pub(super) fn report_ready(url: Option<String>, warnings: &[String]) {
    let (pid, warnings) = (std::process::id(), warnings.to_vec());
    output::json_line(&ReadyReport { pid, url, warnings });
    if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

fn open_log(home: &Path, path: &Path) -> io::Result<(File, u64)> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)?;
    if fs::metadata(path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    let log = file::open_to_append(path)?;
    let begin = log.metadata()?.len();
    Ok((log, begin))
}

fn spawn(log: &File) -> io::Result<Child> {
    let program = std::env::current_exe()?;
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    words.push("--is-detached".into());
    process::command(program, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()
}

enum DaemonStart {
    Ready(ReadyReport),
    Late,
    Ended,
}

/// Its standard output says one line, or ends with it.
fn until_ready(stdout: ChildStdout) -> DaemonStart {
    let limit = Timespec::try_from(START_MAX.as_duration()).ok();
    let is_late = poll(&mut [PollFd::new(&stdout, PollFlags::IN)], limit.as_ref()) == Ok(0);
    if is_late {
        return DaemonStart::Late;
    }
    let mut line = String::new();
    let read = BufReader::new(stdout.take(SAID_BYTES_MAX)).read_line(&mut line);
    match read.ok().and_then(|_| serde_json::from_str(&line).ok()) {
        Some(ready) => DaemonStart::Ready(ready),
        None => DaemonStart::Ended,
    }
}

/// The daemon that was there before.
fn runs(daemon: &SupervisorStatus) -> Failure {
    let (pid, place) = (daemon.pid, serves(daemon.url.as_deref()));
    Failure::new(
        Exit::Busy,
        format!("the daemon already runs (pid {pid}) and {place}"),
    )
    .hint("relight reload applies a changed relight.toml; relight status shows it; relight up -d --take-over replaces it and keeps its agents")
}

fn serves(url: Option<&str>) -> String {
    match url {
        Some(url) => format!("serves {url}"),
        None => "serves its socket only".to_owned(),
    }
}

fn tell(environment: &Environment, ready: &ReadyReport, log: &Path) {
    let url = serves(ready.url.as_deref());
    let text = format!(
        "the daemon runs (pid {}) and {url}\n  log: {}\n  relight status shows it, relight down ends it",
        ready.pid,
        log.display()
    );
    let value = serde_json::json!({
        "pid": ready.pid, "url": ready.url, "log": log, "warnings": ready.warnings,
    });
    for warning in &ready.warnings {
        output::note(environment, warning);
    }
    output::answer(environment, &value, &text);
}

/// Why it ended, as it said in its log.
fn ended(mut child: Child, log: &Path, begin: u64) -> Failure {
    let code = child.wait().ok().and_then(|status| status.code());
    let exit = Exit::ALL
        .into_iter()
        .find(|exit| Some(*exit as i32) == code)
        .unwrap_or(Exit::Io);
    let said = said_since(log, begin).unwrap_or_default();
    let why = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("relight: "));
    let hint = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("  try: "));
    let text = match why {
        Some(why) => format!("the daemon did not start: {why}"),
        None => "the daemon ended before it served".to_owned(),
    };
    let log = format!("its log is {}", log.display());
    Failure::new(exit, text).hint(match hint {
        Some(hint) => format!("{hint}; {log}"),
        None => log,
    })
}

fn said_since(log: &Path, begin: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(begin))?;
    let mut said = Vec::new();
    file.take(SAID_BYTES_MAX).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}
