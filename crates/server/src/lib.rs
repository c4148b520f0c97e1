//! Translates HTTP, SSE, MCP and the dashboard to runtime calls and store views.
//!
//! Every request passes the guard (`guard/`) before anything else happens. The types of the wire live here
//! alone (`wire`, one noun a file). Leaves to others: SQL, processes, decisions.

mod answer;
mod app;
mod audit;
mod backend;
mod caller;
pub mod client;
mod error;
mod event_stream;
mod extract;
mod guard;
mod heartbeats;
mod hosts;
mod idempotency;
mod known_fields;
mod listen;
mod login;
#[cfg(feature = "mcp")]
pub mod mcp;
mod metrics;
mod openapi;
mod pages;
mod rate_limit;
mod relay;
mod routes;
mod serve;
mod statistics;
pub mod tokens;
mod wire;

pub use backend::Backend;
pub use error::ApiError;
pub use listen::tls::{Tls, TlsError};
pub use metrics::reference as metrics_reference;
pub use openapi::OPENAPI;
pub use relay::RelayedStore;
pub use serve::{ServeError, Server, Settings, Threads};
pub use tokens::Scope;

/// The version that the daemon tells.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
