//! Workers that write one after the other, many at once: the same load for floor and product.

use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Somebody who writes and waits until the write is durable.
pub(crate) trait Worker: Send + 'static {
    fn write(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// How long each worker goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    Written(usize),
}

/// What carries the workers when there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Asynchronous tasks on as many threads as there are cores.
    Tasks,
    /// A thread each: what the scheduler costs is part of the figure.
    Threads,
}

/// Acknowledged writes per second of all workers together.
///
/// A lone worker runs on the calling thread, as a program with one task would.
pub(crate) fn per_second<W: Worker>(
    runtime: &Runtime,
    carrier: Carrier,
    mut workers: Vec<W>,
    until: Until,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let written = match (workers.as_mut_slice(), carrier) {
        ([lone], _) => runtime.block_on(go_on(lone, until))?,
        (_, Carrier::Tasks) => runtime.block_on(in_tasks(workers, until))?,
        (several, Carrier::Threads) => in_threads(runtime, several, until)?,
    };
    Ok(written as f64 / began.elapsed().as_secs_f64())
}

async fn in_tasks<W: Worker>(workers: Vec<W>, until: Until) -> anyhow::Result<usize> {
    let mut running = JoinSet::new();
    for mut worker in workers {
        running.spawn(async move { go_on(&mut worker, until).await });
    }
    let mut written = 0;
    while let Some(one) = running.join_next().await {
        written += one??;
    }
    Ok(written)
}

fn in_threads<W: Worker>(
    runtime: &Runtime,
    workers: &mut [W],
    until: Until,
) -> anyhow::Result<usize> {
    thread::scope(|scope| {
        let start = |worker| scope.spawn(move || runtime.block_on(go_on(worker, until)));
        let running: Vec<_> = workers.iter_mut().map(start).collect();
        running
            .into_iter()
            .map(|one| one.join().expect("a worker does not panic"))
            .sum()
    })
}

async fn go_on<W: Worker>(worker: &mut W, until: Until) -> anyhow::Result<usize> {
    let began = Instant::now();
    let mut written = 0;
    loop {
        let enough = match until {
            Until::Elapsed(time) => began.elapsed() >= time,
            Until::Written(count) => written >= count,
        };
        if enough {
            return Ok(written);
        }
        worker.write().await?;
        written += 1;
    }
}
