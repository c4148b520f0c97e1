//! Reads a whole store: every row, what it says, and whether it agrees with the others.

use super::copy::{CopyProgress, ProgressReporter};
use super::row_check::{Checker, Findings};
use super::sum::{Summer, TableSum};
use super::{Exporter, sum};
use crate::contract::StoreError;
use crate::record::{Cell, Table};

/// What a whole store comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Each table.
    pub tables: Vec<TableSum>,
    /// One hash for all of them.
    pub hash: String,
    /// What is wrong.
    pub damage: Findings,
}

/// Reads everything. `tell` hears from time to time how far it is.
pub async fn verify(
    store: &mut dyn Exporter,
    tell: &mut (dyn FnMut(&CopyProgress) + Send),
) -> Result<Verified, StoreError> {
    let mut reporter = ProgressReporter::new("verifying", store, tell).await?;
    let mut checker = Checker::default();
    for finding in store.integrity().await? {
        checker.findings().add(finding);
    }
    let mut tables = Vec::new();
    for table in Table::ALL {
        tables.push(read(store, table, &mut reporter, &mut checker).await?);
    }
    let hash = sum::whole(&tables);
    Ok(Verified {
        tables,
        hash,
        damage: checker.finish(),
    })
}

/// Sums up one table, and has each row looked at.
async fn read(
    store: &mut dyn Exporter,
    table: Table,
    reporter: &mut ProgressReporter<'_>,
    checker: &mut Checker,
) -> Result<TableSum, StoreError> {
    let mut summer = Summer::new(table);
    let mut after = Cell::None;
    loop {
        let rows = store.page(table, &after).await?;
        let Some(last) = rows.last() else {
            return Ok(summer.finish());
        };
        after = last[0].clone();
        summer.add(&rows);
        checker.add(table, &rows);
        reporter.add(table, rows.len() as u64);
    }
}
