//! Opening: a server that is new enough, our schema in it, brought up to date by one process at a time.

use std::time::Duration;

use tokio::time::Instant;

use super::connection::{AS_LONG_AS_IT_TAKES, Connection, PostgresServer, values};
use super::error::PostgresFailure;
use super::transfer;
use crate::contract::StoreError;
use crate::upgrading;

/// PostgreSQL 13.
const SERVER_VERSION_MIN: i32 = 130_000;

/// Numbered from 1, named as SQLite's, and never edited after they landed.
const MIGRATIONS: [&str; 9] = [
    include_str!("migrations/0001_foundation.sql"),
    include_str!("migrations/0002_agents.sql"),
    include_str!("migrations/0003_recovery.sql"),
    include_str!("migrations/0004_sessions.sql"),
    include_str!("migrations/0005_queue_index.sql"),
    include_str!("migrations/0006_nodes.sql"),
    include_str!("migrations/0007_attempt_events.sql"),
    include_str!("migrations/0008_append_steps.sql"),
    include_str!("migrations/0009_pinned_tasks.sql"),
];

/// The oldest schema whose versions may write beside this one: to be raised by a migration that an
/// older version could not live with.
const MIN_COMPATIBLE: u32 = 9;

/// Added to the oldest version while another store is being copied into the schema: no version may use
/// it then, also none that knows nothing of copies.
const HALF_COPIED: i32 = 1_000_000_000;

/// Run in a transaction, before `meta` is changed. Waits for all writers that hold their mark: they
/// have read the old `meta`. Writers that take their mark later read the new one.
pub(super) const WAIT_FOR_WRITERS: &str = "LOCK TABLE commit_mark IN EXCLUSIVE MODE";

/// Run in a transaction. Other processes refuse the schema until `mark_whole`.
pub(super) fn mark_half_copied() -> String {
    format!(
        "UPDATE meta SET min_compatible = min_compatible + {HALF_COPIED}
         WHERE min_compatible < {HALF_COPIED}"
    )
}

/// Inside of a transaction: it is a store like any other.
pub(super) fn mark_whole() -> String {
    format!(
        "UPDATE meta SET min_compatible = GREATEST(min_compatible - {HALF_COPIED}, {MIN_COMPATIBLE})"
    )
}

/// The newest schema this version knows.
pub(super) fn schema_known() -> u32 {
    MIGRATIONS.len() as u32
}

/// What is known of the store once it is open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// What orders the journal among all writers of this schema.
    pub(super) journal_key: i64,
}

/// How long a server may take to say what is there.
const LOOK_WAIT: Duration = Duration::from_secs(90);
/// How long a server that is there, but starts or ends just now, is waited for.
const STARTING_WAIT: Duration = Duration::from_secs(10);
/// How long between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// What a schema may be that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// A store, made when there is none.
    Any,
    /// A store that is there.
    There,
    /// The same for one who only reads: it is not brought up to date by the way.
    Read,
    /// The same as any, or one that another store is being copied into.
    HalfCopied,
}

/// Connects, and makes the schema or brings it up to date. A server that cannot be reached is told of
/// at once: more often than not the address is wrong.
pub(super) async fn open(
    server: &PostgresServer,
    expected: Expected,
) -> Result<Opened, PostgresFailure> {
    let until = Instant::now() + STARTING_WAIT;
    loop {
        match open_once(server, expected).await {
            Err(PostgresFailure::Lost(why)) if is_there(&why) && Instant::now() < until => {}
            Err(PostgresFailure::Again) if Instant::now() < until => {}
            answer => return answer,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether a server answered at all.
fn is_there(why: &str) -> bool {
    !why.starts_with("error connecting")
        && !why.starts_with("error performing TLS")
        && !why.starts_with("no answer")
}

async fn open_once(server: &PostgresServer, expected: Expected) -> Result<Opened, PostgresFailure> {
    let looking = tokio::time::timeout(LOOK_WAIT, look(server, expected));
    let seen = looking
        .await
        .map_err(|_| PostgresFailure::Lost("no answer".to_owned()))??;
    let db = seen.connection;
    if seen.found < schema_known() && expected == Expected::Read {
        let why = upgrading::refusal(seen.found, schema_known());
        return Err(StoreError::Unsuitable {
            place: server.place.to_string(),
            why,
        }
        .into());
    }
    if seen.found < schema_known() {
        upgrading::tell(&server.place, seen.found, schema_known());
        migrate(server, &db, seen.migration_key).await?;
    }
    let (_, min_compatible) = schema(&db).await?;
    if min_compatible < HALF_COPIED {
        check_compatible(&server.place, min_compatible)?;
    } else if expected != Expected::HalfCopied {
        let (place, from) = (
            server.place.to_string(),
            transfer::half_copied_from(&db).await?,
        );
        return Err(StoreError::HalfCopied { place, from }.into());
    }
    Ok(Opened {
        connection: db,
        journal_key: seen.journal_key,
    })
}

/// What is there before anything is changed.
struct ExistingSchema {
    connection: Connection,
    /// The schema's number; 0 where there is none.
    found: u32,
    journal_key: i64,
    migration_key: i64,
}

async fn look(
    server: &PostgresServer,
    expected: Expected,
) -> Result<ExistingSchema, PostgresFailure> {
    let connection = server.connect(None).await?;
    let sql = "SELECT current_setting('server_version_num')::integer,
                      current_setting('server_version'), current_setting('server_encoding'),
                      hashtextextended('relight journal ' || $1::text, 0),
                      hashtextextended('relight migration ' || $1::text, 0),
                      to_regclass(quote_ident($1::text) || '.meta') IS NOT NULL";
    let row = connection
        .query_opt(sql, &values![server.url.schema.clone()])
        .await?;
    let row = row.expect("a selection of settings has a row");
    check_server(server, row.get(0), row.get(1), row.get(2))?;
    let is_there: bool = row.get(5);
    if !is_there && [Expected::There, Expected::Read].contains(&expected) {
        let why = format!("there is no store in it (no schema {})", server.url.schema);
        return Err(server.unreachable(why).into());
    }
    let found = if is_there {
        schema(&connection).await?.0
    } else {
        0
    };
    Ok(ExistingSchema {
        connection,
        found,
        journal_key: row.get(3),
        migration_key: row.get(4),
    })
}

fn check_server(
    server: &PostgresServer,
    number: i32,
    version: &str,
    encoding: &str,
) -> Result<(), PostgresFailure> {
    let why = if number < SERVER_VERSION_MIN {
        format!("PostgreSQL {version} is older than 13")
    } else if encoding != "UTF8" {
        format!("the database is encoded in {encoding}; make one with ENCODING 'UTF8'")
    } else {
        return Ok(());
    };
    Err(StoreError::Unsuitable {
        place: server.place.to_string(),
        why,
    }
    .into())
}

/// The schema's number, and the oldest version that may use it.
pub(super) async fn schema(db: &Connection) -> Result<(u32, i32), PostgresFailure> {
    let row = db
        .query_opt("SELECT schema, min_compatible FROM meta WHERE one", &[])
        .await?;
    let Some(row) = row else {
        let (place, what) = (db.place.to_string(), "its schema has no number".to_owned());
        return Err(StoreError::Damaged { place, what }.into());
    };
    Ok((row.get::<_, i32>(0).unsigned_abs(), row.get(1)))
}

/// A newer schema is accepted if it declares that this version may still use it.
pub(super) fn check_compatible(place: &str, min_compatible: i32) -> Result<(), StoreError> {
    let (found, known) = (min_compatible.unsigned_abs(), schema_known());
    let place = place.to_owned();
    if min_compatible >= HALF_COPIED {
        return Err(StoreError::HalfCopied {
            place,
            from: "another store".to_owned(),
        });
    }
    if found <= known {
        Ok(())
    } else {
        Err(StoreError::Newer {
            place,
            found,
            known,
        })
    }
}

/// All or nothing; a second process waits and finds the migration done. There is no time limit: a large
/// store takes long, and the next try would start from the beginning. The server ends the idle
/// transaction of a frozen process.
async fn migrate(
    server: &PostgresServer,
    db: &Connection,
    key: i64,
) -> Result<(), PostgresFailure> {
    let schema_name = &server.url.schema;
    db.batch(
        "BEGIN; SET LOCAL lock_timeout TO 0;
         SET LOCAL idle_in_transaction_session_timeout TO '60s'",
    )
    .await?;
    let lock = "SELECT 1 FROM pg_advisory_xact_lock($1::bigint)";
    db.query_within(AS_LONG_AS_IT_TAKES, lock, &values![key])
        .await?;
    let make = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if db
        .query_opt(make, &values![schema_name.clone()])
        .await?
        .is_none()
    {
        db.batch(&format!("CREATE SCHEMA \"{schema_name}\""))
            .await?;
    }
    let is_there = "SELECT to_regclass(quote_ident($1::text) || '.meta') IS NOT NULL";
    let is_there = db
        .query_opt(is_there, &values![schema_name.clone()])
        .await?;
    let found = match is_there.is_some_and(|row| row.get(0)) {
        true => schema(db).await?.0,
        false => 0,
    };
    // If others hold the lock for longer than this, they continue first and the migration is retried.
    db.batch("SET LOCAL lock_timeout TO '60s'").await?;
    if (1..schema_known()).contains(&found) {
        db.batch(WAIT_FOR_WRITERS).await?;
    }
    for migration in MIGRATIONS.iter().skip(found as usize) {
        db.batch_within(AS_LONG_AS_IT_TAKES, migration).await?;
    }
    if found < schema_known() {
        let known = schema_known();
        db.batch(&format!(
            "UPDATE meta SET schema = {known},
                 min_compatible = GREATEST(min_compatible, {MIN_COMPATIBLE})"
        ))
        .await?;
    }
    db.batch("COMMIT").await
}
