//! Relight's decisions: states, transitions, repeat rules, budgets, redaction and the checkpoint
//! document.
//!
//! Pure: no clock, file, process, socket or async. What needs a time or an id takes it as an
//! argument, so that everything here can be checked by a table.

pub mod checkpoint;
pub mod redact;
