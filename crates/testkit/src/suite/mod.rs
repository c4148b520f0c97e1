//! The ways in which things are killed, one a file.

pub mod kill;
