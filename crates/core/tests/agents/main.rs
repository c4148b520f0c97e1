//! Agents: what becomes of one by each event, as a table that a person can check by eye and as what
//! holds for every sequence of events; and what a successor is told.

mod brief;
mod given;
mod overspent;
mod properties;
mod spend;
mod table;
