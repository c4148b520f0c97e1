//! The reference client, from PyPI, in the folder that `./test` makes; without it these are skipped, and
//! say so.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::relight::{Stage, finish};

/// Where `./test` puts it: beside the build's own files.
fn python() -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let python = target.parent()?.join("mcp-client/bin/python");
    python.is_file().then_some(python)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the door of the product is not tested by itself"
)]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn drive(way: &str, generation: &str) {
    let Some(python) = python() else {
        // Past the test's own capture: whoever reads the result has to see it.
        let text =
            format!("SKIPPED: a real MCP client over {way} ({generation}): ./test installs it");
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    };
    let stage = Stage::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let relight = env!("CARGO_BIN_EXE_relight");
    let mut command = command(&python);
    command.args([script, relight, way, generation]);
    command.current_dir(stage.folder.path().join("work"));
    command.env("HOME", stage.folder.path().join("user"));
    command.env("RELIGHT_HOME", stage.folder.path().join("home"));
    let ran = finish(command.spawn().unwrap());
    assert!(
        ran.code == 0 && ran.stdout.ends_with("held\n"),
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn a_real_client_goes_on_after_its_server_was_killed_over_stdio() {
    drive("stdio", "legacy");
    drive("stdio", "auto");
}

#[test]
fn a_real_client_goes_on_after_the_daemon_was_killed_over_http() {
    drive("http", "legacy");
    drive("http", "auto");
}
