//! A machine in a folder: an empty home, a workspace, and the built binary run there with a clean
//! environment. Whatever is run is bounded.
#![expect(dead_code, reason = "no file of tests uses all of it")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use relight_runtime::os::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_relight");
/// No command takes longer, even on a loaded machine.
const LIMIT_MS: i64 = 300_000;
/// How often a condition is looked at before it counts as never coming.
const LOOKS_MAX: usize = 30_000;

/// One machine: `home`, `work` and whatever a test puts beside.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        fs::create_dir(folder.path().join("work")).expect("the workspace");
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.path("home").join(name)
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    /// The file of a workflow.
    pub(crate) fn checkpoint(&self, workflow: &str) -> PathBuf {
        self.work("memory/checkpoints")
            .join(format!("{workflow}.json"))
    }

    /// `relight` with these words; nothing runs yet.
    pub(crate) fn relight(&self, words: &str) -> Call {
        self.call(BINARY, words.split_whitespace())
    }

    /// A shell script that can call `relight`.
    pub(crate) fn shell(&self, script: &str) -> Call {
        self.call("sh", ["-c", script])
    }

    fn call<'w>(&self, program: &str, words: impl IntoIterator<Item = &'w str>) -> Call {
        let folder = Path::new(BINARY)
            .parent()
            .expect("the binary is in a folder");
        let variables = [
            ("PATH", format!("{}:/usr/bin:/bin", folder.display())),
            ("HOME", self.path("user").display().to_string()),
            ("RELIGHT_HOME", self.path("home").display().to_string()),
            ("USER", "tester".to_owned()),
        ];
        Call {
            program: program.to_owned(),
            words: words.into_iter().map(str::to_owned).collect(),
            variables: variables
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            folder: self.path("work"),
            input: None,
        }
    }

    /// Runs it; it must end well.
    pub(crate) fn ok(&self, words: &str) -> Answer {
        self.relight(words).run().with_code(0)
    }

    /// Runs it; it must end with this code.
    pub(crate) fn fails(&self, words: &str, code: i32) -> Answer {
        self.relight(words).run().with_code(code)
    }

    /// Runs it with `--json`; it must end well and print one document.
    pub(crate) fn json(&self, words: &str) -> Value {
        self.ok(&format!("--json {words}")).json()
    }

    pub(crate) fn status(&self, task: &str) -> String {
        self.json(&format!("task show {task}"))["status"]
            .as_str()
            .expect("a status")
            .to_owned()
    }

    /// A step whose command leaves a line in `ran` and then does not end by itself; killed with
    /// its `relight` in the middle.
    pub(crate) fn die_in_step(&self, words: &str) {
        let call = self
            .relight(&format!("step run {words} --"))
            .args(["sh", "-c"]);
        let mut running = call.arg("echo >> ran; echo $$; exec sleep 50").spawn();
        let command = running.line();
        running.kill();
        kill(command.parse().expect("the pid of the command"));
    }

    /// How often a command left a line in `ran`.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.work("ran"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// The files under the whole place that hold these bytes.
    pub(crate) fn files_with(&self, bytes: &[u8]) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(self.folder.path(), &mut files);
        let holds = |path: &PathBuf| {
            let content = fs::read(path).unwrap_or_default();
            content.windows(bytes.len()).any(|window| window == bytes)
        };
        files.into_iter().filter(holds).collect()
    }

    /// Everything under a folder: names, and contents of files.
    pub(crate) fn picture(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = Vec::new();
        collect(&self.path(name), &mut files);
        files
            .into_iter()
            .map(|path| (path.clone(), fs::read(path).unwrap_or_default()))
            .collect()
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let kind = entry.file_type().expect("the kind of an entry");
        if kind.is_dir() {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// A command about to be run.
#[derive(Clone)]
pub(crate) struct Call {
    program: String,
    words: Vec<String>,
    variables: BTreeMap<String, String>,
    folder: PathBuf,
    input: Option<Vec<u8>>,
}

impl Call {
    /// One more word, as it is.
    pub(crate) fn arg(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    pub(crate) fn args<'w>(mut self, words: impl IntoIterator<Item = &'w str>) -> Self {
        self.words.extend(words.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    pub(crate) fn inside(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    pub(crate) fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// The same as somebody who is not root, for whom permissions count.
    pub(crate) fn by_nobody(mut self) -> Self {
        let drop = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        let words = drop
            .map(str::to_owned)
            .into_iter()
            .chain([self.program.clone()]);
        self.words = words.chain(self.words).collect();
        "setpriv".clone_into(&mut self.program);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Answer {
        let (mut out, mut err) = (scratch(), scratch());
        let mut command = self.command();
        command.stdout(copy_of(&out)).stderr(copy_of(&err));
        let mut child = command.spawn().expect("the program starts");
        let code = wait(&mut child);
        Answer {
            code,
            stdout: content(&mut out),
            stderr: text(content(&mut err)),
            call: self,
        }
    }

    /// Starts it with its output in reach.
    pub(crate) fn spawn(self) -> Running {
        let err = scratch();
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(copy_of(&err));
        let child = command.spawn().expect("the program starts");
        Running {
            child,
            err,
            call: self,
        }
    }

    fn command(&self) -> Command {
        let mut command = process::command(&self.program, &self.words);
        command
            .env_clear()
            .envs(&self.variables)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        if let Some(input) = &self.input {
            let mut file = scratch();
            std::io::Write::write_all(&mut file, input).expect("the input is kept");
            file.rewind().expect("the input is read from its start");
            command.stdin(file);
        }
        command
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    err: File,
    call: Call,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let out = self.child.stdout.as_mut().expect("the output is a pipe");
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            let ready = is_ready(&mut PollFd::new(out, PollFlags::IN), LIMIT_MS);
            assert!(ready, "no line from {:?}", self.call.words);
            let count = out.read(&mut byte).expect("its output can be read");
            assert!(
                count == 1,
                "{:?} ended early: {}",
                self.call.words,
                text(content(&mut self.err))
            );
            if byte == *b"\n" {
                return text(line);
            }
            line.push(byte[0]);
        }
    }

    /// SIGKILL; its own children live on.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        wait(&mut self.child);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it can be signalled");
    }

    /// Stops reading its output.
    pub(crate) fn close_output(&mut self) {
        self.child.stdout = None;
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Answer {
        let mut stdout = Vec::new();
        let code = match self.child.stdout.take() {
            Some(mut out) => {
                let reader = std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    out.read_to_end(&mut bytes).map(|_| bytes)
                });
                let code = wait(&mut self.child);
                stdout = reader
                    .join()
                    .expect("the reader ends")
                    .expect("its output can be read");
                code
            }
            None => wait(&mut self.child),
        };
        Answer {
            code,
            stdout,
            stderr: text(content(&mut self.err)),
            call: self.call,
        }
    }

    /// Looks until it is so, while this runs.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let fd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        let fd = fd.expect("the child is there");
        for _ in 0..LOOKS_MAX {
            if is_so() {
                return;
            }
            let ended = is_ready(&mut PollFd::new(&fd, PollFlags::IN), 10);
            assert!(!ended, "{:?} ended before: {what}", self.call.words);
        }
        panic!("never: {what}");
    }
}

/// What a command said.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    call: Call,
}

impl Answer {
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        let (words, out) = (&self.call.words, String::from_utf8_lossy(&self.stdout));
        assert_eq!(
            self.code, code,
            "{words:?}\nstdout: {out}\nstderr: {}",
            self.stderr
        );
        self
    }

    /// The one JSON document on its output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_slice(&self.stdout);
        read.unwrap_or_else(|error| panic!("{:?}: {error}: {:?}", self.call.words, self.text()))
    }

    /// The error document on its standard error.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let read: Result<Value, _> = serde_json::from_str(&self.stderr);
        read.unwrap_or_else(|error| panic!("{error}: {:?}", self.stderr))["error"].clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error names all of these.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.stderr.contains(word),
                "{word:?} is not in {:?}",
                self.stderr
            );
        }
        self
    }
}

impl Answer {
    /// The commands of its hint, in their order, as they can be typed: after `try:`, or in the `hint` of
    /// an error document.
    #[track_caller]
    pub(crate) fn remedies(&self) -> Vec<String> {
        let document: Option<Value> = serde_json::from_str(&self.stderr).ok();
        let hint = document
            .as_ref()
            .and_then(|document| document["error"]["hint"].as_str());
        let hint = hint.or_else(|| self.stderr.split_once("try: ").map(|(_, hint)| hint));
        commands_in(hint.unwrap_or_else(|| panic!("no hint in {:?}", self.stderr)))
    }
}

/// The commands in a text. A command ends where a sentence about it begins.
pub(crate) fn commands_in(text: &str) -> Vec<String> {
    let text = text
        .trim()
        .replace(", then ", "\n")
        .replace(", or ", "\n")
        .replace(", and ", "\n");
    let pieces = text.split(['\n', ';']).map(str::trim);
    let commands = pieces.filter_map(|piece| piece.find("relight ").map(|at| &piece[at..]));
    let ends = [
        " tells", " gives", " starts", " shows", " takes", " hands", " says", " (or ", " first",
    ];
    let end = |command: &str| ends.iter().filter_map(|end| command.find(end)).min();
    commands
        .map(|command| command[..end(command).unwrap_or(command.len())].to_owned())
        .collect()
}

/// SIGKILL to a process that a test's own command started.
pub(crate) fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a pid is not a zero");
    let fd = pidfd_open(pid, PidfdFlags::empty()).expect("the process is there");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    // It holds its locks until it is gone.
    assert!(
        is_ready(&mut PollFd::new(&fd, PollFlags::IN), LIMIT_MS),
        "SIGKILL ends it"
    );
}

/// Runs all of them at once and waits for their ends.
pub(crate) fn at_once(calls: impl IntoIterator<Item = Call>) -> Vec<Answer> {
    let running: Vec<Running> = calls.into_iter().map(Call::spawn).collect();
    running.into_iter().map(Running::end).collect()
}

fn wait(child: &mut Child) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let fd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("the child is there");
    if !is_ready(&mut PollFd::new(&fd, PollFlags::IN), LIMIT_MS) {
        child.kill().expect("it can be killed");
        panic!("it took longer than {LIMIT_MS} ms");
    }
    let status = child.wait().expect("a child can be waited for");
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .expect("it ended somehow")
}

fn is_ready(fd: &mut PollFd<'_>, ms: i64) -> bool {
    let limit = Timespec {
        tv_sec: ms / 1_000,
        tv_nsec: ms % 1_000 * 1_000_000,
    };
    poll(std::slice::from_mut(fd), Some(&limit)).expect("waiting works") > 0
}

fn scratch() -> File {
    tempfile::tempfile().expect("a scratch file")
}

fn copy_of(file: &File) -> Stdio {
    Stdio::from(file.as_fd().try_clone_to_owned().expect("a second handle"))
}

fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("a scratch file can be read");
    file.read_to_end(&mut bytes)
        .expect("a scratch file can be read");
    bytes
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("it is text")
}
