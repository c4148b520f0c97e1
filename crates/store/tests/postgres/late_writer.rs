//! Whoever began to write before a schema was marked as half copied or newer: its commit is waited for
//! and seen, and whoever comes later is refused.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::time::Duration;

use relight_core::time::Time;
use relight_store::StoreError;
use relight_store::postgres::{PostgresImporter, PostgresStore};
use relight_store::transfer::{CopyError, Importer as _};
use relight_testkit::conformance::Harness as _;
use tokio_postgres::{Client, NoTls};

use crate::harness::PostgresHarness;

/// How long is looked for somebody who waits.
const LOOKS_MAX: u32 = 6_000;

const MARK: &str = "BEGIN; UPDATE commit_mark SET number = number + 1 WHERE writer = 'late'
                    RETURNING (SELECT min_compatible FROM meta WHERE one)";

/// Has its mark and has looked at the schema, as a writer does before it commits.
struct LateWriter {
    client: Client,
    schema: String,
}

impl LateWriter {
    async fn begin(there: &PostgresHarness) -> Self {
        let url = there.url.to_string();
        let schema = url
            .rsplit('=')
            .next()
            .expect("the harness names a schema")
            .to_owned();
        let server = url.split('?').next().expect("what comes before");
        let (client, driver) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(driver);
        let prepare = format!(
            "SET search_path TO {schema}; INSERT INTO commit_mark (writer) VALUES ('late')"
        );
        client.batch_execute(&prepare).await.unwrap();
        client.batch_execute(MARK).await.unwrap();
        Self { client, schema }
    }

    /// Whether anybody waits for it, before `done` is.
    async fn is_waited_for(&self, done: impl Fn() -> bool) -> bool {
        let sql = "SELECT COUNT(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
                   JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE NOT l.granted AND n.nspname = $1";
        for _ in 0..LOOKS_MAX {
            let row = self.client.query_one(sql, &[&self.schema]).await.unwrap();
            if row.get::<_, i64>(0) > 0 {
                return true;
            }
            if done() {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    async fn commit(self) {
        let write = "INSERT INTO kept (name, body) VALUES ('late', '1'); COMMIT";
        self.client.batch_execute(write).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_begun_before_a_copy_is_never_lost_to_it() {
    let Some(there) = PostgresHarness::new() else {
        return;
    };
    drop(there.open().await);
    let late = LateWriter::begin(&there).await;
    let mut importer = PostgresImporter::open(&there.url).unwrap();
    let copying = tokio::spawn(async move { importer.begin("sqlite:a").await });
    assert!(
        late.is_waited_for(|| copying.is_finished()).await,
        "the copy waits for the writer"
    );
    late.commit().await;
    let refused = copying.await.unwrap().unwrap_err();
    assert!(matches!(refused, CopyError::NotEmpty { .. }), "{refused}");
    assert_eq!(
        there.open().await.kept("late").await.unwrap(),
        Some(1.into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_brought_up_when_all_writers_of_the_old_one_have_ended() {
    let Some(there) = PostgresHarness::new() else {
        return;
    };
    drop(there.open().await);
    let late = LateWriter::begin(&there).await;
    let older = "ROLLBACK; DROP FUNCTION append_step; DROP FUNCTION append_steps;
                 ALTER TABLE task DROP COLUMN pinned; UPDATE meta SET schema = 7";
    late.client.batch_execute(older).await.unwrap();
    late.client.batch_execute(MARK).await.unwrap();
    let url = there.url.clone();
    let opening = tokio::task::spawn_blocking(move || PostgresStore::open(&url).map(drop));
    assert!(
        late.is_waited_for(|| opening.is_finished()).await,
        "the new version waits"
    );
    late.commit().await;
    opening.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_is_removed_from_a_schema_that_is_half_copied() {
    let Some(there) = PostgresHarness::new() else {
        return;
    };
    let running = there.open().await;
    let mut importer = PostgresImporter::open(&there.url).unwrap();
    importer.begin("sqlite:a").await.unwrap();
    let refused = running
        .forget_attempts(Time::from_ms(i64::MAX))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, StoreError::HalfCopied { .. }),
        "{refused}"
    );
}
