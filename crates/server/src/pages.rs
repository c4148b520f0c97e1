//! The dashboard's files, compiled into the binary, and the page that says how to log in.

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::error::ApiError;

/// Every file of the dashboard by its path.
static FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Shown where the dashboard's own page is missing.
const PLAIN_LOGIN: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <title>Relight: log in</title><h1>Log in</h1>\
    <p>Type this in a terminal; it opens a link that logs you in:</p>\
    <pre>relight dashboard</pre></html>\n";

/// What needs no login: the page on which one logs in, and files without anybody's data.
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with("/login/") || path.starts_with("/assets/")
}

/// `GET /`: the dashboard.
pub(crate) async fn dashboard() -> Result<Response, ApiError> {
    file("index.html").ok_or_else(missing)
}

/// `GET /login/CODE`: the page that turns its own path's code into a login.
pub(crate) async fn login() -> Response {
    file("login.html").unwrap_or_else(|| html(StatusCode::OK, PLAIN_LOGIN.as_bytes()))
}

/// `GET /assets/…`.
pub(crate) async fn asset(Path(name): Path<String>) -> Result<Response, ApiError> {
    file(&name).ok_or_else(missing)
}

/// `/` without a login.
pub(crate) fn how_to_log_in() -> Response {
    let page = find("login.html").unwrap_or(PLAIN_LOGIN.as_bytes());
    html(StatusCode::UNAUTHORIZED, page)
}

fn missing() -> ApiError {
    ApiError::not_found("there is no such file")
}

fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

fn html(status: StatusCode, bytes: &'static [u8]) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn file(name: &str) -> Option<Response> {
    let bytes = find(name)?;
    let kind = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json" | "webmanifest") => "application/json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    };
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Asked for anew after an upgrade, and never kept by anybody but the browser.
    let cache = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    Some(response)
}
