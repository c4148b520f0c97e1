//! Where a bench plays: a folder of its own on the measured disk, and the programs at hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Gone with everything in it when the bench ends.
pub(crate) struct Stage {
    folder: TempDir,
    programs: PathBuf,
    relight: PathBuf,
    pub(crate) python: Option<PathBuf>,
    pub(crate) quick: bool,
    pub(crate) runtime: Runtime,
}

impl Stage {
    pub(crate) fn new(work: &Path, relight: Option<PathBuf>, quick: bool) -> anyhow::Result<Stage> {
        fs::create_dir_all(work)?;
        let work = work.canonicalize()?;
        let programs = std::env::current_exe()?
            .parent()
            .context("a folder")?
            .to_path_buf();
        Ok(Stage {
            folder: tempfile::tempdir_in(work)?,
            relight: relight.map_or(Ok(programs.join("relight")), fs::canonicalize)?,
            programs,
            python: python(),
            quick,
            runtime: Runtime::new()?,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder inside.
    pub(crate) fn subfolder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The first in a full run, the second in a quick one.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn relight(&self) -> &Path {
        &self.relight
    }

    /// A floor that is a program of ours, built beside this one.
    pub(crate) fn floor(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A floor's Python text, laid out in the folder; compiled in, so any place will do.
    pub(crate) fn script(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder().join(name);
        fs::write(&file, text)?;
        Ok(file)
    }
}

/// The interpreter itself: a version manager's wrapper would be timed along with it.
fn python() -> Option<PathBuf> {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
