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

/// Progress of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress {
    /// The phase: `comparing`, `copying`, `reading back`, `verifying`.
    pub what: &'static str,
    /// The table.
    pub table: Table,
    /// Rows done, in all tables.
    pub rows: u64,
    /// Total rows.
    pub rows_total: u64,
}

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// It resumed an earlier run.
    pub went_on: bool,
    /// Each table, as it is in both stores.
    pub tables: Vec<TableSum>,
    /// One hash for all of them.
    pub hash: String,
    /// Tables that changed since an earlier run and were copied again.
    pub anew: Vec<Table>,
    /// Events written to the source meanwhile, which are not in the copy.
    pub written_meanwhile: u64,
    /// Damage of the source, which is also in the copy unless stated otherwise.
    pub damage: Findings,
}

/// Copies everything. `tell` is called with the progress.
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
    let anew = if went_on {
        clear_other(from, to, &mut reporter).await?
    } else {
        Vec::new()
    };
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
            return Err(CopyError::Differs {
                place: to.place(),
                table,
            });
        }
    }
    drop(there);
    // The last operation that can fail before the copy is complete.
    let written_meanwhile = from.written_since().await?;
    to.finish().await?;
    let (hash, damage) = (sum::whole(&tables), checker.finish());
    Ok(Copied {
        went_on,
        tables,
        hash,
        anew,
        written_meanwhile,
        damage,
    })
}

/// Whether an earlier run completed but was interrupted before it reported: then both stores have
/// the same rows. Any other non-empty store is refused.
async fn finished(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
    tell: &mut (dyn FnMut(&CopyProgress) + Send),
) -> Result<Option<Copied>, CopyError> {
    let mut there = to.read_back().await?;
    // A cheap check that excludes most unrelated stores. Not all small records are copied.
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
    Ok(Some(Copied {
        went_on: true,
        tables,
        hash,
        anew: Vec::new(),
        written_meanwhile,
        damage,
    }))
}

/// Clears tables in which an earlier run wrote rows that the source no longer has, before anything
/// is added, because a recreated record may have the same name under another number.
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

/// Hashes the rows of one store, up to the key `last` if given. Keeps the other store's snapshot
/// open meanwhile.
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
        let Some(last) = rows.last() else {
            return Ok(summer.finish());
        };
        after = last[0].clone();
        checker.add(table, &rows);
        let count = rows.len() as u64;
        let new: Vec<Row> = rows
            .iter()
            .filter(|row| row[0] > written)
            .cloned()
            .collect();
        let left_out = write(to, table, new, checker).await?;
        rows.retain(|row| !left_out.contains(&row[0]));
        summer.add(&rows);
        reporter.add(table, count);
    }
}

/// Writes all valid rows; returns the keys of the others. A copy without one bad row is better than
/// none.
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
                checker
                    .findings()
                    .add(format!("{title}: not copied: {why}"));
                left_out.push(row[0].clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(left_out)
}

/// Reports progress.
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
        Ok(Self {
            tell,
            what,
            rows: 0,
            rows_total,
        })
    }

    /// Starts another phase over the same rows.
    fn begin(&mut self, what: &'static str) {
        (self.what, self.rows) = (what, 0);
    }

    pub(super) fn add(&mut self, table: Table, rows: u64) {
        self.rows += rows;
        let (what, rows, rows_total) = (self.what, self.rows, self.rows_total.max(self.rows));
        (self.tell)(&CopyProgress {
            what,
            table,
            rows,
            rows_total,
        });
    }
}
