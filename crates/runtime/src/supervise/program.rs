//! Finds the program of a command like a shell, but in the agent's own `PATH` and folder.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::os::limits;
use crate::os::word::Word;

/// A shell's exit code for a missing program.
pub(super) const NO_SUCH_PROGRAM: i32 = 127;
/// A shell's exit code for a program that cannot be run.
pub(super) const CANNOT_BE_RUN: i32 = 126;

/// The default `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program cannot be started, with an exit code.
#[derive(Debug, thiserror::Error)]
#[error("{note}")]
pub struct NotStarted {
    /// 127 or 126, as in a shell.
    pub code: i32,
    /// What is wrong.
    pub note: String,
    /// Only because the host lacks descriptors, processes or memory.
    pub is_exhausted: bool,
}

impl NotStarted {
    /// An error of the command.
    pub(super) fn new(code: i32, note: String) -> Self {
        Self {
            code,
            note,
            is_exhausted: false,
        }
    }

    /// An error of the system.
    pub(super) fn of(error: &io::Error, note: String) -> Self {
        Self {
            code: CANNOT_BE_RUN,
            note,
            is_exhausted: limits::is_exhausted(error),
        }
    }
}

/// Checks whether a command could be started, without starting it.
pub fn check(
    command: &[Word],
    environment: &[(Word, Word)],
    folder: &Path,
) -> Result<(), NotStarted> {
    let name = command.first().map_or(OsStr::new(""), Word::as_os_str);
    let program = find(name, environment, folder)?;
    let place = folder.join(&program);
    if !place.exists() {
        let note = format!("there is no program {}", program.display());
        return Err(NotStarted::new(NO_SUCH_PROGRAM, note));
    }
    if can_run(&place) {
        return Ok(());
    }
    let note = format!("{} may not be executed", program.display());
    Err(NotStarted::new(CANNOT_BE_RUN, note))
}

/// Looks up a bare name in the agent's own `PATH`. The standard library would need a fork for that.
pub(super) fn find(
    name: &OsStr,
    environment: &[(Word, Word)],
    folder: &Path,
) -> Result<PathBuf, NotStarted> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = environment
        .iter()
        .rev()
        .find(|(name, _)| name.as_os_str() == "PATH");
    let path = path.map_or(OsStr::new(PATH_DEFAULT), |(_, path)| path.as_os_str());
    let places = || std::env::split_paths(path).map(|place| folder.join(place).join(name));
    if let Some(program) = places()
        .find(|place| can_run(place))
        .filter(|_| !name.is_empty())
    {
        return Ok(program);
    }
    match places().find(|place| place.is_file()) {
        Some(place) => {
            let note = format!("{} may not be executed", place.display());
            Err(NotStarted::new(CANNOT_BE_RUN, note))
        }
        None => {
            let mut note = format!("there is no program {} in its PATH", name.display());
            if name.as_encoded_bytes().contains(&b' ') {
                note += ": it is one word; remove the quotes around it";
            }
            Err(NotStarted::new(NO_SUCH_PROGRAM, note))
        }
    }
}

fn can_run(place: &Path) -> bool {
    place.is_file() && access(place, Access::EXEC_OK).is_ok()
}
