//! The checkpoint document: a task's saved progress as portable, verified JSON.
//!
//! [`Checkpoint::seal`] turns a checkpoint into the bytes of its file, [`Checkpoint::open`] turns
//! such bytes back, or says what is wrong with them. Nothing that was torn, padded, edited or made
//! by a newer Relight is ever taken for good. Where the files live, and what becomes of a damaged
//! one, is left to the runtime. How the hash is taken is defined in [`hash`].

pub mod hash;

mod document;
mod envelope;
mod fields;
mod json_value;
mod reader;
mod schema;
mod strict;

pub use document::{Checkpoint, Extra, UnknownWorkflowStatus, WorkflowStatus};
pub use envelope::Damage;
pub use schema::SchemaVersion;
pub use strict::{Limits, Position, StrictError, check_unambiguous, parse_strict};
