//! The store in memory and the one in a file.

mod memory;
mod sqlite;
mod sqlite_agents;
mod sqlite_file;
mod sqlite_harness;
mod sqlite_schema;
