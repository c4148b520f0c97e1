//! SIGKILL at every telling system call of a whole run of a driver, then on to the end.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::kill;
use super::syscalls::is_telling;
use crate::checker;
use crate::driver::{self, DriverKind};
use crate::world::product::Product;
use crate::world::stage::Stage;
use crate::world::strace::{self, Call, Harm};
use crate::world::tally::{Promise, Tally, Violation};

/// A driver that is not killed any more needs no more lives: one for each step in doubt.
const LIVES_MAX: u32 = 8;
const LIFE_MAX: Duration = Duration::from_secs(180);
const WORKERS: usize = 3;
/// `--quick` takes one call in so many.
const QUICK_STRIDE: usize = 12;

/// Kills the library's driver at each call, on a stage of its own each time.
pub fn run(product: &Product, work: &Path, quick: bool, tally: &Tally) -> anyhow::Result<()> {
    let kind = DriverKind::Library;
    let stage = Stage::in_folder(product, &work.join("driver-calls"), "whole")?;
    let (answer, mut calls) =
        strace::calls(&kill::driver(&stage, kind), &work.join("driver-calls"))?;
    anyhow::ensure!(
        answer.code == 0,
        "a driver that nobody kills: {}",
        answer.stderr
    );
    calls.retain(is_telling);
    calls.sort();
    calls.dedup_by(|a, b| (&a.name, a.number) == (&b.name, b.number));
    let stride = if quick { QUICK_STRIDE } else { 1 };
    let calls: Vec<&Call> = calls.iter().step_by(stride).collect();
    let (next, reached) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || -> anyhow::Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(call) = calls.get(at) else {
                return Ok(());
            };
            let folder = work.join(format!("driver-calls-{at}"));
            let (hit, found) = kill_at(product, kind, call, &folder)?;
            reached.fetch_add(usize::from(hit), Ordering::Relaxed);
            tally.trial(
                &format!("library driver at {} {}", call.name, call.number),
                &found,
            );
            if found.is_empty() {
                std::fs::remove_dir_all(&folder)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker never panics"))
    })?;
    let (calls, kills) = (calls.len(), reached.into_inner());
    println!(
        "syscalls: {:28} {calls:4} calls, {kills:4} kills",
        "a whole run by the library"
    );
    Ok(())
}

fn kill_at(
    product: &Product,
    kind: DriverKind,
    call: &Call,
    folder: &Path,
) -> anyhow::Result<(bool, Vec<Violation>)> {
    let stage = Stage::in_folder(product, folder, "T")?;
    let (_, reached) = strace::harmed(&kill::driver(&stage, kind), folder, call, Harm::Kill)?;
    for _ in 0..LIVES_MAX {
        let mut found = checker::check_running(&stage, kind)?;
        let (code, _) = kill::spawn(&stage, kind, folder)?.wait_for_all(LIFE_MAX)?;
        match u8::try_from(code).unwrap_or(driver::UNEXPECTED) {
            driver::COMPLETED => {
                found.extend(checker::check_completed(&stage, kind)?);
                return Ok((reached, found));
            }
            driver::IN_DOUBT => found.extend(kill::resolve(&stage, kind)?),
            _ => found.push(Violation::new(Promise::Answer, kill::said(folder, code))),
        }
        if !found.is_empty() {
            return Ok((reached, found));
        }
    }
    let text = format!("not completed after {LIVES_MAX} lives");
    Ok((reached, vec![Violation::new(Promise::Lost, text)]))
}
