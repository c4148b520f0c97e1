//! Copies a whole store into an empty one, and reads it back.
//!
//! What was copied by an earlier run is compared first. A table that turns out to be another than in the
//! first store, because that was written to between two runs, is emptied and copied anew; the rows of
//! the others are not written again. All of the first store is read in any case: its hashes are those
//! of this moment.

use super::row_check::{self, Checker, Findings};
use super::sum::{Summer, TableSum};
use super::{CopyError, Exporter, Importer, sum};
use crate::contract::StoreError;
use crate::record::{Cell, Row, Table};

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress {
    /// What is done: `comparing`, `copying`, `reading back`, `verifying`.
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
    /// What is wrong in the first store, and now in both, unless it says that it was not copied.
    pub damage: Findings,
}

/// Copies everything. `tell` hears from time to time how far it is.
pub async fn copy(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    tell: &mut (dyn FnMut(&CopyProgress) + Send),
) -> Result<Copied, CopyError> {
    if from.place() == to.place() {
        return Err(CopyError::Same(from.place()));
    }
    let went_on = match to.begin(&from.place()).await {
        Err(error @ CopyError::NotEmpty { .. }) => {
            return finished(from, to, tell).await?.ok_or(error);
        }
        begun => begun?,
    };
    let mut reporter = ProgressReporter::new("comparing", from, tell).await?;
    let anew = if went_on { clear_other(from, to, &mut reporter).await? } else { Vec::new() };
    reporter.begin("copying");
    let (mut checker, mut tables) = (Checker::default(), Vec::new());
    for table in Table::ALL {
        tables.push(copy_table(from, to, table, &mut reporter, &mut checker).await?);
    }
    reporter.begin("reading back");
    let mut there = to.read_back().await?;
    for copied in &tables {
        let table = copied.table;
        let found = sum_up(there.as_mut(), from, table, None, &mut reporter).await?;
        if found != *copied {
            return Err(CopyError::Differs { place: to.place(), table });
        }
    }
    drop(there);
    // The last that can fail without leaving a whole copy behind.
    let written_meanwhile = from.written_since().await?;
    to.finish().await?;
    let (hash, damage) = (sum::whole(&tables), checker.finish());
    Ok(Copied { went_on, tables, hash, anew, written_meanwhile, damage })
}

/// An earlier run may have been cut off after its last commit, before it could say so: then both
/// stores have the same rows. Any other store that is not empty is none of ours.
async fn finished(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    tell: &mut (dyn FnMut(&CopyProgress) + Send),
) -> Result<Option<Copied>, CopyError> {
    let mut there = to.read_back().await?;
    // Cheap, and enough for most stores that were never copied. Of small records not all are copied.
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Kept) {
        if there.count(table).await? != from.count(table).await? {
            return Ok(None);
        }
    }
    let mut reporter = ProgressReporter::new("comparing", from, tell).await?;
    let (mut checker, mut tables) = (Checker::default(), Vec::new());
    for table in Table::ALL {
        let found = sum_up(there.as_mut(), from, table, None, &mut reporter).await?;
        let mut summer = Summer::new(table);
        let mut after = Cell::None;
        loop {
            let rows = from.page(table, &after).await?;
            there.touch().await?;
            let Some(last) = rows.last() else { break };
            after = last[0].clone();
            checker.add(table, &rows);
            summer.add(&rows);
        }
        if summer.finish() != found {
            return Ok(None);
        }
        tables.push(found);
    }
    let written_meanwhile = from.written_since().await?;
    let (hash, damage) = (sum::whole(&tables), checker.finish());
    Ok(Some(Copied { went_on: true, tables, hash, anew: Vec::new(), written_meanwhile, damage }))
}

/// Empties the tables in which an earlier run wrote what is not in the first store any more, before
/// anything is added: what was removed there and made again has its name here under the old number.
async fn clear_other(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Vec<Table>, CopyError> {
    let mut there = to.read_back().await?;
    let mut others = Vec::new();
    for table in Table::ALL {
        let written = to.newest_key(table).await?;
        let found = sum_up(there.as_mut(), from, table, None, reporter).await?;
        let wanted = sum_up(from, there.as_mut(), table, Some(&written), reporter).await?;
        if found != wanted {
            others.push(table);
        }
    }
    drop(there);
    for table in &others {
        to.clear(*table).await?;
    }
    Ok(others)
}

/// Sums up the rows of one store, where `last` is given those whose keys are not after it. The other
/// store's look is kept alive meanwhile.
async fn sum_up(
    store: &mut dyn Exporter,
    other: &mut dyn Exporter,
    table: Table,
    last: Option<&Cell>,
    reporter: &mut ProgressReporter<'_>,
) -> Result<TableSum, StoreError> {
    let mut summer = Summer::new(table);
    let mut after = Cell::None;
    while last.is_none_or(|last| after < *last) {
        let mut rows = store.page(table, &after).await?;
        other.touch().await?;
        let Some(newest) = rows.last() else { break };
        after = newest[0].clone();
        rows.retain(|row| last.is_none_or(|last| row[0] <= *last));
        summer.add(&rows);
        reporter.add(table, rows.len() as u64);
    }
    Ok(summer.finish())
}

async fn copy_table(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    table: Table,
    reporter: &mut ProgressReporter<'_>,
    checker: &mut Checker,
) -> Result<TableSum, CopyError> {
    let written = to.newest_key(table).await?;
    let mut summer = Summer::new(table);
    let mut after = Cell::None;
    loop {
        let mut rows = from.page(table, &after).await?;
        let Some(last) = rows.last() else { return Ok(summer.finish()) };
        after = last[0].clone();
        checker.add(table, &rows);
        let count = rows.len() as u64;
        let new: Vec<Row> = rows.iter().filter(|row| row[0] > written).cloned().collect();
        let left_out = write(to, table, new, checker).await?;
        rows.retain(|row| !left_out.contains(&row[0]));
        summer.add(&rows);
        reporter.add(table, count);
    }
}

/// Writes all that can be kept; answers the keys of the others. A copy without one bad row is better
/// than none.
async fn write(
    to: &mut dyn Importer,
    table: Table,
    rows: Vec<Row>,
    checker: &mut Checker,
) -> Result<Vec<Cell>, CopyError> {
    let mut left_out = Vec::new();
    if rows.is_empty() {
        return Ok(left_out);
    }
    match to.write(table, rows.clone()).await {
        Err(CopyError::Unkept { .. }) => {}
        written => return written.map(|()| left_out),
    }
    for row in rows {
        match to.write(table, vec![row.clone()]).await {
            Ok(()) => {}
            Err(CopyError::Unkept { why }) => {
                let title = row_check::title(table, &row);
                checker.findings().add(format!("{title}: not copied: {why}"));
                left_out.push(row[0].clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(left_out)
}

/// Tells how far it is.
pub(super) struct ProgressReporter<'a> {
    tell: &'a mut (dyn FnMut(&CopyProgress) + Send),
    what: &'static str,
    rows: u64,
    rows_total: u64,
}

impl<'a> ProgressReporter<'a> {
    pub(super) async fn new(
        what: &'static str,
        store: &mut dyn Exporter,
        tell: &'a mut (dyn FnMut(&CopyProgress) + Send),
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
        (self.tell)(&CopyProgress { what, table, rows, rows_total });
    }
}
