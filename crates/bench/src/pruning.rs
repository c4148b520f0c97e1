//! Commits of one process while it removes a large history from PostgreSQL.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::load::Worker as _;
use crate::product::Library;
use crate::row::Row;
use crate::samples::Samples;
use crate::stage::Stage;

/// How long the quiet part lasts.
const QUIET: Duration = Duration::from_secs(2);

/// `library` has a history of so many finished tasks.
pub(crate) fn rows(stage: &Stage, library: &Arc<Library>) -> anyhow::Result<Vec<Row>> {
    let mut holders = Holder::start(&stage.runtime, library, "beside-pruning", 1)?;
    let mut holder = holders.pop().expect("one was started");
    stage.runtime.block_on(async {
        let quiet = async {
            tokio::time::sleep(QUIET).await;
            Ok(())
        };
        let quiet = steps_until(&mut holder, quiet).await?;
        let began = Instant::now();
        let removing = tokio::spawn({
            let library = Arc::clone(library);
            async move { library.forget_events().await }
        });
        let mut removed = 0;
        let told = async {
            removed = removing.await??;
            anyhow::Ok(())
        };
        let pruned = steps_until(&mut holder, told).await?;
        let events_per_s = removed as f64 / began.elapsed().as_secs_f64();
        let longest = |all: &[f64]| Samples::new(vec![all.iter().copied().fold(0.0, f64::max)]);
        Ok(vec![
            Row::new(
                format!("events pruned beside a worker, {removed} in all"),
                "events/s",
            )
            .figure(Some(&Samples::new(vec![events_per_s]))),
            Row::new("its longest step meanwhile", "ms")
                .figure(Some(&longest(&pruned)))
                .beside("its longest step before", Some(&longest(&quiet))),
            Row::new("its steps meanwhile", "ms")
                .figure(Some(&Samples::new(pruned)))
                .beside("its steps before", Some(&Samples::new(quiet))),
        ])
    })
}

/// The time of each step until something is over.
async fn steps_until(
    holder: &mut Holder,
    over: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Vec<f64>> {
    let mut all = Vec::new();
    tokio::pin!(over);
    loop {
        let began = Instant::now();
        holder.write().await?;
        all.push(began.elapsed().as_secs_f64() * 1e3);
        tokio::select! {
            biased;
            ended = &mut over => return ended.map(|()| all),
            () = std::future::ready(()) => {}
        }
    }
}
