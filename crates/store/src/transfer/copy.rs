//! Copies a whole store into an empty one, and reads it back.
//!
//! What was copied by an earlier run is not written again, but all of the first store is read: its
//! hashes are those of this moment. A table that turns out to be another than in the first store,
//! because that was written to between two runs, is emptied and copied anew.

use super::check::{Checker, Findings};
use super::sum::{Summer, TableSum};
use super::table::{Cell, Row, Table};
use super::verify::read;
use super::{CopyError, Exporter, Importer, sum};
use crate::contract::StoreError;

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is done: `copying`, `reading back`, `verifying`.
    pub what: &'static str,
    /// With which table.
    pub table: Table,
    /// Rows that are done, of all tables.
    pub rows: u64,
    /// Rows that there are in all.
    pub rows_total: u64,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// An earlier run had begun it.
    pub went_on: bool,
    /// Each table, as it is in both stores.
    pub tables: Vec<TableSum>,
    /// One hash for all of them.
    pub hash: String,
    /// Tables that had changed since an earlier run, and were copied anew.
    pub anew: Vec<Table>,
    /// Events that were written to the first store meanwhile, and are not in the copy.
    pub written_meanwhile: u64,
    /// What is wrong in the first store, and now in both.
    pub damage: Findings,
}

/// Copies everything. `tell` hears from time to time how far it is.
pub async fn copy(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    tell: &mut (dyn FnMut(&Progress) + Send),
) -> Result<Copied, CopyError> {
    if from.place() == to.place() {
        return Err(CopyError::Same(from.place()));
    }
    let went_on = to.begin(&from.place()).await?;
    let (mut checker, mut tables, mut anew) = (Checker::default(), Vec::new(), Vec::new());
    let mut teller = Teller::new("copying", from, tell).await?;
    for table in Table::ALL {
        tables.push(copy_table(from, to, table, &mut teller, Some(&mut checker)).await?);
    }
    teller.begin("reading back");
    let mut there = to.read_back().await?;
    for (at, table) in Table::ALL.into_iter().enumerate() {
        let found = read(there.as_mut(), table, &mut teller, None).await?;
        if found == tables[at] {
            continue;
        }
        to.clear(table).await?;
        tables[at] = copy_table(from, to, table, &mut teller, None).await?;
        let found = read(to.read_back().await?.as_mut(), table, &mut teller, None).await?;
        if found != tables[at] {
            return Err(CopyError::Differs { place: to.place(), table });
        }
        anew.push(table);
    }
    drop(there);
    to.finish().await?;
    let (hash, damage) = (sum::whole(&tables), checker.finish());
    let written_meanwhile = from.written_since().await?;
    Ok(Copied { went_on, tables, hash, anew, written_meanwhile, damage })
}

async fn copy_table(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    table: Table,
    teller: &mut Teller<'_>,
    mut checker: Option<&mut Checker>,
) -> Result<TableSum, CopyError> {
    let written = to.newest_key(table).await?;
    let mut summer = Summer::new(table);
    let mut after = Cell::None;
    loop {
        let rows = from.page(table, &after).await?;
        let Some(last) = rows.last() else { return Ok(summer.finish()) };
        after = last[0].clone();
        summer.add(&rows);
        if let Some(checker) = checker.as_deref_mut() {
            checker.add(table, &rows);
        }
        let count = rows.len() as u64;
        let new: Vec<Row> = rows.into_iter().filter(|row| row[0] > written).collect();
        if !new.is_empty() {
            to.write(table, new).await?;
        }
        teller.add(table, count);
    }
}

/// Tells how far it is.
pub(super) struct Teller<'a> {
    tell: &'a mut (dyn FnMut(&Progress) + Send),
    what: &'static str,
    rows: u64,
    rows_total: u64,
}

impl<'a> Teller<'a> {
    pub(super) async fn new(
        what: &'static str,
        store: &mut dyn Exporter,
        tell: &'a mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Self, StoreError> {
        let mut rows_total = 0;
        for table in Table::ALL {
            rows_total += store.count(table).await?;
        }
        Ok(Self { tell, what, rows: 0, rows_total })
    }

    /// The same number of rows once more, for something else.
    fn begin(&mut self, what: &'static str) {
        (self.what, self.rows) = (what, 0);
    }

    pub(super) fn add(&mut self, table: Table, rows: u64) {
        self.rows += rows;
        let (what, rows, rows_total) = (self.what, self.rows, self.rows_total.max(self.rows));
        (self.tell)(&Progress { what, table, rows, rows_total });
    }
}
