//! The library and what it is made of, on a store in memory or in a file.

mod dialect;
mod leases;
mod library;
mod presets;
mod sessions;
mod strategies;
mod successor;
mod sweep;
#[cfg(feature = "otlp")]
mod telemetry;
mod waiting_claim;
mod worker;
