//! Those who keep a worker alive: the floor, Relight, and what people use today. All keep the same worker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use relight_testkit::world::clock::monotonic_ns;
use relight_testkit::world::daemon::{Entry, Home, Supervisor};
use relight_testkit::world::processes;

use crate::births::{Birth, Births};
use crate::stage::Stage;

/// No contestant takes longer to bring one worker back.
const BACK_MAX: Duration = Duration::from_secs(20);
/// No contestant takes longer for all of a thousand.
const ALL_BACK_MAX: Duration = Duration::from_secs(120);
/// A worker is left alone for so long before it is killed: what its start left to do is done.
const CALM: Duration = Duration::from_millis(50);
/// runsv waits for a second before it restarts what lived for less than a second.
const RUNIT_CALM: Duration = Duration::from_millis(1_100);

/// Somebody who keeps workers alive, and the workers that live now.
pub(crate) struct Keeper {
    processes: Vec<Child>,
    supervisor: Option<Supervisor>,
    pub(crate) home: Option<Home>,
    /// What the names of Relight's agents begin with.
    prefix: Option<String>,
    pub(crate) births: Births,
    pub(crate) workers: Vec<Birth>,
    calm: Duration,
    last: Instant,
}

impl Keeper {
    /// `count` loops of a wait and a start, each with its worker.
    pub(crate) fn floor(stage: &Stage, name: &str, count: usize) -> anyhow::Result<Keeper> {
        let mut keeper = Keeper::empty(&stage.subfolder(name)?)?;
        for _ in 0..count {
            let mut command = plain(&stage.floor("floor-restart-loop"));
            command
                .arg(stage.floor("floor-worker"))
                .arg(keeper.births.path());
            keeper.processes.push(command.spawn()?);
        }
        keeper.wait_for_all(count)
    }

    /// `relight up` with so many agents, whose names begin with `name`.
    pub(crate) fn relight(stage: &Stage, name: &str, count: usize) -> anyhow::Result<Keeper> {
        Keeper::relight_in(Path::new("/"), stage, name, count)
    }

    /// The same, with agents that work in this folder.
    pub(crate) fn relight_in(
        workspace: &Path,
        stage: &Stage,
        name: &str,
        count: usize,
    ) -> anyhow::Result<Keeper> {
        let mut keeper = Keeper::prepared_in(workspace, stage, name, count)?;
        keeper.up()?;
        keeper.wait_for_all(count)
    }

    /// Configured and not started; outside of any repository.
    pub(crate) fn prepared(stage: &Stage, name: &str, count: usize) -> anyhow::Result<Keeper> {
        Keeper::prepared_in(Path::new("/"), stage, name, count)
    }

    fn prepared_in(
        workspace: &Path,
        stage: &Stage,
        name: &str,
        count: usize,
    ) -> anyhow::Result<Keeper> {
        let folder = stage.subfolder(name)?;
        let mut keeper = Keeper::empty(&folder)?;
        let home = Home::new(stage.relight(), &folder.join("home"))?;
        ensure!(home.has_verb("up"), "there is no `relight up` yet");
        let worker = stage.floor("floor-worker").display().to_string();
        let pipe = keeper.births.path().display().to_string();
        let prefix = prefix_of(name);
        let workspace = format!("{:?}", workspace.display().to_string());
        let entry = |number| {
            Entry::at_once(&format!("{prefix}{number}"), &[&worker, &pipe])
                .with("folder", &workspace)
        };
        home.configure(&(0..count).map(entry).collect::<Vec<_>>())?;
        (keeper.home, keeper.prefix) = (Some(home), Some(prefix));
        Ok(keeper)
    }

    /// `runsv` of runit; none when it is not installed.
    pub(crate) fn runit(stage: &Stage) -> anyhow::Result<Option<Keeper>> {
        let Some(runsv) = installed("runsv") else {
            return Ok(None);
        };
        let mut keeper = Keeper::empty(&stage.subfolder("runit")?)?;
        let folder = keeper
            .births
            .path()
            .parent()
            .context("a pipe has a folder")?
            .to_owned();
        // No shell between: runsv starts the worker itself, in this folder.
        std::os::unix::fs::symlink(stage.floor("floor-worker"), folder.join("run"))?;
        keeper.processes.push(plain(&runsv).arg(&folder).spawn()?);
        keeper.calm = RUNIT_CALM;
        keeper.wait_for_all(1).map(Some)
    }

    /// supervisord; none when it is not installed.
    pub(crate) fn supervisord(stage: &Stage) -> anyhow::Result<Option<Keeper>> {
        let Some(supervisord) = installed("supervisord") else {
            return Ok(None);
        };
        let folder = stage.subfolder("supervisord")?;
        let mut keeper = Keeper::empty(&folder)?;
        let (folder_text, pipe) = (folder.display(), keeper.births.path().display());
        let worker = stage.floor("floor-worker");
        let text = format!(
            "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n\
             pidfile={folder_text}/pid\n[program:worker]\ncommand={} {pipe}\nautorestart=true\n\
             startsecs=0\nstdout_logfile=NONE\nstderr_logfile=NONE\n",
            worker.display()
        );
        fs::write(folder.join("supervisord.conf"), text)?;
        let mut command = plain(&supervisord);
        command.arg("-c").arg(folder.join("supervisord.conf"));
        keeper.processes.push(command.spawn()?);
        keeper.wait_for_all(1).map(Some)
    }

    /// Starts `relight up`, again after it was killed.
    pub(crate) fn up(&mut self) -> anyhow::Result<()> {
        let home = self.home.as_ref().context("a home of Relight's")?;
        self.supervisor = Some(home.up(&[])?);
        Ok(())
    }

    /// The same with HTTP.
    pub(crate) fn serve(&mut self) -> anyhow::Result<()> {
        let home = self.home.as_ref().context("a home of Relight's")?;
        self.supervisor = Some(home.serve(&[])?);
        Ok(())
    }

    /// Relight's, while it lives.
    pub(crate) fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    /// Kills `relight up` and nothing else.
    pub(crate) fn kill_supervisor(&mut self) -> anyhow::Result<()> {
        self.supervisor.take().context("a supervisor")?.kill()
    }

    /// The process that supervises.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        let of_relight = self.supervisor.as_ref().map(Supervisor::pid);
        of_relight
            .or_else(|| Some(self.processes.first()?.id()))
            .context("somebody supervises")
    }

    /// Waits for the first birth of each worker.
    pub(crate) fn wait_for_all(mut self, count: usize) -> anyhow::Result<Keeper> {
        match self.births.take(count, ALL_BACK_MAX) {
            Ok(workers) => self.workers = workers,
            Err(error) => {
                let said = self.home.as_ref().map(Home::last_said).unwrap_or_default();
                return Err(error.context(said));
            }
        }
        self.last = Instant::now();
        Ok(self)
    }

    /// Kills the one worker; how long until the first instruction of its successor.
    pub(crate) fn kill_one_ms(&mut self) -> anyhow::Result<f64> {
        self.be_calm();
        let killed = self.workers.pop().context("a worker lives")?;
        let began = monotonic_ns();
        processes::kill(killed.pid);
        let born = self.births.next(BACK_MAX)?;
        self.workers.push(born);
        self.last = Instant::now();
        Ok(span_ms(began, born.at_ns))
    }

    /// Kills all workers at once; how long until the last of the successors began.
    pub(crate) fn kill_all_ms(&mut self) -> anyhow::Result<f64> {
        self.be_calm();
        let killed = std::mem::take(&mut self.workers);
        let began = monotonic_ns();
        killed.iter().for_each(|worker| processes::kill(worker.pid));
        self.workers = self.births.take(killed.len(), ALL_BACK_MAX)?;
        self.last = Instant::now();
        let last = self
            .workers
            .iter()
            .map(|birth| birth.at_ns)
            .max()
            .unwrap_or(began);
        Ok(span_ms(began, last))
    }

    fn be_calm(&self) {
        thread::sleep(self.calm.saturating_sub(self.last.elapsed()));
    }

    fn empty(folder: &Path) -> anyhow::Result<Keeper> {
        Ok(Keeper {
            processes: Vec::new(),
            supervisor: None,
            home: None,
            prefix: None,
            births: Births::in_folder(folder)?,
            workers: Vec::new(),
            calm: CALM,
            last: Instant::now(),
        })
    }

    fn is_worker(&self, pid: u32) -> bool {
        let Ok(command) = fs::read(format!("/proc/{pid}/cmdline")) else {
            return false;
        };
        String::from_utf8_lossy(&command).contains("floor-worker")
            || fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe.ends_with("floor-worker"))
    }
}

impl Drop for Keeper {
    /// First those who would bring workers back, then the workers.
    fn drop(&mut self) {
        if let (Some(home), Some(_)) = (&self.home, &self.supervisor) {
            // In good order where it can; killed below in any case.
            let _ = home.call(&["down"]);
        }
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.kill();
        }
        if let Some(prefix) = &self.prefix {
            processes::end_all(|agent| agent.starts_with(prefix));
        }
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        // Born since the last one that was counted.
        while let Ok(Some(born)) = self.births.next_within(Duration::from_millis(20)) {
            self.workers.push(born);
        }
        for worker in self
            .workers
            .iter()
            .filter(|worker| self.is_worker(worker.pid))
        {
            processes::kill(worker.pid);
        }
    }
}

/// What the names of agents begin with; nobody else's on this machine do.
pub(crate) fn prefix_of(name: &str) -> String {
    format!("b{}-{name}-", std::process::id())
}

/// From one moment to a later one.
pub(crate) fn span_ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    folders
        .map(|folder| Path::new(folder).join(program))
        .into_iter()
        .find(|path| path.exists())
}
