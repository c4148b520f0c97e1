//! `openapi.json`: the checked file. A test compares it with what the handlers say.

use axum::http::header;
use axum::response::IntoResponse;

#[cfg(test)]
mod tests;

/// The description of the whole API.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// `GET /openapi.json`.
pub(crate) async fn serve() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}
