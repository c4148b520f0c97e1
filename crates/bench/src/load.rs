//! Workers that write one after the other, many at once: the same load for floor and product.

use std::future::Future;
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

/// Acknowledged writes per second of all workers together.
///
/// A lone worker runs on the calling thread, as a program with one task would.
pub(crate) fn per_second<W: Worker>(
    runtime: &Runtime,
    mut workers: Vec<W>,
    until: Until,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let written = match workers.as_mut_slice() {
        [lone] => runtime.block_on(go_on(lone, until))?,
        _ => runtime.block_on(all_at_once(workers, until))?,
    };
    Ok(written as f64 / began.elapsed().as_secs_f64())
}

async fn all_at_once<W: Worker>(workers: Vec<W>, until: Until) -> anyhow::Result<usize> {
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
