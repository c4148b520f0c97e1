//! Tells a step that is being run right now from one that is in doubt.
//!
//! Whoever runs a step holds a lock for as long as it lives, and so does the command; the kernel
//! frees it when both are gone, however they die. A begun step whose lock is free is in doubt; one
//! whose lock is taken is left alone. What a finished command leaves behind keeps no lock: its file
//! is gone by then. The file says which process runs the step, until when and in which attempt, for
//! whoever judges whether an agent hangs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use relight_core::agent::AttemptTag;
use relight_core::decide::Refusal;
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder, LEASE_DEFAULT};
use relight_core::step::{Step, StepKey};
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::StoreError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::FdFlags;

use crate::engine::{ActError, Engine, TaskSnapshot};
use crate::holders::Holders;
use crate::os::{attempts, file, process};

const FOLDER: &str = "running";
/// Two numbers and the tag of an attempt.
const NOTE_BYTES_MAX: usize = 512;
/// How many files are examined for the steps of an attempt.
const FILES_MAX: usize = 10_000;

/// The right to run one step; its file goes with it.
#[derive(Debug)]
pub struct RunningStep {
    path: PathBuf,
    lock: File,
}

/// Who is at a step that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// It is not run by a command of Relight.
    None,
    /// Whoever ran it is gone.
    Gone,
    /// It is being run.
    Runs {
        /// The process that does, as far as it is known.
        pid: Option<u32>,
        /// When its time is over, by the monotonic clock of this boot.
        deadline_ms: Option<u64>,
        /// Since when.
        since: Time,
    },
}

impl RunningStep {
    /// Takes the lock in the folder of the store; none when somebody runs the step.
    pub fn take(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<Option<Self>> {
        let folder = home.join(FOLDER);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let path = folder.join(step.idempotency_key(task));
        loop {
            let mut options = fs::OpenOptions::new();
            let lock = options
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // Its runner may have removed the file while we waited for nobody: that lock is void.
            if is_still_there(&path, &lock)? {
                // The command inherits it: when only its runner dies, the step is still being run.
                rustix::io::fcntl_setfd(&lock, FdFlags::empty())?;
                let running = Self { path, lock };
                running.note(std::process::id(), None)?;
                return Ok(Some(running));
            }
        }
    }

    /// Notes which process runs the step, when its time is over by the monotonic clock, and the attempt that
    /// this process belongs to.
    pub fn note(&self, pid: u32, deadline_ms: Option<u64>) -> io::Result<()> {
        self.lock.set_len(0)?;
        let deadline = deadline_ms.map_or_else(|| "-".to_owned(), |at_ms| at_ms.to_string());
        let attempt = attempts::own().map_or("-", AttemptTag::as_str);
        self.lock
            .write_all_at(format!("{pid} {deadline} {attempt}\n").as_bytes(), 0)
    }

    /// Whether somebody runs the step.
    pub fn is_taken(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<bool> {
        Ok(matches!(
            Self::runner(home, task, step)?,
            Runner::Runs { .. }
        ))
    }

    /// Whether the step's command acts right now. A frozen runner keeps its lock after its command has ended;
    /// waiting for it could last forever.
    pub fn is_acting(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<bool> {
        let is_acting = |pid| process::stat(pid).is_some_and(|stat| stat.is_acting());
        Ok(match Self::runner(home, task, step)? {
            Runner::Runs { pid: Some(pid), .. } => is_acting(pid),
            Runner::Runs { pid: None, .. } => true,
            Runner::None | Runner::Gone => false,
        })
    }

    /// Who is at the step.
    pub fn runner(home: &Path, task: &TaskId, step: &StepKey) -> io::Result<Runner> {
        Self::runner_at(&home.join(FOLDER).join(step.idempotency_key(task)))
    }

    /// The steps that processes of an attempt run, of any task, by their idempotency keys.
    pub(crate) fn of_attempt(home: &Path, attempt: &AttemptTag) -> Vec<(String, Runner)> {
        // A folder or file that cannot be read tells nothing.
        let files = fs::read_dir(home.join(FOLDER))
            .into_iter()
            .flatten()
            .flatten();
        let is_its_own = |path: &Path| {
            let noted = file::open_regular(path).and_then(|file| note(&file));
            noted.is_ok_and(|noted| noted.split(' ').nth(2) == Some(attempt.as_str()))
        };
        let paths = files
            .take(FILES_MAX)
            .map(|file| file.path())
            .filter(|path| is_its_own(path));
        paths
            .filter_map(|path| {
                let key = path.file_name()?.to_str()?.to_owned();
                Some((key, Self::runner_at(&path).ok()?))
            })
            .collect()
    }

    fn runner_at(path: &Path) -> io::Result<Runner> {
        let lock = match file::open_regular(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Runner::None),
            other => other?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(Runner::Gone),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        let note = note(&lock)?;
        let mut fields = note.split(' ');
        let (pid, deadline_ms) = (fields.next(), fields.next());
        let changed = lock.metadata()?;
        let since = changed
            .mtime()
            .saturating_mul(1_000)
            .saturating_add(changed.mtime_nsec() / 1_000_000);
        Ok(Runner::Runs {
            pid: pid.and_then(|pid| pid.parse().ok()),
            deadline_ms: deadline_ms.and_then(|at_ms| at_ms.parse().ok()),
            since: Time::from_ms(since),
        })
    }
}

fn note(lock: &File) -> io::Result<String> {
    let mut note = [0; NOTE_BYTES_MAX];
    let count = lock.read_at(&mut note, 0)?;
    Ok(String::from_utf8_lossy(&note[..count])
        .trim_end()
        .to_owned())
}

/// What every front checks before it starts a task: a fence that was given must be good, and a step that
/// an orphan of the last holder is still at is left to it.
pub async fn check_start(
    engine: &Engine,
    id: &TaskId,
    fence: Option<Fence>,
) -> Result<(), ActError> {
    let view = match engine.view(id).await {
        Err(ActError::NoSuchTask(_)) => return Ok(()),
        other => other?,
    };
    fence.map_or(Ok(()), |ours| view.task.check_fence(ours))?;
    engine.holders().look_for(&view.task.lease.held).await?;
    match orphaned_step(engine, &view.task, &view.steps) {
        Some(step) => Err(Refusal::StepRunning {
            task: id.clone(),
            step,
        }
        .into()),
        None => Ok(()),
    }
}

/// Whether an orphan of the task's dead process is still at one of its steps on this machine.
pub(crate) async fn is_run_by_orphan(engine: &Engine, task: &Task) -> Result<bool, StoreError> {
    if task.steps_open == 0 || engine.home().is_none() {
        return Ok(false);
    }
    let steps = engine.store().steps(&task.id).await?;
    Ok(orphaned_step(engine, task, &steps).is_some())
}

/// Whether nobody works any more on a task that is in progress without a lease: its steps were begun
/// without a fence. Whoever did that counts as alive while a command of `step run` runs, and otherwise as
/// long after the last write as a time lease lasts. A `step run` that was killed is known at once.
pub(crate) async fn is_left_without_lease(
    engine: &Engine,
    task: &Task,
    now: Time,
) -> Result<bool, StoreError> {
    let mut is_left = now.since(task.updated_at) >= LEASE_DEFAULT;
    let Some(home) = engine.home().filter(|_| task.steps_open > 0) else {
        return Ok(is_left);
    };
    for step in engine
        .store()
        .steps(&task.id)
        .await?
        .iter()
        .filter(|step| step.is_open())
    {
        match RunningStep::runner(&home, &task.id, &step.key) {
            Ok(Runner::Runs { .. }) => return Ok(false),
            Ok(Runner::Gone) => is_left = true,
            // A lock that cannot be looked at tells nothing.
            Ok(Runner::None) | Err(_) => {}
        }
    }
    Ok(is_left)
}

/// A step that an orphan of the task's dead holder is still at: a new lease would throw its result away.
/// A timed lease is renewed by a live runner; once it ran out, the runner is frozen or was killed. Its
/// command is waited for while it acts, and a frozen one is not, which would be for ever. An attempt ends
/// with all its processes.
fn orphaned_step(engine: &Engine, task: &Task, steps: &[Step]) -> Option<StepKey> {
    let (home, held) = (engine.home()?, task.lease.held.as_ref()?);
    if engine.holders().is_alive(held) {
        return None;
    }
    let is_at = |key: &&StepKey| match &held.holder {
        Holder::Process(_)
        | Holder::Attempt {
            process: Some(_), ..
        } => RunningStep::is_taken(&home, &task.id, key),
        Holder::Time { .. } => RunningStep::is_acting(&home, &task.id, key),
        Holder::Attempt { process: None, .. } => Ok(false),
    };
    let mut open = steps
        .iter()
        .filter(|step| step.is_open())
        .map(|step| &step.key);
    open.find(|key| is_at(key).unwrap_or(false)).cloned()
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

/// Whether somebody is at it: it runs, or it was begun by whoever holds the task and lives.
pub(crate) fn is_under_way(holders: &Holders, home: &Path, task: &Task, step: &Step) -> bool {
    match RunningStep::runner(home, &task.id, &step.key) {
        Ok(Runner::Runs { .. }) => true,
        Ok(Runner::Gone) => false,
        // A lock that cannot be looked at tells nothing.
        Ok(Runner::None) | Err(_) => holders.is_held(&task.lease) && step.is_of_lease(&task.lease),
    }
}

/// Leaves only what is in doubt in the list of open steps: nobody is at it.
pub(crate) fn without_running(holders: &Holders, home: &Path, view: &mut TaskSnapshot) {
    let TaskSnapshot {
        task,
        steps,
        progress,
    } = view;
    let open = steps.iter().filter(|step| step.is_open());
    let in_doubt = open.filter(|step| !is_under_way(holders, home, task, step));
    progress.in_doubt = in_doubt.map(|step| step.key.to_string()).collect();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relight_core::decide::{Right, StartLimits, TaskEvent};
    use relight_core::ids::StepName;
    use relight_core::lease::ProcessIdentity;
    use relight_core::step::RepeatRule;
    use relight_core::task::NewTask;
    use relight_redact::{MarkKey, Redactor};
    use relight_store::MemoryStore;

    use super::*;
    use crate::recovery::lost;

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

    #[test]
    fn the_file_says_who_runs_the_step_and_until_when() {
        let home = tempfile::tempdir().unwrap();
        let task = TaskId::new("t").unwrap();
        let step = StepKey::first(StepName::new("a").unwrap());
        let runner = || RunningStep::runner(home.path(), &task, &step).unwrap();
        assert_eq!(runner(), Runner::None);
        let running = RunningStep::take(home.path(), &task, &step)
            .unwrap()
            .unwrap();
        let me = std::process::id();
        let own = |found: Runner| matches!(found, Runner::Runs { pid, deadline_ms: None, .. } if pid == Some(me));
        assert!(own(runner()), "{:?}", runner());
        running.note(7, Some(1_500)).unwrap();
        let noted = matches!(
            runner(),
            Runner::Runs {
                pid: Some(7),
                deadline_ms: Some(1_500),
                ..
            }
        );
        assert!(noted, "{:?}", runner());
        let copy = running.path.with_extension("copy");
        fs::copy(&running.path, &copy).unwrap();
        let path = running.path.clone();
        drop(running);
        fs::rename(copy, path).unwrap();
        assert_eq!(runner(), Runner::Gone, "a file that nobody has locked");
    }

    /// As with PostgreSQL: the locks are in the home of this machine, wherever the store is.
    #[tokio::test]
    async fn a_store_that_is_no_file_is_guarded_by_the_home_of_this_machine() {
        let home = tempfile::tempdir().unwrap();
        let redactor = Redactor::new(MarkKey::new([0; 32]));
        let elsewhere = Engine::new(Arc::new(MemoryStore::new()), redactor);
        let engine = elsewhere.clone().with_home(home.path());
        let (id, key) = (
            TaskId::new("t").unwrap(),
            StepKey::first(StepName::new("a").unwrap()),
        );
        let gone = ProcessIdentity {
            start: 1,
            ..process::me().clone()
        };
        let (new, holder) = (NewTask::bare(id.clone()), Holder::Process(gone));
        let limits = StartLimits::OwnBudget;
        let started = engine
            .start(new, Right::Unfenced, holder, None, limits)
            .await
            .unwrap();
        let rule = RepeatRule::Keyed;
        let begin = TaskEvent::StepBegin {
            key: key.clone(),
            rule,
            fingerprint: None,
        };
        engine
            .act(&id, Right::Fence(started.fence), begin)
            .await
            .unwrap();
        let running = RunningStep::take(home.path(), &id, &key).unwrap();
        let is_refused =
            |checked| matches!(checked, Err(ActError::Refused(Refusal::StepRunning { .. })));
        assert!(is_refused(check_start(&engine, &id, None).await));
        assert_eq!(lost(&engine).await.unwrap().len(), 0, "nobody recovers it");
        assert_eq!(
            lost(&elsewhere).await.unwrap().len(),
            1,
            "its home is not known there"
        );
        drop(running);
        assert!(check_start(&engine, &id, None).await.is_ok());
        assert_eq!(lost(&engine).await.unwrap().len(), 1);
    }

    /// Nobody can see who begins steps without a lease: the last write counts as a sign of life.
    #[tokio::test]
    async fn a_task_without_a_lease_is_left_when_nothing_was_written_for_as_long_as_a_lease_lasts()
    {
        let home = tempfile::tempdir().unwrap();
        let redactor = Redactor::new(MarkKey::new([0; 32]));
        let engine = Engine::new(Arc::new(MemoryStore::new()), redactor).with_home(home.path());
        let (id, key) = (
            TaskId::new("t").unwrap(),
            StepKey::first(StepName::new("a").unwrap()),
        );
        engine.add(NewTask::bare(id.clone())).await.unwrap();
        let rule = RepeatRule::Keyed;
        let begin = TaskEvent::StepBegin {
            key: key.clone(),
            rule,
            fingerprint: None,
        };
        engine.act(&id, Right::Unfenced, begin).await.unwrap();
        let task = engine.task(&id).await.unwrap();
        let later = task.updated_at.plus(LEASE_DEFAULT);
        let is_left = async |now| is_left_without_lease(&engine, &task, now).await.unwrap();
        assert!(!is_left(task.updated_at).await);
        assert!(is_left(later).await);
        let running = RunningStep::take(home.path(), &id, &key).unwrap();
        assert!(!is_left(later).await, "its command runs");
        drop(running);
        assert_eq!(lost(&engine).await.unwrap().len(), 0);
    }
}
