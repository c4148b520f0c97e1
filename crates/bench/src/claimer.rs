//! Whoever takes the next task of the queue and ends it.

use std::sync::Arc;

use crate::load::{Carrier, Until, Worker, per_second};
use crate::product::{Backlog, Library};
use crate::stage::Stage;

struct Claimer(Arc<Library>);

impl Worker for Claimer {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.0.claim_and_end().await
    }
}

/// Tasks taken and ended per second by workers that are spread over these handles, `each` of them as
/// many. Exactly so many tasks wait; adding them is no part of the figure.
pub(crate) fn per_second_of(
    stage: &Stage,
    libraries: &[Arc<Library>],
    workers: usize,
    each: usize,
    round: &str,
) -> anyhow::Result<f64> {
    let tasks = each * workers;
    stage
        .runtime
        .block_on(libraries[0].fill(round, tasks, Backlog::Waiting))?;
    let library = |worker: usize| Arc::clone(&libraries[worker % libraries.len()]);
    let claimers = (0..workers)
        .map(|worker| Claimer(library(worker)))
        .collect();
    per_second(
        &stage.runtime,
        Carrier::Tasks,
        claimers,
        Until::Written(each),
    )
}
