//! What driver, suites and checker stand on.

pub mod clock;
pub mod daemon;
pub mod disk;
pub mod fleet_log;
pub mod group;
pub mod ledger;
pub mod machine;
pub mod network;
pub mod plan;
pub mod processes;
pub mod product;
pub mod queue_plan;
pub mod seed;
pub mod shown;
pub mod stage;
pub mod strace;
pub mod tally;
pub mod turn_log;
