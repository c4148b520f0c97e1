//! Runs the built binary in a folder of its own, with an empty home and a clean environment.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// No command of a test takes longer, even on a loaded machine; one that does is stopped.
const BOUND: Duration = Duration::from_secs(300);

/// `work` is the current folder, `home` the state's, `user` is `$HOME`, `bin` comes first in `PATH`.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "user", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the door of the product is not tested by itself"
    )]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let place = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_relight"));
        command
            .args(arguments)
            .current_dir(place("work"))
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", place("bin").display()))
            .env("HOME", place("user"))
            .env("RELIGHT_HOME", place("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments).spawn().unwrap())
    }
}

/// Waits for the end of a command, but not for ever.
pub(crate) fn finish(child: Child) -> Ran {
    let pid = rustix::process::Pid::from_child(&child);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(done) = told.recv_timeout(BOUND) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("relight ran for more than {BOUND:?}");
    };
    let done = done.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = done.status.code().expect("it ends by itself");
    Ran {
        code,
        stdout: text(done.stdout),
        stderr: text(done.stderr),
    }
}
