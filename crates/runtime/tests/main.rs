//! The library and what it is made of, on a store in memory or in a file.

mod dialect;
mod leases;
mod library;
#[cfg(all(target_os = "linux", feature = "supervision"))]
mod presets;
mod sessions;
mod strategies;
#[cfg(all(target_os = "linux", feature = "supervision"))]
mod successor;
#[cfg(all(target_os = "linux", feature = "supervision"))]
mod sweep;
#[cfg(feature = "otlp")]
mod telemetry;
mod waiting_claim;
mod worker;
