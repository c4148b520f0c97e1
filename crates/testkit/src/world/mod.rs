//! What driver, suites and checker stand on.

pub mod clock;
pub mod disk;
pub mod group;
pub mod ledger;
pub mod plan;
pub mod product;
pub mod seed;
pub mod stage;
pub mod strace;
pub mod tally;
