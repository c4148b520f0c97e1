//! For Relight's own tests: the suite that every store backend must pass, and proofs that Relight
//! keeps its promises when things are killed.
//!
//! `driver` is what gets killed: programs that work through a task and tell a ledger what they did
//! and what was acknowledged. `agent` is what a supervisor has to cope with. `suite` kills them in
//! many ways. `checker` reads store and ledger afterwards. `conformance` is the executable
//! specification of `relight_store::Store`. `postgres` starts a server for one test run. `world`
//! holds what all of them need: seeds, processes, folders, the ledger.

pub mod agent;
pub mod checker;
pub mod conformance;
pub mod driver;
pub mod model;
pub mod postgres;
pub mod suite;
pub mod world;
