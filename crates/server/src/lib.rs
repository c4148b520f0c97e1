//! Translates HTTP, SSE, MCP and the dashboard to runtime calls and store views.
//!
//! Nothing is served in this version; the crate marks the place.
