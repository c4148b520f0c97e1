//! SIGKILL at every system call of a verb: what was acknowledged stays, the verb can be repeated.

use std::path::Path;

use super::driver_calls;
use super::reference::{self, Counted, Harmed, Reference};
use super::verbs::VERBS;
use crate::world::product::Product;
use crate::world::strace::{self, Call, Harm};
use crate::world::tally::{Promise, Tally, Violation};

/// Calls that change or sync something, or take a lock: what `--quick` takes.
const TELLING: [&str; 16] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "ftruncate",
    "mkdir",
    "openat",
    "flock",
    "exit_group",
];
/// How many verbs `--quick` takes.
const QUICK_VERBS: usize = 3;

/// Kills each verb at each of its calls.
pub fn run(product: &Product, work: &Path, quick: bool, tally: &Tally) -> anyhow::Result<()> {
    if !strace::is_usable() {
        tally.skip("syscalls", "strace is missing or may not trace");
        return Ok(());
    }
    let verbs = if quick {
        &VERBS[..QUICK_VERBS]
    } else {
        &VERBS[..]
    };
    for (number, verb) in verbs.iter().enumerate() {
        let folder = work.join(format!("syscalls-{number}"));
        let wanted = |call: &Call| !quick || is_telling(call);
        let counted = reference::harm_each(product, *verb, &folder, tally, wanted, kill_at)?;
        let Counted {
            calls,
            reached,
            failed,
        } = counted;
        println!(
            "syscalls: {:28} {calls:4} calls, {reached:4} kills, {failed} failed",
            verb.name
        );
    }
    driver_calls::run(product, work, quick, tally)
}

/// Whether a call changes or syncs something, or takes a lock.
pub(super) fn is_telling(call: &Call) -> bool {
    TELLING.contains(&call.name.as_str())
}

fn kill_at(reference: &Reference, call: &Call) -> anyhow::Result<Harmed> {
    let Reference {
        verb,
        stage,
        before,
        after,
        folder,
        ..
    } = reference;
    let (answer, reached) = strace::harmed(&verb.command(stage), folder, call, Harm::Kill)?;
    let mut found = verb.check_kept(stage, before)?;
    if answer.code == 0 && verb.state(stage) != *after {
        found.push(Violation::new(Promise::Lost, "exit 0, and it is not there"));
    }
    if found.is_empty() {
        found = verb.check_repeated(stage, after)?;
    }
    Ok(Harmed { reached, found })
}
