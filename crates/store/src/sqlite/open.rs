//! Opens the database file. Never replaces an unreadable store by an empty one, never exposes a
//! half-created one, and refuses file systems with unreliable locks.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::store_error;
use super::file_system;
use super::transfer::half_copied_from;
use crate::contract::StoreError;
use crate::upgrading;

/// Older versions can lose or corrupt a WAL (the reset race up to 3.51.2).
const SQLITE_VERSION_MIN: i32 = 3_053_004;
/// Log size that short-lived processes leave behind. Reading this much costs each of them about
/// what a checkpoint costs the commits that filled it.
const LOG_BYTES_KEPT: u64 = 40 * 4_120;
/// `RLHT`, the application id in the header.
const APPLICATION_ID: i32 = 0x524c_4854;
/// `RLHC`: a copy into this store is not finished. Versions without copying refuse it too.
const HALF_COPIED_ID: i32 = 0x524c_4843;

/// Numbered from 1. Never edited after release.
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

/// How a process uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A single command. Leaves the log to the next process instead of a checkpoint at each exit,
    /// which would cost four more syncs.
    Short,
    /// A daemon or a program that embeds the library.
    Long,
}

/// The newest schema this version knows.
pub(super) fn schema_known() -> u32 {
    MIGRATIONS.len() as u32
}

/// Opens the store's file; creates it if it does not exist.
pub(super) fn open(path: &Path, usage: Use) -> Result<Connection, StoreError> {
    let connection = open_any(path, usage)?;
    if application_id(path, &connection)? == HALF_COPIED_ID {
        let (place, from) = (path.display().to_string(), half_copied_from(&connection));
        return Err(StoreError::HalfCopied { place, from });
    }
    Ok(connection)
}

/// Refuses an older schema, for read-only access that must not upgrade it, such as a backup.
pub(super) fn refuse_older(path: &Path) -> Result<(), StoreError> {
    let connection = connect(path, Use::Long)?;
    let found = schema(path, &connection)?;
    let is_ours = application_id(path, &connection)? == APPLICATION_ID;
    if is_ours && found < schema_known() {
        let why = upgrading::refusal(found, schema_known());
        return Err(StoreError::Unsuitable {
            place: path.display().to_string(),
            why,
        });
    }
    Ok(())
}

fn schema(path: &Path, connection: &Connection) -> Result<u32, StoreError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
    Ok(found.map_err(|e| store_error(path, e))? as u32)
}

/// Opens the target of a copy, which may be incomplete.
pub(super) fn open_half_copied(path: &Path) -> Result<Connection, StoreError> {
    open_any(path, Use::Long)
}

/// Within a transaction: marks the store as incomplete, so that nobody else uses it until
/// `mark_whole`.
pub(super) fn mark_half_copied(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", HALF_COPIED_ID)
}

/// Within a transaction: marks the store as complete.
pub(super) fn mark_whole(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)
}

fn application_id(path: &Path, connection: &Connection) -> Result<i32, StoreError> {
    let found = connection.pragma_query_value(None, "application_id", |row| row.get(0));
    found.map_err(|e| store_error(path, e))
}

fn open_any(path: &Path, usage: Use) -> Result<Connection, StoreError> {
    check_version(path)?;
    // Never opened: a pipe would be waited for, and a device reads as damaged.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let (place, why) = (
            path.display().to_string(),
            "it is not a regular file".to_owned(),
        );
        return Err(StoreError::Unsuitable { place, why });
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.len() == 0 => return Err(damaged(path, "the file is empty")),
        Ok(_) => refuse_remote(path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(path)?,
        Err(error) => return Err(io_error(path, error)),
    }
    restore_modes(path)?;
    let log = with_suffix(path, "-wal");
    let log_is_used = fs::metadata(log).is_ok_and(|found| found.len() > 0);
    let connection = connect(path, usage)?;
    let found = check_header(path, &connection)?;
    keep_log(path, &connection)?;
    if !log_is_used {
        sync_log_name(path, &connection)?;
    }
    if found < schema_known() {
        upgrading::tell(&path.display().to_string(), found, schema_known());
        migrate(path, &connection)?;
    }
    Ok(connection)
}

/// Makes the name of a new log durable before anything is written there. SQLite would do so with the first
/// commit of every process, which is a second sync for most commands; it is compiled without that
/// (`.cargo/config.toml`). A log with content had its name made durable by the process that wrote first.
fn sync_log_name(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    // The first read creates the log.
    application_id(path, connection)?;
    match fs::File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
        // Nothing will be written there.
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(()),
        synced => synced.map_err(|error| io_error(path, error)),
    }
}

/// Gives the log and its index the mode of the store again. SQLite creates them with the mode that the
/// store has then, so those of a store that was read-only for a while stay so, and it cannot be written.
fn restore_modes(path: &Path) -> Result<(), StoreError> {
    const OWN: u32 = 0o600;
    let own = rustix::process::geteuid().as_raw();
    let Ok(store) = fs::metadata(path) else {
        return Ok(());
    };
    if store.uid() != own || store.mode() & OWN != OWN {
        return Ok(());
    }
    for suffix in ["-wal", "-shm"] {
        let file = with_suffix(path, suffix);
        let is_lacking = fs::symlink_metadata(&file)
            .is_ok_and(|it| it.is_file() && it.uid() == own && it.mode() & OWN != OWN);
        if is_lacking {
            let restored = fs::set_permissions(&file, store.permissions());
            restored.map_err(|error| io_error(&file, error))?;
        }
    }
    Ok(())
}

fn refuse_remote(path: &Path) -> Result<(), StoreError> {
    match file_system::refusal(&folder_of(path)) {
        Some(why) => Err(StoreError::Unsuitable {
            place: path.display().to_string(),
            why,
        }),
        None => Ok(()),
    }
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, Use::Long)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|e| store_error(path, e))?;
    Ok(connection)
}

fn check_version(path: &Path) -> Result<(), StoreError> {
    let found = rusqlite::version_number();
    if found >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let why = format!("SQLite {} is older than 3.53.4", rusqlite::version());
    Err(StoreError::Unsuitable {
        place: path.display().to_string(),
        why,
    })
}

/// Creates the folder and its parents durably.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.as_os_str().is_empty() || folder.exists() {
        return Ok(());
    }
    let above = folder_of(folder);
    make_folder(&above)?;
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::File::open(&above)?.sync_all(),
    }
}

/// Creates the complete file under a temporary name and links it into place. The first process
/// wins, and nobody sees a half-created store.
fn create(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    make_folder(&folder).map_err(|e| io_error(path, e))?;
    refuse_remote(path)?;
    let log = with_suffix(path, "-wal");
    let log_is_there = fs::metadata(&log).is_ok_and(|found| found.len() > 0);
    if log_is_there && fs::symlink_metadata(path).is_ok() {
        // Another process created the store meanwhile.
        return Ok(());
    }
    if log_is_there {
        return Err(damaged(
            path,
            "the file is gone, but its log (-wal) is there",
        ));
    }
    // Unique even across containers with the same pids.
    let pid = std::process::id();
    let random = RandomState::new().hash_one(pid);
    let draft = with_suffix(path, &format!(".new-{pid}-{random:x}"));
    let made = write_draft(&draft).and_then(|()| publish(&draft, path, &folder));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        // A leftover temporary file does no harm.
        let _ = fs::remove_file(with_suffix(&draft, suffix));
    }
    made
}

fn write_draft(draft: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(draft).map_err(|e| io_error(draft, e))?;
    let connection = connect(draft, Use::Long)?;
    let script = || {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)
    };
    script().map_err(|e| store_error(draft, e))?;
    migrate(draft, &connection)?;
    // Closing also checkpoints the log, but does not report errors.
    let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: bool = connection
        .query_row(fold, [], |row| row.get(0))
        .map_err(|e| store_error(draft, e))?;
    assert!(!is_busy, "nobody else knows the draft");
    connection.close().map_err(|(_, e)| store_error(draft, e))
}

fn publish(draft: &Path, path: &Path, folder: &Path) -> Result<(), StoreError> {
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io_error(path, error)),
    }
    let folder = fs::File::open(folder).map_err(|e| io_error(path, e))?;
    folder.sync_all().map_err(|e| io_error(path, e))
}

fn connect(path: &Path, usage: Use) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let setup = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(wait_for_others))?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.set_db_config(
            DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
            usage == Use::Short,
        )?;
        // Otherwise SQLite plans statements again for each call, depending on bound values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let synchronous = if cfg!(feature = "broken-sync-normal") {
            "NORMAL"
        } else {
            "FULL"
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        if cfg!(target_vendor = "apple") {
            // There, a plain sync leaves the data in the cache of the disk.
            connection.pragma_update(None, "fullfsync", true)?;
            connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        }
        connection.pragma_update(None, "wal_autocheckpoint", checkpoint_pages(usage))?;
        Ok(connection)
    };
    setup().map_err(|e| store_error(path, e))
}

/// A short-lived process checkpoints explicitly, at its end (`shorten_log`).
fn checkpoint_pages(usage: Use) -> u32 {
    match usage {
        Use::Short => 0,
        Use::Long => 4_000,
    }
}

/// Truncates a log that has grown. Every short-lived process reads all of it when it opens, and
/// SQLite's automatic checkpoint does not remember across processes how much is already done. If it
/// is locked, the next process does it.
pub(super) fn shorten_log(path: &Path, connection: &mut Connection) {
    let log = fs::metadata(with_suffix(path, "-wal"));
    if log.is_ok_and(|found| found.len() > LOG_BYTES_KEPT)
        && connection.busy_handler(None::<fn(i32) -> bool>).is_ok()
    {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let _ = connection.query_row(checkpoint, [], |_| Ok(()));
    }
}

/// Waits up to thirty seconds in total; then the store is busy. Random waits keep processes from
/// retrying at the same time.
#[expect(
    clippy::disallowed_methods,
    reason = "SQLite's locks cannot wake anybody"
)]
fn wait_for_others(times: i32) -> bool {
    let uneven = u64::from(std::process::id())
        .wrapping_mul(31)
        .wrapping_add(times as u64)
        % 4;
    let ms = (1 + uneven).min(1 + times as u64);
    std::thread::sleep(Duration::from_millis(ms));
    times < 12_000
}

/// Refuses what is no store of this version; the schema that it has.
fn check_header(path: &Path, connection: &Connection) -> Result<u32, StoreError> {
    if ![APPLICATION_ID, HALF_COPIED_ID].contains(&application_id(path, connection)?) {
        return Err(damaged(path, "it is a database, but not one of Relight's"));
    }
    let (found, known) = (schema(path, connection)?, schema_known());
    if found > known {
        return Err(StoreError::Newer {
            place: path.display().to_string(),
            found,
            known,
        });
    }
    Ok(found)
}

/// Restores WAL mode. A copy made by `VACUUM INTO` has lost it, and could lose the last commit in a
/// power failure.
fn keep_log(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let mode = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let ask = || match mode("PRAGMA journal_mode")?.as_str() {
        "wal" => Ok("wal".to_owned()),
        _ => mode("PRAGMA journal_mode = WAL"),
    };
    match ask().map_err(|e| store_error(path, e))?.as_str() {
        "wal" => Ok(()),
        other => {
            let why = format!("its journal mode stays {other}, which can lose commits");
            Err(StoreError::Unsuitable {
                place: path.display().to_string(),
                why,
            })
        }
    }
}

/// Upgrades an older schema in one transaction; another process may have done it meanwhile.
fn migrate(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let run = || {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for migration in MIGRATIONS.iter().skip(found as usize) {
            connection.execute_batch(migration)?;
        }
        connection.pragma_update(None, "user_version", schema_known())?;
        connection.execute_batch("COMMIT")
    };
    run().map_err(|error| {
        let _ = connection.execute_batch("ROLLBACK");
        store_error(path, error)
    })
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn io_error(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Io {
        place: path.display().to_string(),
        source: Arc::new(error),
    }
}

fn damaged(path: &Path, what: &str) -> StoreError {
    StoreError::Damaged {
        place: path.display().to_string(),
        what: what.to_owned(),
    }
}
