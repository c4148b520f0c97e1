//! EIO and ENOSPC at every call on the store or the files, a full disk, a read-only disk.
//!
//! Exit 0 must be true, 74 means that nothing was acknowledged, 73 that only the file copy is
//! missing. In each case the last good state is intact and the verb works once the fault is gone.

use std::path::Path;

use super::reference::{self, Counted, Harmed, Reference};
use super::verbs::VERBS;
use crate::world::product::{Answer, Product};
use crate::world::strace::{self, Call, Harm};
use crate::world::tally::{Promise, Tally, Violation};

/// Calls that a disk can refuse.
const REFUSED: [&str; 15] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "openat",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "pread64",
];
/// How many verbs `--quick` takes.
const QUICK_VERBS: usize = 2;

/// Harms each verb at each of its calls on the store and the files.
pub fn run(product: &Product, work: &Path, quick: bool, tally: &Tally) -> anyhow::Result<()> {
    if !strace::is_usable() {
        tally.skip("faults", "strace is missing or may not trace");
        return Ok(());
    }
    let verbs = if quick {
        &VERBS[..QUICK_VERBS]
    } else {
        &VERBS[..]
    };
    for (number, verb) in verbs.iter().enumerate() {
        for error in ["EIO", "ENOSPC"] {
            let folder = work.join(format!("faults-{number}-{error}"));
            let wanted = |call: &Call| on_state(call) && can_be(call, error);
            let harm = |reference: &Reference, call: &Call| fail_at(reference, call, error);
            let counted = reference::harm_each(product, *verb, &folder, tally, wanted, harm)?;
            let Counted {
                calls,
                reached,
                failed,
            } = counted;
            let name = verb.name;
            println!("faults: {name:28} {calls:4} calls, {reached:4} × {error}, {failed} failed");
        }
    }
    Ok(())
}

/// On the store, its log or a checkpoint file; by the paths that the trace shows.
fn on_state(call: &Call) -> bool {
    ["/stage/home", "/stage/checkpoints"]
        .iter()
        .any(|place| call.line.contains(place))
}

fn can_be(call: &Call, error: &str) -> bool {
    REFUSED.contains(&call.name.as_str()) && (error != "ENOSPC" || call.name != "pread64")
}

fn fail_at(reference: &Reference, call: &Call, error: &'static str) -> anyhow::Result<Harmed> {
    let Reference {
        verb,
        stage,
        before,
        folder,
        after,
        ..
    } = reference;
    let harm = Harm::Error(error);
    let (answer, reached) = strace::harmed(&verb.command(stage), folder, call, harm)?;
    let mut found = verb.check_kept(stage, before)?;
    if reached && let Some(violation) = check_answer(reference, call, &answer)? {
        found.push(violation);
    }
    if found.is_empty() {
        found = verb.check_repeated(stage, after)?;
    }
    Ok(Harmed { reached, found })
}

fn check_answer(
    reference: &Reference,
    call: &Call,
    answer: &Answer,
) -> anyhow::Result<Option<Violation>> {
    let Reference {
        verb, stage, after, ..
    } = reference;
    let there = verb.state(stage) == *after;
    let on_log = call.line.contains("relight.db-wal");
    let unsynced = matches!(call.name.as_str(), "fsync" | "fdatasync") && on_log;
    let broken = match answer.code {
        0 if !there => Some((Promise::Lost, "exit 0, and it is not there")),
        0 if unsynced => Some((Promise::Lost, "exit 0, though the log was not synced")),
        73 if !there => Some((Promise::Lost, "exit 73, and the store does not have it")),
        73 if !verb.has_file => Some((Promise::Answer, "exit 73 of a verb without a file")),
        // SQLite takes EIO of a read as a file system that lost a page.
        65 if call.name == "pread64" => None,
        0 | 73 | 74 => None,
        _ => Some((Promise::Answer, "an exit code that does not fit")),
    };
    Ok(broken.map(|(promise, text)| {
        let said = answer.stderr.trim();
        Violation::new(promise, format!("{text}: exit {}: {said}", answer.code))
    }))
}
