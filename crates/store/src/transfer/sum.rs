//! Counts and hashes: two stores with the same rows have the same.

use serde::Serialize;

use crate::record::{Cell, LEASE_LEFT, Row, Table};

/// What a table comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableSum {
    /// Which one.
    #[serde(serialize_with = "by_name")]
    pub table: Table,
    /// How many rows.
    pub rows: u64,
    /// BLAKE3 over all its rows in the order of their keys, in hexadecimal digits.
    pub hash: String,
}

/// One hash for all of these tables.
pub fn whole(sums: &[TableSum]) -> String {
    let mut hasher = blake3::Hasher::new();
    for sum in sums {
        hasher.update(sum.table.name().as_bytes());
        hasher.update(sum.hash.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn by_name<S: serde::Serializer>(table: &Table, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(table.name())
}

/// Sums up rows as they come by.
pub(super) struct Summer {
    table: Table,
    is_hashed: Vec<bool>,
    rows: u64,
    hasher: blake3::Hasher,
    /// One row, before it is hashed at once.
    bytes: Vec<u8>,
}

impl Summer {
    pub(super) fn new(table: Table) -> Self {
        let is_hashed = table
            .columns()
            .iter()
            .map(|(name, _)| *name != LEASE_LEFT)
            .collect();
        Self {
            table,
            is_hashed,
            rows: 0,
            hasher: blake3::Hasher::new(),
            bytes: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, rows: &[Row]) {
        for row in rows {
            assert!(
                row.len() == self.is_hashed.len(),
                "a row has all columns of its table"
            );
            self.bytes.clear();
            for (cell, _) in row
                .iter()
                .zip(&self.is_hashed)
                .filter(|(_, is_hashed)| **is_hashed)
            {
                write(&mut self.bytes, cell);
            }
            self.hasher.update(&self.bytes);
        }
        self.rows += rows.len() as u64;
    }

    pub(super) fn finish(self) -> TableSum {
        let hash = self.hasher.finalize().to_hex().to_string();
        TableSum {
            table: self.table,
            rows: self.rows,
            hash,
        }
    }
}

/// Each value with its kind and its length: no two rows give the same bytes.
fn write(bytes: &mut Vec<u8>, cell: &Cell) {
    let mut long = |kind: u8, value: &[u8]| {
        bytes.push(kind);
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value);
    };
    match cell {
        Cell::None => bytes.push(0),
        Cell::Number(number) => {
            bytes.push(1);
            bytes.extend(number.to_le_bytes());
        }
        Cell::Text(text) => long(2, text.as_bytes()),
        Cell::Bytes(value) => long(3, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(rows: &[Row]) -> String {
        let mut summer = Summer::new(Table::Kept);
        summer.add(rows);
        summer.finish().hash
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }

    #[test]
    fn rows_that_differ_in_anything_differ_in_their_hash() {
        let tables: [&[Row]; 6] = [
            &[],
            &[vec![text("a"), text("bc")]],
            &[vec![text("ab"), text("c")]],
            &[vec![text("ab"), Cell::None]],
            &[vec![text("a"), text("1")], vec![text("b"), text("2")]],
            &[vec![text("a"), text("2")], vec![text("b"), text("1")]],
        ];
        let mut hashes = tables.map(sum).to_vec();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), tables.len());
    }

    #[test]
    fn what_is_left_of_a_lease_is_in_no_hash() {
        let node = |left| {
            let mut summer = Summer::new(Table::Node);
            let (epoch, no, at) = (Cell::Number(1), Cell::Number(0), Cell::Number(5));
            summer.add(&[vec![
                text("a"),
                epoch,
                no,
                at,
                text("{}"),
                Cell::Number(left),
            ]]);
            summer.finish()
        };
        assert_eq!(node(0), node(8_000));
    }
}
