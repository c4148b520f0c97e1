//! What becomes of a task by each event: a table that a person can check by eye, and what holds
//! for every sequence of events.

mod given;
mod properties;
mod table;
