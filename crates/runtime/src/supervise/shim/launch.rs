//! Starts the process of an attempt: no shell, the given environment and no other, output to its log.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::wire::{Input, StartOrder};
use crate::doors::process::command;
use crate::supervise::word::Word;

/// What a shell exits with when there is no such program.
const NO_SUCH_PROGRAM: i32 = 127;
/// And when it cannot be run.
const CANNOT_BE_RUN: i32 = 126;

/// Where programs are looked for when the environment does not say.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why nothing was started, as an exit code and in words.
#[derive(Debug, thiserror::Error)]
#[error("{note}")]
pub(super) struct NotStarted {
    pub(super) code: i32,
    pub(super) note: String,
}

/// Starts it; answers its pid. `terminal` is what an agent with a terminal gets for its three
/// standard streams.
pub(super) fn launch(
    order: &StartOrder,
    terminal: Option<&[OwnedFd; 3]>,
) -> Result<u32, NotStarted> {
    let (name, arguments) = order.command.split_first().ok_or_else(|| NotStarted {
        code: NO_SUCH_PROGRAM,
        note: "the command is empty".to_owned(),
    })?;
    let program = find_program(name.as_os_str(), &order.environment, &order.folder)?;
    let arguments: Vec<_> = arguments.iter().map(Word::as_os_str).collect();
    let mut command = command(&program, &arguments);
    command.arg0(name.as_os_str()).env_clear().current_dir(&order.folder);
    command
        .envs(order.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())));
    connect_streams(&mut command, order, terminal).map_err(|error| NotStarted {
        code: CANNOT_BE_RUN,
        note: format!("its output cannot go to {}: {error}", order.log.display()),
    })?;
    if let Some((user, group)) = order.user {
        command.uid(user).gid(group);
    }
    limit_files(order.nofile);
    match command.spawn() {
        Ok(child) => Ok(child.id()),
        Err(error) => Err(why_not_started(&program, &order.folder, &error)),
    }
}

/// A terminal has one foreground group, and whoever reads it must be in there; all other agents lead a
/// group of their own.
fn connect_streams(
    command: &mut Command,
    order: &StartOrder,
    terminal: Option<&[OwnedFd; 3]>,
) -> io::Result<()> {
    if let (Input::Terminal, Some([input, output, errors])) = (order.input, terminal) {
        command.stdin(input.try_clone()?).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        return Ok(());
    }
    let log = open_log(&order.log)?;
    command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(())
}

fn open_log(place: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().append(true).create(true).mode(0o600).open(place);
    match (open(), place.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            open()
        }
        (opened, _) => opened,
    }
}

/// Looks a bare name up in the agent's own `PATH`. The standard library would too, but only by a fork
/// where a path can be spawned.
fn find_program(
    name: &OsStr,
    environment: &[(Word, Word)],
    folder: &Path,
) -> Result<PathBuf, NotStarted> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = environment.iter().rev().find(|(name, _)| name.as_os_str() == "PATH");
    let path = path.map_or(OsStr::new(PATH_DEFAULT), |(_, path)| path.as_os_str());
    let places = || std::env::split_paths(path).map(|place| folder.join(place).join(name));
    let can_run = |place: &PathBuf| place.is_file() && access(place, Access::EXEC_OK).is_ok();
    if let Some(program) = places().find(can_run).filter(|_| !name.is_empty()) {
        return Ok(program);
    }
    match places().find(|place| place.is_file()) {
        Some(place) => Err(NotStarted {
            code: CANNOT_BE_RUN,
            note: format!("{} may not be executed", place.display()),
        }),
        None => Err(NotStarted {
            code: NO_SUCH_PROGRAM,
            note: format!("there is no program {} in its PATH", name.display()),
        }),
    }
}

/// The system has one error for a missing folder, program and interpreter.
fn why_not_started(program: &Path, folder: &Path, error: &io::Error) -> NotStarted {
    if !folder.is_dir() {
        let note = format!("its folder {} is missing", folder.display());
        return NotStarted { code: CANNOT_BE_RUN, note };
    }
    let place = folder.join(program);
    match error.kind() {
        io::ErrorKind::NotFound if place.exists() => NotStarted {
            code: CANNOT_BE_RUN,
            note: format!("the interpreter that {} names is missing", program.display()),
        },
        io::ErrorKind::NotFound => NotStarted {
            code: NO_SUCH_PROGRAM,
            note: format!("there is no program {}", program.display()),
        },
        _ => NotStarted {
            code: CANNOT_BE_RUN,
            note: format!("{} cannot be run: {error}", program.display()),
        },
    }
}

/// What the shim needs itself: `poll` refuses more files than the limit, open or not.
const FILES_MIN: u64 = 64;

/// Children have the limits of the shim, which needs few files itself.
fn limit_files(nofile: Option<u64>) {
    let Some(nofile) = nofile else { return };
    let maximum = getrlimit(Resource::Nofile).maximum;
    // A limit that cannot be set is one that the agent could not have had either.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(nofile.max(FILES_MIN)), maximum });
}
