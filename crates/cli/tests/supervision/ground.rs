//! Real supervisors over real agents: started, watched from outside, and cleared away whatever becomes
//! of the test.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::relight::{Ran, Stage};

/// What is waited for comes sooner, even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The first lines of an agent that complains when a second copy of it lives, and says when it began.
pub(crate) const ONLY_ONE: &str = "exec 9>>only.lock\n\
    flock -n 9 || echo \"doubled: $$\" >>complaints\n\
    echo $$ >>births\n";

/// A stage whose processes end with it.
pub(crate) struct Ground {
    pub(crate) stage: Stage,
}

/// A supervisor that runs beside the test.
pub(crate) struct Supervisor {
    child: Child,
    said: PathBuf,
    shown: PathBuf,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let stage = Stage::new();
        let program = env!("CARGO_BIN_EXE_relight");
        std::os::unix::fs::symlink(program, stage.folder.path().join("bin/relight")).unwrap();
        Self { stage }
    }

    /// A ground with one agent, `work/agent`, in bash.
    pub(crate) fn with_agent(script: &str) -> Self {
        let ground = Self::new();
        ground.script("agent", script);
        ground
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        // Written beside and renamed: one that is open for writing cannot be started.
        let (draft, path) = (self.work("draft"), self.work(name));
        std::fs::write(&draft, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(draft, path).unwrap();
    }

    pub(crate) fn config(&self, text: &str) {
        std::fs::write(self.work("relight.toml"), text).unwrap();
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.stage.folder.path().join("work").join(name)
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.stage.folder.path().join("home").join(name)
    }

    /// A file that agents write; empty before they have.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work(name)).unwrap_or_default()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// Waits until a file has so many lines.
    pub(crate) fn until_lines(&self, name: &str, count: usize) -> Vec<String> {
        until(&format!("{count} lines in {name}"), || {
            let lines = self.lines(name);
            (lines.len() >= count).then_some(lines)
        })
    }

    /// The pids of all attempts so far, once there are so many.
    pub(crate) fn births(&self, count: usize) -> Vec<u32> {
        self.until_lines("births", count)
            .iter()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    pub(crate) fn call(&self, words: &[&str]) -> Ran {
        self.stage.run(words)
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let ran = self.call(&[words, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    pub(crate) fn agents(&self) -> Vec<Value> {
        self.json(&["ps"])["items"].as_array().unwrap().clone()
    }

    pub(crate) fn agent(&self, name: &str) -> Value {
        self.json(&["ps", name])["items"][0].clone()
    }

    pub(crate) fn state(&self, name: &str) -> String {
        self.agent(name)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until the agent is so; what `ps` said of it then.
    pub(crate) fn until_agent(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        let found = becomes(|| {
            let ran = self.call(&["ps", name, "--json"]);
            let answer: Value = serde_json::from_str(&ran.stdout).ok()?;
            seen = answer["items"][0].clone();
            wanted(&seen).then(|| seen.clone())
        });
        found.unwrap_or_else(|| panic!("{name} stays {seen:#}"))
    }

    pub(crate) fn until_state(&self, name: &str, state: &str) -> Value {
        self.until_agent(name, |agent| agent["state"] == state)
    }

    /// Waits for an attempt that runs; its pid.
    pub(crate) fn until_runs(&self, name: &str, attempt: u32) -> u32 {
        let agent = self.until_agent(name, |agent| {
            agent["state"] == "running" && agent["attempt"] == attempt && agent["pid"].is_u64()
        });
        u32::try_from(agent["pid"].as_u64().unwrap()).unwrap()
    }

    /// All deaths of an agent, oldest first.
    pub(crate) fn deaths(&self, name: &str) -> Vec<Value> {
        let mut deaths = self.json(&["deaths", name, "-n", "1000"])["items"]
            .as_array()
            .unwrap()
            .clone();
        deaths.reverse();
        deaths
    }

    pub(crate) fn causes(&self, name: &str) -> Vec<String> {
        self.deaths(name)
            .iter()
            .map(|death| death["cause"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The details of all events of a kind, oldest first.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let ran = self.call(&["events", "--json", "-n", "10000"]);
        let events = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["kind"] == kind).collect()
    }

    pub(crate) fn task_status(&self, task: &str) -> String {
        self.json(&["task", "show", task])["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) fn log(&self, name: &str) -> String {
        self.call(&["logs", name, "--all"]).stdout
    }

    /// Starts a supervisor beside the test.
    pub(crate) fn start(&self, words: &[&str]) -> Supervisor {
        self.start_with(words, &[])
    }

    /// What a shell makes of a line that was pasted into it, in another folder.
    #[expect(clippy::disallowed_methods, reason = "a person has a shell")]
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let relight = self.stage.command(&[]);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", line]).env_clear().current_dir("/");
        shell.envs(
            relight
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        self.spawn(shell).end()
    }

    /// The same for a supervisor that may have only so many files open.
    #[expect(
        clippy::disallowed_methods,
        reason = "a shell sets the limit, and then is the program"
    )]
    pub(crate) fn start_limited(&self, files: u32, words: &[&str]) -> Supervisor {
        let relight = self.stage.command(words);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "ulimit -n $0; exec \"$@\"", &files.to_string()]);
        shell.arg(relight.get_program()).args(words).env_clear();
        shell.envs(
            relight
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        shell.current_dir(self.work(""));
        self.spawn(shell)
    }

    /// The same for one that may have no further process or thread. For root there is no such limit, so
    /// then it is another user's.
    #[expect(
        clippy::disallowed_methods,
        reason = "a shell sets the limit, and then is the program"
    )]
    pub(crate) fn start_without_threads(&self, words: &[&str]) -> Supervisor {
        let folder = self.stage.folder.path();
        let program = folder.join("bin/relight-copy");
        std::fs::copy(env!("CARGO_BIN_EXE_relight"), &program).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let mut shell = std::process::Command::new(if is_root { "setpriv" } else { "bash" });
        if is_root {
            let owned = std::process::Command::new("chown")
                .arg("-R")
                .arg("12345")
                .arg(folder)
                .status();
            assert!(owned.unwrap().success());
            shell.args(["--reuid", "12345", "--clear-groups", "bash"]);
        }
        shell
            .args(["-c", "ulimit -u 1; exec \"$0\" \"$@\""])
            .arg(program)
            .args(words)
            .env_clear();
        let relight = self.stage.command(words);
        shell.envs(
            relight
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        shell.current_dir(self.work(""));
        self.spawn(shell)
    }

    pub(crate) fn start_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Supervisor {
        let mut command = self.stage.command(words);
        command.envs(variables.iter().copied());
        self.spawn(command)
    }

    fn spawn(&self, mut command: std::process::Command) -> Supervisor {
        let file = |kind: &str| {
            (0..)
                .map(|n| self.stage.folder.path().join(format!("{kind}-{n}")))
                .find(|p| !p.exists())
        };
        let (said, shown) = (file("said").unwrap(), file("shown").unwrap());
        command
            .stderr(File::create(&said).unwrap())
            .stdout(File::create(&shown).unwrap());
        command.stdin(Stdio::null());
        Supervisor {
            child: command.spawn().unwrap(),
            said,
            shown,
        }
    }

    /// `relight run` of `work/agent` as `a`.
    pub(crate) fn run(&self, flags: &[&str]) -> Supervisor {
        self.start(&[&["run", "--name", "a"], flags, &["--", "./agent"]].concat())
    }

    /// `relight up`, once it answers.
    pub(crate) fn up(&self, flags: &[&str]) -> Supervisor {
        let daemon = self.start(&[&["up"], flags].concat());
        daemon.until_said("up with ");
        daemon
    }

    /// Processes whose command line or environment names this ground.
    fn processes(&self) -> Vec<Pid> {
        let folder = self.stage.folder.path().as_os_str().as_encoded_bytes();
        let names_it = |path: PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(folder.len()).any(|part| part == folder)
        };
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let others = pids.filter(|pid| *pid != std::process::id());
        let ours = others.filter(|pid| {
            let file = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
            names_it(file("cmdline")) || names_it(file("environ"))
        });
        ours.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .collect()
    }

    /// The shim of an agent.
    pub(crate) fn shim(&self, name: &str) -> u32 {
        let tail = format!("agents/{name}");
        let is_shim = |pid: &Pid| {
            let file = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            let words = std::fs::read_to_string(file).unwrap_or_default();
            words.contains("__shim") && words.trim_end_matches('\0').ends_with(&tail)
        };
        let found = self
            .processes()
            .into_iter()
            .find(is_shim)
            .expect("it has a shim");
        found.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        until("nothing is left", || {
            self.processes().is_empty().then_some(())
        });
    }

    pub(crate) fn assert_never_doubled(&self) {
        assert_eq!(self.read("complaints"), "");
    }
}

impl Drop for Ground {
    /// Supervisors first, or they would bring back what is ended.
    fn drop(&mut self) {
        let is_supervisor = |pid: &Pid| {
            let file = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            let words = std::fs::read_to_string(file).unwrap_or_default();
            words.contains("relight\0") || words.contains("relight-shim")
        };
        for _ in 0..500 {
            let (supervisors, others): (Vec<Pid>, Vec<Pid>) =
                self.processes().into_iter().partition(is_supervisor);
            if supervisors.is_empty() && others.is_empty() {
                return;
            }
            let first = if supervisors.is_empty() {
                others
            } else {
                supervisors
            };
            for pid in first {
                let _ = kill_process(pid, Signal::KILL);
            }
            pause();
        }
    }
}

impl Supervisor {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGSTOP between two commits. A process that is stopped while it holds the write lock of an SQLite
    /// file keeps everybody else from writing: the more loaded the machine, the more often.
    pub(crate) fn freeze(&self) {
        let pid = self.pid().to_string();
        until("it is stopped without the store's lock", || {
            self.signal(Signal::STOP);
            until("all of its threads are stopped", || {
                self.is_stopped().then_some(())
            });
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            let is_writing = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.contains(&"POSIX") && words.contains(&"WRITE") && words.contains(&&*pid)
            };
            let writes = locks.lines().any(is_writing);
            if writes {
                self.signal(Signal::CONT);
            }
            (!writes).then_some(())
        });
    }

    fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        })
    }

    /// SIGKILL, and it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let ended = becomes(|| self.child.try_wait().unwrap());
        let Some(status) = ended else {
            panic!("it does not end, and said {}", self.said())
        };
        let code = status.code().expect("it ends by itself");
        Ran {
            code,
            stdout: self.shown(),
            stderr: self.said(),
        }
    }

    /// Its end, and what `--json` said then.
    pub(crate) fn end_json(self) -> (i32, Value) {
        let ran = self.end();
        let answer = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        (ran.code, answer)
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.shown).unwrap()).into_owned()
    }

    pub(crate) fn until_said(&self, text: &str) {
        let said = becomes(|| self.said().contains(text).then_some(()));
        assert!(
            said.is_some(),
            "it never said {text:?}, but {}",
            self.said()
        );
    }
}

/// Signals one process, whoever it is.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether a process runs: a dead one that nobody waited for does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits for something, but not for ever.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    becomes(look).unwrap_or_else(|| panic!("it never came to this: {what}"))
}

fn becomes<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if now() > deadline {
            return None;
        }
        pause();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests wait on the clock of the machine"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "looked at again and again, and bounded"
)]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}
