//! What the store in PostgreSQL writes for each thing that happens: bytes of WAL, and rows.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use relight_testkit::postgres::Cluster;

use crate::holder::{Holder, RESULT_BYTES};
use crate::load::{Carrier, Until, Worker, per_second};
use crate::product::{Backlog, Library};
use crate::row::Row;
use crate::samples::Samples;
use crate::stage::Stage;

/// Tasks that write at once, and steps that each of them writes.
const LOADS: [(usize, usize); 3] = [(1, 1_000), (64, 100), (256, 40)];
/// Tasks that are claimed and ended.
const CLAIMED: usize = 1_000;
/// Those who do.
const CLAIMERS: usize = 50;
/// Renewals of a node.
const RENEWALS: usize = 1_000;
/// The server tells of rows so long after a connection has ended.
const TOLD_AFTER: Duration = Duration::from_millis(500);

pub(crate) fn rows(stage: &Stage, cluster: &Cluster) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (at_once, each) in LOADS {
        let cost = Cost::of(stage, cluster, at_once * each, |library| {
            let name = format!("wal-{at_once}");
            let holders = Holder::start(&stage.runtime, library, &name, at_once)?;
            per_second(
                &stage.runtime,
                Carrier::Tasks,
                holders,
                Until::Written(each),
            )
            .map(drop)
        })?;
        rows.extend(cost.rows(&format!(
            "a step of {RESULT_BYTES} bytes, {at_once} at once"
        )));
    }
    Cost::of(stage, cluster, CLAIMED, |library| {
        stage
            .runtime
            .block_on(library.fill("waiting", CLAIMED, Backlog::Waiting))
    })?;
    let claims = Cost::of(stage, cluster, CLAIMED, |library| {
        let claimers = (0..CLAIMERS)
            .map(|_| Claimer(Arc::clone(library)))
            .collect();
        let until = Until::Written(CLAIMED / CLAIMERS);
        per_second(&stage.runtime, Carrier::Tasks, claimers, until).map(drop)
    })?;
    rows.extend(claims.rows("claim and done"));
    let renewals = Cost::of(stage, cluster, RENEWALS, |library| {
        stage
            .runtime
            .block_on(library.renew_node("renewed", RENEWALS))
    })?;
    rows.extend(renewals.rows("a node's renewal"));
    Ok(rows)
}

/// Takes the next task and ends it.
struct Claimer(Arc<Library>);

impl Worker for Claimer {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.0.claim_and_end().await
    }
}

/// Of one of many.
struct Cost {
    wal_bytes: f64,
    rows: f64,
}

impl Cost {
    /// With connections of its own, which end before it is looked at: only then is all of it told.
    fn of(
        stage: &Stage,
        cluster: &Cluster,
        count: usize,
        act: impl FnOnce(&Arc<Library>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Cost> {
        let url = cluster.url("?schema=wal&sslmode=disable");
        let open = || {
            stage
                .runtime
                .block_on(Library::open_url(&url))
                .map(Arc::new)
        };
        // The schema is made before.
        drop(open()?);
        cluster.sql("CHECKPOINT");
        let before = written(cluster)?;
        let library = open()?;
        act(&library)?;
        drop(library);
        let after = written(cluster)?;
        let of_one = |from: f64, to: f64| (to - from) / count as f64;
        Ok(Cost {
            wal_bytes: of_one(before.0, after.0),
            rows: of_one(before.1, after.1),
        })
    }

    fn rows(&self, what: &str) -> [Row; 2] {
        let one = |figure: f64| Samples::new(vec![figure]);
        [
            Row::new(format!("WAL of {what}"), "bytes").figure(Some(&one(self.wal_bytes))),
            Row::new(format!("rows of {what}"), "rows").figure(Some(&one(self.rows))),
        ]
    }
}

/// Bytes of WAL and rows, since the server began.
fn written(cluster: &Cluster) -> anyhow::Result<(f64, f64)> {
    thread::sleep(TOLD_AFTER);
    let found = cluster.sql(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'),
                COALESCE(SUM(n_tup_ins + n_tup_upd + n_tup_del), 0)
         FROM pg_stat_user_tables WHERE schemaname = 'wal'",
    );
    let (bytes, rows) = found.split_once('|').with_context(|| found.clone())?;
    Ok((bytes.parse()?, rows.parse()?))
}
