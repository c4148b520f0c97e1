//! Proves that Relight keeps its word when things are killed.
//!
//! `driver` is what gets killed: programs that work through a task and tell a ledger what they did
//! and what was acknowledged. `agent` is what a supervisor has to cope with. `suite` kills them in many ways. `checker` reads store and ledger
//! afterwards. `postgres` starts a server of one's own. `world` holds what all of them need: seeds, processes, folders, the ledger.

pub mod agent;
pub mod checker;
pub mod driver;
pub mod postgres;
pub mod suite;
pub mod world;
