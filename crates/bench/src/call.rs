//! One start of a program, as a shell would do it: timed, read, or counted for its syncs.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::usage;

/// How often the memory of a program is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A program with its arguments and surroundings; may be made many times.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    /// Standard input.
    input: Option<String>,
    /// The exit code that means it did what is being timed.
    expected_code: i32,
}

impl Call {
    /// Runs in `folder`, with a short environment that is the same for all.
    pub(crate) fn new(program: impl Into<PathBuf>, folder: &Path) -> Call {
        Call {
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.into(),
            environment: Vec::new(),
            input: None,
            expected_code: 0,
        }
    }

    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Call {
        self.arguments.push(argument.into());
        self
    }

    /// Adds the words of `line`; `{n}` becomes `number`.
    pub(crate) fn line(mut self, line: &str, number: usize) -> Call {
        let numbered = line.replace("{n}", &number.to_string());
        self.arguments
            .extend(numbered.split_whitespace().map(String::from));
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: impl Into<String>) -> Call {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn input(mut self, text: String) -> Call {
        self.input = Some(text);
        self
    }

    pub(crate) fn expecting(mut self, code: i32) -> Call {
        self.expected_code = code;
        self
    }

    /// From before the start until its end is known; its output goes nowhere.
    pub(crate) fn wall_ms(&self) -> anyhow::Result<f64> {
        let mut command = self.command(&self.program);
        command
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let began = Instant::now();
        let status = command.status().with_context(|| self.text())?;
        let elapsed = began.elapsed();
        self.ensure_code(status.code(), "")?;
        Ok(elapsed.as_secs_f64() * 1e3)
    }

    /// The same, and the most memory it had; looked at until it is gone.
    pub(crate) fn wall_ms_and_peak_kib(&self) -> anyhow::Result<(f64, f64)> {
        let mut command = self.command(&self.program);
        command
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn().with_context(|| self.text())?;
        let mut peak_kib = 0.0;
        let status = loop {
            if let Ok(kib) = usage::peak_kib(child.id()) {
                peak_kib = kib;
            }
            match child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK_EVERY),
            }
        };
        let elapsed = began.elapsed();
        self.ensure_code(status.code(), "")?;
        Ok((elapsed.as_secs_f64() * 1e3, peak_kib))
    }

    /// What it prints on stdout.
    pub(crate) fn stdout(&self) -> anyhow::Result<String> {
        let mut command = self.command(&self.program);
        let Output {
            status,
            stdout,
            stderr,
        } = command
            .args(&self.arguments)
            .output()
            .with_context(|| self.text())?;
        self.ensure_code(status.code(), &String::from_utf8_lossy(&stderr))?;
        Ok(String::from_utf8(stdout)?)
    }

    /// How often it asks the disk to sync; None where strace is missing or forbidden.
    pub(crate) fn syncs(&self) -> anyhow::Result<Option<usize>> {
        let trace = tempfile::NamedTempFile::new()?;
        let mut command = self.command(Path::new("strace"));
        command.args([
            "-f",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,sync_file_range,msync",
            "-o",
        ]);
        command
            .arg(trace.path())
            .arg("--")
            .arg(&self.program)
            .args(&self.arguments);
        let Ok(Output { status, .. }) = command.output() else {
            return Ok(None);
        };
        let began = fs::read_to_string(trace.path())?;
        let is_call = |line: &&str| line.contains("sync") && !line.contains(" resumed>");
        Ok((status.code() == Some(self.expected_code))
            .then(|| began.lines().filter(is_call).count()))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).stdin(self.stdin());
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A file, which is read without anybody who writes it meanwhile.
    fn stdin(&self) -> Stdio {
        let file = self.input.as_ref().and_then(|text| {
            let mut file = tempfile::tempfile().ok()?;
            file.write_all(text.as_bytes()).ok()?;
            file.rewind().ok()?;
            Some(file)
        });
        file.map_or_else(Stdio::null, Stdio::from)
    }

    fn ensure_code(&self, code: Option<i32>, stderr: &str) -> anyhow::Result<()> {
        let text = self.text();
        ensure!(
            code == Some(self.expected_code),
            "{text}: code {code:?} {}",
            stderr.trim()
        );
        Ok(())
    }

    fn text(&self) -> String {
        let name = self
            .program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        format!("{name} {}", self.arguments.join(" "))
    }
}
