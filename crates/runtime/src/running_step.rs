//! Tells a step that is being run right now from one that is in doubt.
//!
//! Whoever runs a step holds a lock for as long as it lives, and so does the command; the kernel
//! frees it when both are gone, however they die. A begun step whose lock is free is in doubt; one
//! whose lock is taken is left alone. What a finished command leaves behind keeps no lock: its file
//! is gone by then.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_core::step::StepKey;
use rustix::fs::{FlockOperation, flock};
use rustix::io::FdFlags;

use crate::engine::TaskView;

const FOLDER: &str = "running";

/// The right to run one step; its file goes with it.
#[derive(Debug)]
pub struct RunningStep {
    path: PathBuf,
    _lock: File,
}

impl RunningStep {
    /// Takes the lock in the folder of the store; none when somebody runs the step.
    pub fn take(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<Option<Self>> {
        let folder = home.join(FOLDER);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(step.idempotency_key(task));
        loop {
            let mut options = fs::OpenOptions::new();
            let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // Its runner may have removed the file while we waited for nobody: that lock is void.
            if is_still_there(&path, &lock)? {
                // The command inherits it: when only its runner dies, the step is still being run.
                rustix::io::fcntl_setfd(&lock, FdFlags::empty())?;
                return Ok(Some(Self { path, _lock: lock }));
            }
        }
    }
}

impl RunningStep {
    /// Whether somebody runs the step.
    pub fn is_taken(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<bool> {
        let lock = match File::open(home.join(FOLDER).join(step.idempotency_key(task))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// A step that an orphan of the task's dead process is still at: a new lease would throw its result
/// away. (A timed lease is renewed by a live runner; once it ran out, the runner is frozen, and waiting
/// for it would be for ever.)
pub fn orphaned_step<'a>(home: &Path, view: &'a TaskView) -> Option<&'a StepKey> {
    let held = view.task.lease.held.as_ref()?;
    if !matches!(held.holder, Holder::Process(_)) {
        return None;
    }
    let mut open = view.steps.iter().filter(|step| step.is_open()).map(|step| &step.key);
    open.find(|key| RunningStep::is_taken(home, &view.task.id, key).unwrap_or(false))
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        // A file that stays is in nobody's way.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_still_there(path: &Path, lock: &File) -> io::Result<bool> {
    let ours = lock.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use relight_core::ids::StepName;

    use super::*;

    #[test]
    fn one_runner_at_a_time_and_the_next_one_after_it() {
        let home = tempfile::tempdir().unwrap();
        let task = TaskId::new("t").unwrap();
        let step = |name: &str| StepKey::first(StepName::new(name).unwrap());
        let take = |name: &str| RunningStep::take(home.path(), &task, &step(name)).unwrap();
        let taken = |name: &str| RunningStep::is_taken(home.path(), &task, &step(name)).unwrap();
        assert!(!taken("a"));
        let first = take("a");
        assert!(first.is_some() && take("a").is_none() && taken("a"));
        assert!(take("b").is_some(), "another step is another lock");
        drop(first);
        assert!(take("a").is_some());
    }
}
