//! Whole stores between files and PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use relight_core::time::Time;
use relight_store::StoreError;
use relight_store::postgres::{PostgresExporter, PostgresImporter, PostgresStore, raise_numbers};
use relight_store::transfer::{CopyError, Importer as _, Table, Verified};
use relight_testkit::conformance::Harness as _;

use crate::ground::{CutOff, File, InSmallPages, copied, fill, verified};
use crate::harness::PostgresHarness;
use crate::proxy::{self, Trap};
use crate::server::Cluster;

const OPERATIONS: u32 = 200;

fn exporter(schema: &PostgresHarness) -> PostgresExporter {
    PostgresExporter::open(&schema.url).expect("the store opens")
}

fn importer(schema: &PostgresHarness) -> PostgresImporter {
    PostgresImporter::open(&schema.url).expect("the store opens")
}

async fn sums(schema: &PostgresHarness) -> Verified {
    verified(&mut exporter(schema)).await
}

#[tokio::test]
async fn a_store_that_went_to_postgres_and_back_has_the_same_hashes() {
    for seed in 0..3 {
        let Some(there) = PostgresHarness::new() else {
            return;
        };
        let (from, back) = (File::filled(seed, 2 * OPERATIONS).await, File::new());
        copied(&mut from.exporter(), &mut importer(&there))
            .await
            .unwrap();
        copied(&mut exporter(&there), &mut back.importer())
            .await
            .unwrap();
        let whole = from.verified().await;
        assert_eq!(whole.damage.told, Vec::<String>::new(), "seed {seed}");
        assert_eq!(sums(&there).await, whole, "seed {seed}");
        assert_eq!(back.verified().await, whole, "seed {seed}");
    }
}

#[tokio::test]
async fn a_store_of_postgres_goes_into_a_file_and_into_another_schema() {
    let (Some(from), Some(to)) = (PostgresHarness::new(), PostgresHarness::new()) else {
        return;
    };
    fill(11, OPERATIONS, &from).await;
    let (whole, file) = (sums(&from).await, File::new());
    assert_eq!(whole.damage.told, Vec::<String>::new());
    copied(&mut exporter(&from), &mut importer(&to))
        .await
        .unwrap();
    copied(&mut exporter(&from), &mut file.importer())
        .await
        .unwrap();
    assert_eq!(
        (sums(&to).await, file.verified().await),
        (whole.clone(), whole)
    );
}

#[tokio::test]
async fn a_copy_into_postgres_that_is_cut_off_at_any_write_is_gone_on_with() {
    let from = File::filled(3, OPERATIONS).await;
    let whole = from.verified().await;
    let mut writes = 0;
    loop {
        let Some(to) = PostgresHarness::new() else {
            return;
        };
        let mut few = InSmallPages {
            store: from.exporter(),
            rows_max: 40,
        };
        let mut cut_off = CutOff {
            store: importer(&to),
            writes_left: writes,
        };
        if copied(&mut few, &mut cut_off).await.is_ok() {
            break;
        }
        drop(cut_off);
        let refused = PostgresStore::open(&to.url).unwrap_err();
        assert!(
            matches!(&refused, StoreError::HalfCopied { from, .. } if from.contains("relight.db"))
        );
        assert!(PostgresExporter::open(&to.url).is_err());
        let second = copied(&mut from.exporter(), &mut importer(&to))
            .await
            .unwrap();
        assert!(
            second.went_on && second.anew.is_empty(),
            "after {writes}: {second:?}"
        );
        assert_eq!(sums(&to).await, whole, "after {writes} writes");
        writes += 1;
    }
    assert!(writes > 4, "it was cut off {writes} times");
}

#[tokio::test]
async fn a_copy_into_postgres_goes_on_when_what_was_copied_was_removed_and_made_again() {
    let from = File::filled(3, OPERATIONS).await;
    for writes in 1.. {
        let Some(to) = PostgresHarness::new() else {
            return;
        };
        let mut few = InSmallPages {
            store: from.exporter(),
            rows_max: 80,
        };
        let mut cut_off = CutOff {
            store: importer(&to),
            writes_left: writes,
        };
        if copied(&mut few, &mut cut_off).await.is_ok() {
            return;
        }
        drop((few, cut_off));
        from.make_the_first_anew();
        let second = copied(&mut from.exporter(), &mut importer(&to)).await;
        assert!(
            second.unwrap().anew.contains(&Table::Task),
            "after {writes} writes"
        );
        assert_eq!(
            sums(&to).await.hash,
            from.verified().await.hash,
            "after {writes} writes"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_last_answer_is_lost_is_complete() {
    let (Some(to), Some(cluster)) = (PostgresHarness::new(), Cluster::shared()) else {
        return;
    };
    let trap = Arc::new(Trap::default());
    let port = proxy::start(cluster.port(), Arc::clone(&trap)).await;
    let (own, other) = (format!(":{}/", cluster.port()), format!(":{port}/"));
    let by_proxy = to.url.to_string().replace(&own, &other);
    let mut importer = PostgresImporter::open(&by_proxy.parse().unwrap()).unwrap();
    importer.begin("sqlite:a").await.unwrap();
    trap.swallow_commit();
    importer.finish().await.unwrap_err();
    assert!(
        PostgresStore::open(&to.url).is_err(),
        "the commit never came there"
    );
    let mut importer = PostgresImporter::open(&by_proxy.parse().unwrap()).unwrap();
    importer.begin("sqlite:a").await.unwrap();
    trap.swallow_answer();
    importer.finish().await.unwrap();
    assert_eq!(trap.caught.load(std::sync::atomic::Ordering::SeqCst), 2);
    drop(PostgresStore::open(&to.url).unwrap());
}

#[tokio::test]
async fn a_row_that_postgres_has_no_place_for_is_left_out_and_told_of() {
    let (Some(to), from) = (PostgresHarness::new(), File::filled(3, OPERATIONS).await) else {
        return;
    };
    let whole = from.verified().await;
    from.sql(
        "PRAGMA ignore_check_constraints = ON;
         UPDATE task_body SET spec = CAST(x'ff' AS TEXT) WHERE n = (SELECT MIN(n) FROM task_body)",
    );
    let copied = copied(&mut from.exporter(), &mut importer(&to))
        .await
        .unwrap();
    let told = copied.damage.told.join("; ");
    assert!(told.contains("not copied: spec holds"), "{told}");
    let there = sums(&to).await;
    assert_eq!(there.tables[0].rows, whole.tables[0].rows - 1);
    assert_eq!(there.tables[6], whole.tables[6], "the rest is there");
}

#[tokio::test]
async fn a_schema_is_not_brought_up_to_date_by_whoever_only_reads_it() {
    let (Some(there), Some(cluster)) = (PostgresHarness::new(), Cluster::shared()) else {
        return;
    };
    drop(there.open().await);
    let url = there.url.to_string();
    let schema = url.rsplit('=').next().expect("the harness names a schema");
    cluster.sql(&format!("UPDATE {schema}.meta SET schema = 7"));
    let refused = PostgresExporter::open(&there.url).map(drop).unwrap_err();
    assert!(refused.to_string().contains("it has schema 7"), "{refused}");
    assert_eq!(
        cluster.sql(&format!("SELECT schema FROM {schema}.meta")),
        "7"
    );
}

#[tokio::test]
async fn a_node_that_has_the_schema_open_is_refused_while_it_is_half_copied() {
    let (Some(to), from) = (PostgresHarness::new(), File::filled(1, 60).await) else {
        return;
    };
    let running = to.open().await;
    let mut cut_off = CutOff {
        store: importer(&to),
        writes_left: 1,
    };
    copied(&mut from.exporter(), &mut cut_off)
        .await
        .unwrap_err();
    let late = running.keep("a", None, 1.into()).await.unwrap_err();
    assert!(matches!(late, StoreError::HalfCopied { .. }), "{late}");
    copied(&mut from.exporter(), &mut importer(&to))
        .await
        .unwrap();
    assert!(
        running.keep("a", None, 1.into()).await.unwrap(),
        "then it goes on"
    );
}

#[tokio::test]
async fn numbers_go_on_after_a_copy_and_writes_meanwhile_are_counted() {
    let (Some(from), Some(to)) = (PostgresHarness::new(), PostgresHarness::new()) else {
        return;
    };
    fill(2, OPERATIONS, &from).await;
    let before = sums(&from).await;
    let mut look = exporter(&from);
    fill(9, 20, &to).await;
    let full = copied(&mut look, &mut importer(&to)).await.unwrap_err();
    assert!(matches!(full, CopyError::NotEmpty { .. }), "{full}");
    let Some(to) = PostgresHarness::new() else {
        return;
    };
    let told = relight_store::StoreEvent {
        at: Time::from_ms(1),
        kind: relight_core::event::EventKind::Drain,
        detail: serde_json::Value::Null,
    };
    let tell = |store: std::sync::Arc<dyn relight_store::Store>| {
        let told = vec![told.clone()];
        async move {
            store
                .keep_and_tell("new", None, 1.into(), told)
                .await
                .unwrap()
        }
    };
    assert!(tell(from.open().await).await);
    let copied = copied(&mut look, &mut importer(&to)).await.unwrap();
    assert_eq!((copied.written_meanwhile, sums(&to).await), (1, before));
    let store = to.open().await;
    let newest = store.newest_event().await.unwrap();
    assert!(tell(std::sync::Arc::clone(&store)).await);
    assert_eq!(store.newest_event().await.unwrap(), newest + 1);
}

#[tokio::test]
async fn numbers_of_a_restored_schema_are_raised() {
    let Some(there) = PostgresHarness::new() else {
        return;
    };
    fill(4, OPERATIONS, &there).await;
    let least = 1_790_000_000_000;
    raise_numbers(&there.url, least, &serde_json::json!({})).unwrap();
    let store = there.open().await;
    assert!(store.newest_event().await.unwrap() >= least);
    for task in store
        .tasks(relight_store::TaskQuery::default())
        .await
        .unwrap()
    {
        assert!(task.lease.fence.0 >= least);
    }
    assert_eq!(sums(&there).await.damage.told, Vec::<String>::new());
    assert!(store.keep("a", None, 1.into()).await.unwrap());
}

#[tokio::test]
async fn old_events_of_a_restored_schema_are_removed_however_far_its_numbers_were_raised() {
    let Some(there) = PostgresHarness::new() else {
        return;
    };
    fill(4, OPERATIONS, &there).await;
    raise_numbers(&there.url, 1_790_000_000_000, &serde_json::json!({})).unwrap();
    let store = there.open().await;
    let removing = store.forget_events(Time::from_ms(4_000_000_000_000));
    let removed = tokio::time::timeout(Duration::from_secs(120), removing).await;
    let removed = removed.expect("it takes a few statements").unwrap();
    assert!(removed > 0);
    assert!(store.newest_event().await.unwrap() >= 1_790_000_000_000);
}

#[tokio::test]
async fn verify_finds_what_is_wrong_in_a_schema() {
    let (Some(there), Some(cluster)) = (PostgresHarness::new(), Cluster::shared()) else {
        return;
    };
    let from = File::filled(3, 2 * OPERATIONS).await;
    copied(&mut from.exporter(), &mut importer(&there))
        .await
        .unwrap();
    assert_eq!(sums(&there).await.damage.count, 0);
    let schema = there.url.to_string();
    let schema = schema
        .rsplit('=')
        .next()
        .expect("the harness names a schema");
    cluster.sql(&format!(
        "SET search_path TO {schema};
         UPDATE task SET steps_done = steps_done + 1 WHERE n = (SELECT MIN(n) FROM task);
         UPDATE session SET finished = generation + 1 WHERE n = (SELECT MIN(n) FROM session);
         INSERT INTO lease (n, since, holder) VALUES (999, 1, '{{}}')"
    ));
    let told = sums(&there).await.damage.told.join("; ");
    for finding in ["leases of no task", "steps done", "never begun"] {
        assert!(told.contains(finding), "{finding}: {told}");
    }
}
