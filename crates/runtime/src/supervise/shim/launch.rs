//! Starts the process of an attempt, without a shell, with exactly the given environment and its
//! output in its log.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::wire::{Input, StartOrder};
use crate::os::process::command;
use crate::os::word::Word;
use crate::supervise::program::{self, CANNOT_BE_RUN, NO_SUCH_PROGRAM, NotStarted};

/// Starts the process and returns its pid. `terminal` holds the standard streams of an agent with a
/// terminal.
pub(super) fn launch(
    order: &StartOrder,
    terminal: Option<&[OwnedFd; 3]>,
    input: Option<OwnedFd>,
) -> Result<u32, NotStarted> {
    let (name, arguments) = order
        .command
        .split_first()
        .ok_or_else(|| NotStarted::new(NO_SUCH_PROGRAM, "the command is empty".to_owned()))?;
    let program = program::find(name.as_os_str(), &order.environment, &order.folder)?;
    let arguments: Vec<_> = arguments.iter().map(Word::as_os_str).collect();
    let mut command = command(&program, &arguments);
    command
        .arg0(name.as_os_str())
        .env_clear()
        .current_dir(&order.folder);
    command.envs(
        order
            .environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str())),
    );
    connect_streams(&mut command, order, terminal, input).map_err(|error| {
        let note = format!("its output cannot go to {}: {error}", order.log.display());
        NotStarted::of(&error, note)
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

/// A terminal has one foreground group, which must contain its reader; all other agents lead their
/// own group.
fn connect_streams(
    command: &mut Command,
    order: &StartOrder,
    terminal: Option<&[OwnedFd; 3]>,
    input: Option<OwnedFd>,
) -> io::Result<()> {
    if let (Input::Terminal, Some([input, output, errors])) = (order.input, terminal) {
        command
            .stdin(input.try_clone()?)
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?);
        return Ok(());
    }
    let log = open_log(&order.log)?;
    let input = input.map_or_else(Stdio::null, Stdio::from);
    command
        .process_group(0)
        .stdin(input)
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(())
}

fn open_log(place: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(place)
    };
    match (open(), place.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            open()
        }
        (opened, _) => opened,
    }
}

/// The system reports a missing folder, program and interpreter with the same error.
fn why_not_started(program: &Path, folder: &Path, error: &io::Error) -> NotStarted {
    if !folder.is_dir() {
        let note = format!("its folder {} is missing", folder.display());
        return NotStarted::new(CANNOT_BE_RUN, note);
    }
    let place = folder.join(program);
    match error.kind() {
        io::ErrorKind::NotFound if place.exists() => NotStarted::new(
            CANNOT_BE_RUN,
            format!(
                "the interpreter that {} names is missing",
                program.display()
            ),
        ),
        io::ErrorKind::NotFound => NotStarted::new(
            NO_SUCH_PROGRAM,
            format!("there is no program {}", program.display()),
        ),
        _ => NotStarted::of(
            error,
            format!("{} cannot be run: {error}", program.display()),
        ),
    }
}

/// Minimum for the shim itself: `poll` refuses more files than the limit.
const FILES_MIN: u64 = 64;

/// Sets the limit of open files, which children inherit from the shim.
fn limit_files(nofile: Option<u64>) {
    let Some(nofile) = nofile else { return };
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If the limit cannot be set, the agent could not have it either.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(nofile.max(FILES_MIN)),
            maximum,
        },
    );
}
