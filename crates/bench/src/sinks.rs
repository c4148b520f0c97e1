//! The raw floors inside the process: a file and an SQLite table, nothing around them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use crate::group::Sink;

/// A file that is appended to; one `fdatasync` a commit.
pub(crate) struct Append(File);

impl Append {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Append> {
        Ok(Append(
            OpenOptions::new().create(true).append(true).open(path)?,
        ))
    }
}

impl Sink for Append {
    fn commit(&mut self, bodies: &[Arc<str>]) -> anyhow::Result<()> {
        let all: Vec<u8> = bodies.iter().flat_map(|body| body.bytes()).collect();
        self.0.write_all(&all)?;
        Ok(self.0.sync_data()?)
    }
}

/// A rowid table, WAL, `synchronous=FULL`; one transaction a commit.
pub(crate) struct Table(Connection);

impl Table {
    /// Opens the table, and makes it when it is not there.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Table> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
        )?;
        Ok(Table(connection))
    }

    /// Reads every row, as a check without an index would; answers how many there are.
    pub(crate) fn read_all(&self) -> anyhow::Result<usize> {
        let mut statement = self.0.prepare_cached("SELECT id, body FROM entry")?;
        let mut rows = statement.query([])?;
        let (mut count, mut bytes) = (0, 0);
        while let Some(row) = rows.next()? {
            count += 1;
            bytes += row.get_ref(1)?.as_str()?.len();
        }
        assert!(bytes >= count, "no body is empty");
        Ok(count)
    }
}

impl Sink for Table {
    fn commit(&mut self, bodies: &[Arc<str>]) -> anyhow::Result<()> {
        let transaction = self
            .0
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO entry (body) VALUES (?1)")?;
            for body in bodies {
                insert.execute([&**body])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::group::Sink as _;

    #[test]
    fn a_batch_is_there_after_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::open(&folder.path().join("floor.db")).unwrap();
        table.commit(&["one".into(), "two".into()]).unwrap();
        assert_eq!(table.read_all().unwrap(), 2);
    }
}
