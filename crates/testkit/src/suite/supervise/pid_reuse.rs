//! Pids come round again: what belonged to an agent, a shim or a supervisor now belongs to a bystander,
//! who must never get a signal.
//!
//! In a PID namespace the next pid can be chosen, so this is forced, not waited for.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::Context as _;

use super::arena::{Arena, Cast};
use super::cast::Habit;
use super::fake_agent;
use crate::world::clock;
use crate::world::processes;
use crate::world::product::{Product, finish, plain};
use crate::world::tally::{Promise, Tally, Violation};

const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// Tries to get one pid: another process may be started in between.
const TRIES_MAX: u32 = 100;
/// By then a bystander has set its traps, and a dead process is reaped.
const READY_MAX: Duration = Duration::from_secs(120);
/// Long enough for a signal that was sent to be told.
const TOLD: Duration = Duration::from_millis(500);

/// Records every signal that can be caught; it is gone after one that cannot. It starts nothing, so that
/// it takes no pids.
const BYSTANDER: &str = r#"
for signal in HUP INT QUIT ABRT USR1 USR2 PIPE ALRM TERM CONT TSTP; do
  trap "echo $signal >> '$1'" "$signal"
done
exec 3<>"$2"
echo ready > "$3"
while :; do read -r -t 0.1 -u 3 nothing; done
"#;

/// Runs itself in a namespace of its own.
pub fn run(product: &Product, work: &Path, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("supervise-pids");
    let me = std::env::current_exe()
        .context("own path")?
        .display()
        .to_string();
    let binaries = product
        .driver
        .parent()
        .unwrap_or(Path::new("."))
        .display()
        .to_string();
    let folder = folder.display().to_string();
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let tried = finish(&mut plain(
        Path::new("unshare"),
        &[&unshare[..], &["true"]].concat(),
    ));
    if !tried.is_ok_and(|answer| answer.code == 0) {
        tally.skip(
            "supervise: reused pids",
            "no PID namespace can be made here (root only)",
        );
        return Ok(());
    }
    let words = [
        &unshare[..],
        &[&me, "--binaries", &binaries, "pid-reuse", &folder],
    ]
    .concat();
    let answer = finish(&mut plain(Path::new("unshare"), &words))?;
    for line in answer
        .stdout
        .lines()
        .filter(|line| line.starts_with("supervise:"))
    {
        println!("{line}");
    }
    let text = || format!("exit {}: {} {}", answer.code, answer.stdout, answer.stderr);
    let found = if answer.code == 0 {
        vec![]
    } else {
        vec![Violation::new(Promise::Foreign, text())]
    };
    tally.trial("./prove supervise (reused pids)", &found);
    Ok(())
}

/// What happens in the namespace, whose first process this is.
pub fn inside(product: &Product, folder: &Path) -> anyhow::Result<Vec<Violation>> {
    std::fs::create_dir_all(folder)?;
    let cast = Cast {
        up: &[Habit::Steady, Habit::Daemonizer],
        alone: None,
    };
    let mut arena = Arena::make(
        &product.relight,
        &fake_agent(product),
        folder,
        "reuse",
        cast,
    )?;
    arena.start_up()?;
    let mut found = arena.settle()?;
    let (everything, bystanders) = after_the_death_of_everything(&mut arena, folder)?;
    let (frozen, more) = behind_a_frozen_supervisor(&mut arena, folder)?;
    found.extend(everything);
    found.extend(frozen);
    found.extend(arena.close()?);
    clock::pause(TOLD);
    let all: Vec<Bystander> = bystanders.into_iter().chain(more).collect();
    let count = all.len();
    found.extend(all.into_iter().filter_map(Bystander::unharmed));
    println!(
        "supervise: {count} bystanders with reused pids, {} violations",
        found.len()
    );
    Ok(found)
}

/// Supervisor, shims and trees are dead, and all their pids taken; the next supervisor finds them in the
/// store.
fn after_the_death_of_everything(
    arena: &mut Arena,
    folder: &Path,
) -> anyhow::Result<(Vec<Violation>, Vec<Bystander>)> {
    let mut pids: Vec<u32> = arena.up.iter().map(|up| up.pid()).collect();
    pids.extend(arena.pids());
    arena.kill_everything()?;
    let bystanders = occupy(&pids, folder)?;
    arena.start_up()?;
    let mut found = arena.settle()?;
    let names: Vec<String> = arena
        .actors
        .iter()
        .map(|actor| actor.name.clone())
        .collect();
    for name in names {
        arena.note_told(&name)?;
        found.extend(arena.ask(&["restart", &name])?);
        arena.note_told(&name)?;
        found.extend(arena.settle()?);
    }
    Ok((found, bystanders))
}

/// The supervisor lives but is frozen while a tree dies and its pids are taken.
fn behind_a_frozen_supervisor(
    arena: &mut Arena,
    folder: &Path,
) -> anyhow::Result<(Vec<Violation>, Vec<Bystander>)> {
    let mut found = arena.settle()?;
    let name = arena.actors[0].name.clone();
    let pids: Vec<u32> = processes::tagged(|agent| agent == name)
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    if let Some(up) = &arena.up {
        up.freeze()?;
    }
    arena.kill_shim(&name)?;
    arena.kill_tree(&name)?;
    let bystanders = occupy(&pids, folder)?;
    if let Some(up) = &arena.up {
        up.thaw();
    }
    found.extend(arena.has_successor(&name)?);
    Ok((found, bystanders))
}

/// Puts a bystander on each of these pids.
fn occupy(pids: &[u32], folder: &Path) -> anyhow::Result<Vec<Bystander>> {
    let is_free = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    let all_free = clock::becomes(READY_MAX, || {
        processes::reap_orphans();
        Ok(pids.iter().all(is_free))
    })?;
    anyhow::ensure!(
        all_free,
        "pids {pids:?} are not free {READY_MAX:?} after their death"
    );
    pids.iter().map(|pid| Bystander::on(*pid, folder)).collect()
}

struct Bystander {
    child: Child,
    record: PathBuf,
}

impl Bystander {
    fn on(pid: u32, folder: &Path) -> anyhow::Result<Self> {
        for attempt in 0..TRIES_MAX {
            let place = folder.join(format!("bystander-{pid}-{attempt}"));
            std::fs::create_dir_all(&place)?;
            let (record, ready) = (place.join("signals"), place.join("ready"));
            let fifo = place.join("fifo");
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &fifo,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RWXU,
                0,
            )?;
            let paths = [&record, &fifo, &ready].map(|path| path.display().to_string());
            let words = [
                "-c",
                BYSTANDER,
                "bystander",
                &paths[0],
                &paths[1],
                &paths[2],
            ];
            let mut command = plain(Path::new("bash"), &words);
            // Somebody else's agent: a tag alone makes nobody ours.
            command.env("RELIGHT_ATTEMPT", "somebody-else.1.0123456789ab");
            std::fs::write(LAST_PID, (pid - 1).to_string())?;
            let mut child = command.spawn()?;
            if child.id() == pid {
                let is_ready = clock::becomes(READY_MAX, || Ok(ready.exists()))?;
                anyhow::ensure!(is_ready, "the bystander on pid {pid} is not ready");
                return Ok(Self { child, record });
            }
            child.kill()?;
            child.wait()?;
        }
        anyhow::bail!("pid {pid} could not be had in {TRIES_MAX} tries")
    }

    /// Ends it; what it had to suffer.
    fn unharmed(mut self) -> Option<Violation> {
        let pid = self.child.id();
        let is_alive = processes::is_alive(pid);
        let signals = std::fs::read_to_string(&self.record).unwrap_or_default();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let got: Vec<&str> = signals.lines().collect();
        let text = format!("the bystander on pid {pid} got {got:?}, alive: {is_alive}");
        (!is_alive || !got.is_empty()).then(|| Violation::new(Promise::Foreign, text))
    }
}
