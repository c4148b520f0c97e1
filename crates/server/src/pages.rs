//! The dashboard's files, compiled into the binary, and the page that says how to log in.
//!
//! Each file is there twice, as it is and made small at build time, so that serving one costs nothing
//! but the copy. A browser keeps what it has and asks whether it is still the same.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// One file of the dashboard.
#[derive(Debug)]
struct File {
    /// Its path below `/assets/`.
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

/// Every file of the dashboard.
static FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// What each of them is, in the same order: the start of its hash.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |file: &File| blake3::hash(file.plain).to_hex()[..16].to_owned();
    FILES.iter().map(tag).collect()
});

/// The first part of each address of the dashboard. What follows (a name, a step) is read by its script.
pub(crate) const VIEWS: [&str; 6] = ["agents", "timeline", "tasks", "sessions", "events", "nodes"];

/// What needs no login: the page on which one logs in, and files without anybody's data.
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with("/login/") || path.starts_with("/assets/")
}

/// Whether the dashboard is at this path: `/`, `/tasks`, `/tasks/ID/steps/NAME`.
pub(crate) fn is_page(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    path == "/" || parts.next().is_some_and(|first| VIEWS.contains(&first))
}

/// Whether a person followed a link or typed an address: a program that wants JSON says so, or says nothing.
pub(crate) fn is_for_people(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let is_for_programs = ["/api", "/assets", "/mcp", "/metrics", "/openapi.json"]
        .iter()
        .any(|first| {
            path.strip_prefix(first)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    let accept = headers.get(header::ACCEPT);
    let wants_html = accept.is_some_and(|accept| {
        accept
            .as_bytes()
            .windows(9)
            .any(|word| word == b"text/html")
    });
    *method == Method::GET && !is_for_programs && wants_html
}

/// `GET` of any other address by a person: the frame, whose script says that nothing is there.
pub(crate) fn nowhere(headers: &HeaderMap) -> Option<Response> {
    let page = FILES.iter().find(|file| file.name == "index.html")?;
    let mut response = page.send(headers);
    *response.status_mut() = StatusCode::NOT_FOUND;
    Some(response)
}

/// `GET /` and all other addresses of the dashboard: the same frame, without anybody's data.
pub(crate) async fn dashboard(headers: HeaderMap) -> Result<Response, ApiError> {
    serve("index.html", &headers)
}

/// `GET /login/CODE`: the page that turns its own path's code into a login.
pub(crate) async fn login(headers: HeaderMap) -> Result<Response, ApiError> {
    serve("login.html", &headers)
}

/// `GET /assets/…`.
pub(crate) async fn asset(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    serve(&name, &headers)
}

/// An address of the dashboard without a login.
pub(crate) fn how_to_log_in(headers: &HeaderMap) -> Response {
    let page = FILES.iter().find(|file| file.name == "login.html");
    let mut response = page.map_or_else(Response::default, |page| page.send(headers));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

fn serve(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    let place = FILES.iter().position(|file| file.name == name);
    let missing = if FILES.is_empty() {
        "this daemon has no dashboard"
    } else {
        "there is no such file"
    };
    let place = place.ok_or_else(|| ApiError::not_found(missing))?;
    let (file, tag) = (&FILES[place], &TAGS[place]);
    let mut response = match has_already(headers, tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.send(headers),
    };
    let headers = response.headers_mut();
    // The same file made small is another sequence of bytes: only a weak tag names both.
    set(headers, header::ETAG, &format!("W/\"{tag}\""));
    // Asked for anew after an upgrade, and never kept by anybody but the browser.
    set(headers, header::CACHE_CONTROL, "private, no-cache");
    set(headers, header::VARY, "Accept-Encoding");
    Ok(response)
}

impl File {
    fn send(&self, headers: &HeaderMap) -> Response {
        let is_small = takes_gzip(headers) && self.gzip.len() < self.plain.len();
        let mut response = Response::new(Body::from(if is_small { self.gzip } else { self.plain }));
        if is_small {
            set(response.headers_mut(), header::CONTENT_ENCODING, "gzip");
        }
        set(response.headers_mut(), header::CONTENT_TYPE, self.kind());
        response
    }

    fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("json" | "webmanifest") => "application/json",
            Some("woff2") => "font/woff2",
            _ => "application/octet-stream",
        }
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    headers.insert(
        name,
        HeaderValue::try_from(value).expect("plain text of ours"),
    );
}

/// Whether one of the tags that the browser has is this one.
fn has_already(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let bare = |one: &str| one.trim().trim_start_matches("W/").trim_matches('"') == tag;
    known.flat_map(|line| line.split(',')).any(bare)
}

/// Whether gzip is among what the browser can read, and not as what it refuses (`q=0`).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| {
        let (name, rest) = one.split_once(';').unwrap_or((one, ""));
        let weight = rest
            .trim()
            .strip_prefix("q=")
            .and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        let takes = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            takes_gzip(&headers)
        };
        for text in ["gzip", "br, GZIP", "deflate, gzip;q=0.5", "gzip ; q=1"] {
            assert!(takes(text), "{text}");
        }
        for text in ["", "br", "gzip;q=0", "gzip; q=0.0", "xgzip", "identity"] {
            assert!(!takes(text), "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn every_view_has_an_address_and_nothing_else_has() {
        for path in ["/", "/tasks", "/tasks/a%2Fb/steps/x", "/agents/writer"] {
            assert!(is_page(path), "{path}");
        }
        for path in [
            "/api/tasks",
            "/tasksx",
            "/assets/js/main.js",
            "/metrics",
            "//tasks",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }

    #[test]
    fn all_files_together_are_small() {
        let gzip: usize = FILES
            .iter()
            .map(|file| file.gzip.len().min(file.plain.len()))
            .sum();
        assert!(gzip < 120_000, "{gzip} bytes");
    }
}
