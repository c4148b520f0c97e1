//! A verb, where it starts and where it ends, and a stage that can be set back to its start.
//!
//! A workflow remembers the folder of its files, so a stage is set back in its place instead of
//! being copied to another.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use serde_json::Value;

use super::verbs::Verb;
use crate::world::product::Product;
use crate::world::stage::Stage;
use crate::world::strace::{self, Call};
use crate::world::tally::{Tally, Violation};

/// Stages that are harmed at the same time.
const WORKERS: usize = 3;

/// One worker's stage for one verb.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) verb: Verb,
    pub(super) stage: Stage,
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) calls: Vec<Call>,
    pub(super) folder: PathBuf,
}

/// What harming one call showed.
#[derive(Debug, Default)]
pub(super) struct Harmed {
    pub(super) reached: bool,
    pub(super) found: Vec<Violation>,
}

/// What harming all calls of a verb came to.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) calls: usize,
    pub(super) reached: usize,
    pub(super) failed: usize,
}

impl Reference {
    pub(super) fn take(product: &Product, verb: Verb, folder: &Path) -> anyhow::Result<Self> {
        let stage = verb.prepare(product, &folder.join("stage"))?;
        let before = verb.state(&stage);
        copy_folder(&folder.join("stage"), &folder.join("saved"))?;
        let (answer, mut calls) = strace::calls(&verb.command(&stage), folder)?;
        anyhow::ensure!(answer.code == 0, "{}: {}", verb.name, answer.stderr);
        let after = verb.state(&stage);
        calls.sort();
        calls.dedup_by(|a, b| (&a.name, a.number) == (&b.name, b.number));
        calls.retain(|call| call.name != "execve");
        Ok(Self {
            verb,
            stage,
            before,
            after,
            calls,
            folder: folder.to_owned(),
        })
    }

    /// Everything as it was before the verb.
    pub(super) fn set_back(&self) -> anyhow::Result<()> {
        let place = self.folder.join("stage");
        std::fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
        copy_folder(&self.folder.join("saved"), &place)
    }

    fn keep_failed(&self, call: &Call) -> anyhow::Result<()> {
        let name = format!("failed-{}-{}", call.name, call.number);
        copy_folder(&self.folder.join("stage"), &self.folder.join(name))
    }
}

/// Harms each call that is wanted, on several stages at the same time.
pub(super) fn harm_each(
    product: &Product,
    verb: Verb,
    folder: &Path,
    tally: &Tally,
    wanted: impl Fn(&Call) -> bool,
    harm: impl Fn(&Reference, &Call) -> anyhow::Result<Harmed> + Sync,
) -> anyhow::Result<Counted> {
    let references: anyhow::Result<Vec<Reference>> = (0..WORKERS)
        .map(|worker| Reference::take(product, verb, &folder.join(worker.to_string())))
        .collect();
    let references = references?;
    let calls: Vec<&Call> = references[0]
        .calls
        .iter()
        .filter(|call| wanted(call))
        .collect();
    let next = AtomicUsize::new(0);
    let (reached, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |reference: &Reference| -> anyhow::Result<()> {
        while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            reference.set_back()?;
            let harmed = harm(reference, call)?;
            let what = format!(
                "{} at {} {} {}",
                verb.name, call.name, call.number, call.line
            );
            tally.trial(&what, &harmed.found);
            reached.fetch_add(usize::from(harmed.reached), Ordering::Relaxed);
            if !harmed.found.is_empty() {
                failed.fetch_add(1, Ordering::Relaxed);
                reference.keep_failed(call)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = references.iter().map(|r| scope.spawn(|| work(r))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker never panics"))
    })?;
    Ok(Counted {
        calls: calls.len(),
        reached: reached.into_inner(),
        failed: failed.into_inner(),
    })
}

/// The files of a folder that nobody uses, elsewhere.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let file = file?;
        let place = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy_folder(&file.path(), &place)?;
        } else {
            std::fs::copy(file.path(), &place).with_context(|| place.display().to_string())?;
        }
    }
    Ok(())
}
