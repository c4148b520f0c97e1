//! A machine of a fleet: a process tree in PID, mount and time namespaces of its own, on its own cable.
//!
//! Its first process starts what it is told and reaps orphans (`driver::machine`); when that one is
//! killed the kernel kills all others with it, as a power cut would. A machine that boots again has
//! another boot id and another time since boot, as a real one has.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;

use super::network::{Cable, mortal};
use super::seed::Seed;
use super::{clock, processes};

/// By then a machine has booted, and is dead after its end.
const BOOT_MAX: Duration = Duration::from_secs(120);
/// Rounds until everything of a machine is stopped: it may be starting something.
const ROUNDS_MAX: u32 = 200;
/// The longest pause between two kinds of processes that wake up.
const WAKE_PAUSE: Duration = Duration::from_millis(30);

/// How it is made.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// Where its state is.
    pub home: PathBuf,
    /// The `prove-driver` binary, for its first process.
    pub driver: PathBuf,
    /// Variables for everything that runs there.
    pub variables: Vec<(String, String)>,
}

/// One machine, on or off.
#[derive(Debug)]
pub struct Machine {
    blueprint: Blueprint,
    /// Its network, which stays.
    pub cable: Cable,
    life: Option<Life>,
}

#[derive(Debug)]
struct Life {
    /// Outside: ends with the first process.
    unshare: Child,
    first_pid: u32,
    namespace: PathBuf,
}

/// What a process of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    First,
    Daemon,
    Shim,
    Agent,
    /// Started by nobody but us, guarded by nobody.
    Worker,
}

impl Machine {
    /// One that is off.
    pub fn new(blueprint: Blueprint, cable: Cable) -> Self {
        Self {
            blueprint,
            cable,
            life: None,
        }
    }

    /// Where its state is.
    pub fn home(&self) -> &Path {
        &self.blueprint.home
    }

    /// Where its daemons' standard errors go.
    pub fn said(&self) -> PathBuf {
        self.home().join("said")
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.life.is_some()
    }

    /// Switches it on. Boot id and time since boot are drawn anew.
    pub fn boot(&mut self, seed: &mut Seed) -> anyhow::Result<()> {
        let boot_id = self.home().join("boot_id");
        let (a, b) = (seed.draw(), seed.draw());
        let (c, d) = (a >> 32 & 0xffff, a >> 48);
        let text = format!(
            "{:08x}-{c:04x}-4{:03x}-8{:03x}-{:012x}\n",
            a as u32,
            d & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        );
        std::fs::write(&boot_id, text)?;
        let ahead_s = (1 + seed.below(30 * 86_400)).to_string();
        let network = format!("--net={}", self.cable.file().display());
        let own =
            "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && exec \"$2\" machine \"$3\"";
        let [boot_id, driver, said] =
            [&boot_id, &self.blueprint.driver, &self.said()].map(|path| path.display().to_string());
        let mut words = vec![
            "nsenter",
            &network,
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ];
        words.extend(["--time", "--boottime", &ahead_s, "--monotonic", &ahead_s]);
        words.extend(["sh", "-c", own, "machine", &boot_id, &driver, &said]);
        let mut command = mortal(&words);
        command.envs(
            self.blueprint
                .variables
                .iter()
                .map(|(name, value)| (name, value)),
        );
        // What it has to say when its child was killed is no news.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut unshare = command.spawn().context("cannot start unshare")?;
        let first = first_process(&mut unshare, &self.blueprint.driver);
        let Ok(first_pid) = first else {
            let _ = unshare.kill();
            let _ = unshare.wait();
            anyhow::bail!("the machine in {} does not boot", self.home().display());
        };
        let namespace = std::fs::read_link(format!("/proc/{first_pid}/ns/pid"))?;
        self.life = Some(Life {
            unshare,
            first_pid,
            namespace,
        });
        Ok(())
    }

    /// Starts a program there.
    pub fn start(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let life = self.life.as_mut().context("the machine is off")?;
        let stdin = life
            .unshare
            .stdin
            .as_mut()
            .context("its first process listens")?;
        stdin
            .write_all(format!("{}\n", words.join("\t")).as_bytes())
            .context("it is dead")
    }

    /// A power cut.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut life) = self.life.take() else {
            return Ok(());
        };
        processes::kill(life.first_pid);
        let ended = clock::becomes(BOOT_MAX, || Ok(life.unshare.try_wait()?.is_some()))?;
        let _ = life.unshare.kill();
        let _ = life.unshare.wait();
        anyhow::ensure!(ended, "a machine outlived its first process");
        Ok(())
    }

    /// The newest daemon, when one lives.
    pub fn daemon(&self) -> Option<u32> {
        let all = self.processes();
        all.into_iter()
            .filter(|(_, kind)| *kind == Kind::Daemon)
            .map(|(pid, _)| pid)
            .max()
    }

    /// How many agents live there.
    pub fn agents(&self) -> usize {
        self.processes()
            .iter()
            .filter(|(_, kind)| *kind == Kind::Agent)
            .count()
    }

    /// Stops all of it where it is, at one moment as nearly as may be.
    pub fn freeze(&self) -> anyhow::Result<()> {
        for _ in 0..ROUNDS_MAX {
            let going: Vec<u32> = self
                .processes()
                .into_iter()
                .map(|(pid, _)| pid)
                .filter(|pid| !processes::is_stopped(*pid))
                .collect();
            if going.is_empty() {
                return Ok(());
            }
            going
                .into_iter()
                .for_each(|pid| processes::signal(pid, Signal::STOP));
        }
        anyhow::bail!("a machine could not be stopped")
    }

    /// Lets all of it go on, one kind of processes after the other by chance.
    pub fn thaw(&self, seed: &mut Seed) {
        let all = self.processes();
        let mut kinds = [
            Kind::First,
            Kind::Daemon,
            Kind::Shim,
            Kind::Agent,
            Kind::Worker,
        ];
        seed.shuffle(&mut kinds);
        for kind in kinds {
            for (pid, _) in all.iter().filter(|(_, found)| *found == kind) {
                processes::signal(*pid, Signal::CONT);
            }
            clock::pause(seed.moment(WAKE_PAUSE));
        }
    }

    fn processes(&self) -> Vec<(u32, Kind)> {
        let Some(life) = &self.life else {
            return Vec::new();
        };
        let all = processes::in_namespace(&life.namespace).into_iter();
        let kind = |pid: u32| {
            let words = processes::words(pid);
            match words.first()?.as_str() {
                _ if pid == life.first_pid => Some(Kind::First),
                first if first.starts_with("relight-shim") => Some(Kind::Shim),
                _ if words.get(1).is_some_and(|word| word == "up") => Some(Kind::Daemon),
                _ if words.get(1).is_some_and(|word| word == "fleet-worker") => Some(Kind::Worker),
                _ => Some(Kind::Agent),
            }
        };
        all.filter_map(|pid| Some((pid, kind(pid)?))).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Waits until the first process is what it is to be.
fn first_process(unshare: &mut Child, driver: &Path) -> anyhow::Result<u32> {
    let pid = unshare.id();
    let mut found = None;
    let booted = clock::becomes(BOOT_MAX, || {
        let text =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found = text.split(' ').find_map(|child| child.parse::<u32>().ok());
        let is_it = |pid: u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == driver)
        };
        Ok(found.is_some_and(is_it) || unshare.try_wait()?.is_some())
    })?;
    found.filter(|_| booted).context("it does not boot")
}
