//! Answers: JSON in one shape, never kept by a cache, never taken for anything else.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relight_core::agent::plain::harmless_json;
use serde::Serialize;

/// What a page may load: itself, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Stands on every answer, the refusals among them.
const SEALS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// Puts on an answer what every answer has.
pub(crate) fn seal(headers: &mut HeaderMap) {
    for (name, value) in SEALS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// A value as the answer.
#[derive(Debug)]
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        json_bytes(StatusCode::OK, &self.0)
    }
}

/// A value as the answer, with a status of its own.
pub(crate) fn json_bytes(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).expect("wire types have string keys");
    let text = harmless_json(&text).into_owned();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_has_no_character_that_a_terminal_obeys() {
        let text = "a\u{202e}b\u{9b}c\u{7f}d";
        let body = json_bytes(StatusCode::OK, &text)
            .into_body()
            .collect()
            .await
            .unwrap();
        assert_eq!(&body.to_bytes()[..], br#""a\u202eb\u009bc\u007fd""#);
    }
}
