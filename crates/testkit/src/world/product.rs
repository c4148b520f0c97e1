//! The binaries under proof, started with a short environment that is the same for all.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use relight_runtime::os::process;
use rustix::process::Pid;

use super::group::ends_within;

/// More than any call takes, on a loaded machine too.
const CALL_MAX: Duration = Duration::from_secs(180);

/// The product's binary and the drivers that were built with it.
#[derive(Debug, Clone)]
pub struct Product {
    /// The `relight` binary.
    pub relight: PathBuf,
    /// The `prove-driver` binary.
    pub driver: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its exit code; 128+n for a signal.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Answer {
    /// The one JSON document on standard output.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("exit {}: {:?} {:?}", self.code, self.stdout, self.stderr))
    }
}

impl Product {
    /// The binaries that lie beside each other in one folder.
    pub fn beside(folder: &Path) -> anyhow::Result<Self> {
        let find = |name: &str| {
            let path = folder.join(name);
            path.canonicalize()
                .with_context(|| format!("{} is not built", path.display()))
        };
        Ok(Self {
            relight: find("relight")?,
            driver: find("prove-driver")?,
        })
    }

    /// A verb of the product on the store in `home`.
    pub fn relight(&self, home: &Path, arguments: &[&str]) -> Command {
        let mut command = plain(&self.relight, arguments);
        command.env("RELIGHT_HOME", home);
        command
    }

    /// Runs a verb to its end.
    pub fn call(&self, home: &Path, arguments: &[&str]) -> anyhow::Result<Answer> {
        finish(&mut self.relight(home, arguments))
    }

    /// A driver, or one of its effects.
    pub fn driver(&self, arguments: &[&str]) -> Command {
        plain(&self.driver, arguments)
    }
}

impl Product {
    /// The driver that uses the npm package, where `crates/testkit/scripts/typescript.sh` built it.
    pub fn node_driver(&self, arguments: &[&str]) -> Command {
        let target = self.relight.parent().and_then(Path::parent);
        let script = target
            .unwrap_or(Path::new("."))
            .join("typescript/test/driver.mjs");
        let script = script.display().to_string();
        let words: Vec<&str> = [&*script]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        plain(Path::new("node"), &words)
    }

    /// The driver that uses the Python package, where `crates/testkit/scripts/python.sh` installed it.
    pub fn python_driver(&self, arguments: &[&str]) -> Command {
        let target = self.relight.parent().and_then(Path::parent);
        let python = target
            .unwrap_or(Path::new("."))
            .join("python/venv/bin/python");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/prove_driver.py");
        let words: Vec<&str> = [script]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        plain(&python, &words)
    }
}

/// A program with nothing of our environment but the search path.
pub fn plain(program: &Path, arguments: &[&str]) -> Command {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let mut command = process::command(program, &arguments);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end and keeps what it said; one that takes too long is killed.
pub fn finish(command: &mut Command) -> anyhow::Result<Answer> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let stdout = child.stdout.take().context("standard output is a pipe")?;
    let stderr = child.stderr.take().context("standard error is a pipe")?;
    let (stdout, stderr) = std::thread::scope(|scope| {
        let stderr = scope.spawn(|| read(stderr));
        let stdout = scope.spawn(|| read(stdout));
        if !ends_within(Pid::from_child(&child), CALL_MAX)? {
            child.kill()?;
        }
        let whole = "reading a pipe never panics";
        anyhow::Ok((stdout.join().expect(whole)?, stderr.join().expect(whole)?))
    })?;
    let status = child.wait()?;
    let signal = || status.signal().map_or(255, |signal| 128 + signal);
    Ok(Answer {
        code: status.code().unwrap_or_else(signal),
        stdout,
        stderr,
    })
}

fn read(mut from: impl std::io::Read) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
