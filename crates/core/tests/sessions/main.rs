//! Sessions: the table of state and event, recovery, the file of other gateways, and properties.

mod file;
mod given;
mod properties;
mod recovery;
mod table;
