//! Floor: `floor-sqlite-insert DB [--keep-wal] [--file FILE]` commits one row and exits.
//!
//! The least an honest one-shot write can cost. `--keep-wal` leaves the log for the next
//! process instead of folding it in at close, which saves most of the syncs; `--file`
//! also leaves a copy beside, as a checkpoint does: written, synced, renamed, folder synced.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let database = PathBuf::from(arguments.next().context("a database is needed")?);
    let (mut keep_wal, mut file) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--keep-wal") => keep_wal = true,
            Some("--file") => file = Some(PathBuf::from(arguments.next().context("a file")?)),
            Some(_) | None => bail!("unknown argument {}", argument.display()),
        }
    }
    insert_one(&database, keep_wal)?;
    file.map_or(Ok(()), |file| replace_file(&file))
}

fn insert_one(database: &Path, keep_wal: bool) -> anyhow::Result<()> {
    let connection = Connection::open(database)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_wal)?;
    connection.execute("INSERT INTO entry (body) VALUES (?1)", ["x".repeat(300)])?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn replace_file(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    let beside = file.with_extension("beside");
    let mut written = File::create(&beside)?;
    written.write_all("x".repeat(600).as_bytes())?;
    written.sync_all()?;
    fs::rename(&beside, file)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}
