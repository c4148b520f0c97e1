//! What a request gives: its body as JSON within limits, its path and its query, each refused in the
//! one shape of all refusals.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use http_body_util::{BodyExt as _, Limited};
use relight_core::checkpoint::{Limits, check_unambiguous};
use relight_core::error_code::ErrorCode;
use relight_runtime::operations::read;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use crate::caller::Caller;
use crate::error::ApiError;

/// The largest body.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// The largest body of somebody who is not known: a login has a code in it and nothing else.
pub(crate) const STRANGERS_BODY_BYTES_MAX: usize = 4 << 10;
/// The deepest JSON.
pub(crate) const DEPTH_MAX: usize = 64;

/// Whether this kind of request may carry something that changes anything.
pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Only JSON is taken: forms and plain text are what a foreign page can send without being asked.
pub(crate) fn check_content(
    method: &Method,
    headers: &HeaderMap,
    bytes_max: usize,
) -> Result<(), ApiError> {
    if !is_write(method) {
        return Ok(());
    }
    if content_length(headers).is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || content_length(headers).is_some_and(|length| length > 0);
    match headers.get(header::CONTENT_TYPE) {
        None if !has_body => Ok(()),
        Some(kind) if is_json(kind.as_bytes()) => Ok(()),
        _ => Err(ApiError::new(
            ErrorCode::UNSUPPORTED_MEDIA_TYPE,
            "only application/json is taken",
        )
        .hint("send Content-Type: application/json")),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

fn is_json(kind: &[u8]) -> bool {
    let end = kind
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(kind.len());
    kind[..end]
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}

fn too_large(bytes_max: usize) -> ApiError {
    let message = format!("the body is larger than {bytes_max} bytes");
    ApiError::new(ErrorCode::TOO_LARGE, message)
}

/// Reads the whole body of a request and puts it back, so that whoever comes later need not wait.
pub(crate) async fn read_body(
    request: Request,
    wait_max: Duration,
) -> Result<(Request, Bytes), ApiError> {
    let (parts, body) = request.into_parts();
    // Thousands of strangers with a large body each would be a flood that nobody let in.
    let is_known = parts.extensions.get::<Caller>().is_some();
    let bytes_max = if is_known {
        BODY_BYTES_MAX
    } else {
        STRANGERS_BODY_BYTES_MAX
    };
    let bytes = collect(body, bytes_max, wait_max).await?;
    check_depth(&bytes)?;
    check_unambiguous(
        &bytes,
        Limits {
            bytes_max,
            depth_max: DEPTH_MAX,
        },
    )
    .map_err(|error| ApiError::bad_request(format!("the JSON has a {error}")))?;
    Ok((Request::from_parts(parts, Body::from(bytes.clone())), bytes))
}

/// A whole body, within limits of length and time.
pub(crate) async fn collect(
    body: Body,
    bytes_max: usize,
    wait_max: Duration,
) -> Result<Bytes, ApiError> {
    match timeout(wait_max, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(too_large(bytes_max))
        }
        Ok(Err(_)) => Err(ApiError::bad_request("the body broke off")),
        Err(_) => Err(ApiError::new(
            ErrorCode::TOO_SLOW,
            "the body did not come in time",
        )),
    }
}

/// Refuses JSON that is nested too deeply before anything is built from it.
pub(crate) fn check_depth(bytes: &[u8]) -> Result<(), ApiError> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            let message = format!("the JSON is nested deeper than {DEPTH_MAX}");
            return Err(ApiError::bad_request(message));
        }
    }
    Ok(())
}

/// A body as JSON; an empty one is `{}`.
#[derive(Debug)]
pub(crate) struct Given<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Given<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let body = request.into_body().collect().await;
        let bytes = body
            .map_err(|_| ApiError::bad_request("the body broke off"))?
            .to_bytes();
        parse(&bytes).map(Self)
    }
}

/// A body as what is asked for.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = if bytes.trim_ascii().is_empty() {
        b"{}"
    } else {
        bytes
    };
    let bad =
        |error: serde_json::Error| ApiError::bad_request(format!("the body is not JSON: {error}"));
    // Readers also take a list for an object, member by member; nobody means that.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(bad)?;
        return Err(ApiError::invalid(
            "the body is not what is asked for here: write an object",
        ));
    }
    Ok(read(serde_json::from_slice(bytes).map_err(bad)?)?)
}

/// A piece of the path, decoded and checked.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = Path::<T>::from_request_parts(parts, state).await;
        found
            .map(|Path(value)| Self(value))
            .map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// The query, checked.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = Query::<T>::from_request_parts(parts, state).await;
        found
            .map(|Query(value)| Self(value))
            .map_err(|error| ApiError::invalid(plain_query(&error.body_text())))
    }
}

/// Why a query is refused: the parameter, and what it takes.
fn plain_query(text: &str) -> String {
    let text = text
        .strip_prefix("Failed to deserialize query string: ")
        .unwrap_or(text);
    let Some((name, why)) = text.split_once(": ") else {
        return text.to_owned();
    };
    match why {
        "provided string was not `true` or `false`" => format!("{name}: write true or false"),
        _ => text.replacen("invalid value: ", "", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(check_depth(&nested(DEPTH_MAX)).is_ok());
        assert!(check_depth(&nested(DEPTH_MAX + 1)).is_err());
        let in_text = format!("\"\\\"{}\"", "[".repeat(1_000));
        assert!(check_depth(in_text.as_bytes()).is_ok());
        assert!(check_depth("[]".repeat(1_000).as_bytes()).is_ok());
    }

    #[test]
    fn a_body_is_an_object_or_nothing() {
        #[derive(Debug, serde::Deserialize)]
        struct Down {
            #[serde(default)]
            keep: bool,
        }
        let status = |text: &str| match parse::<Down>(text.as_bytes()) {
            Ok(down) => u16::from(down.keep),
            Err(error) => error.code.status,
        };
        assert_eq!(
            (status(""), status(" {\"keep\": true}"), status("{}")),
            (0, 1, 0)
        );
        for (text, code) in [
            ("[true]", 422),
            ("[]", 422),
            ("7", 422),
            ("[", 400),
            ("tru", 400),
        ] {
            assert_eq!(status(text), code, "{text}");
        }
    }

    #[tokio::test]
    async fn a_bad_query_is_told_by_its_parameter_and_what_that_takes() {
        #[derive(Debug, serde::Deserialize)]
        struct Which {
            newest: Option<bool>,
        }
        let request = Request::builder().uri("/?newest=1");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let asked = Asked::<Which>::from_request_parts(&mut parts, &()).await;
        let error = asked.map(|Asked(it)| it.newest);
        assert_eq!(error.unwrap_err().message, "newest: write true or false");
    }

    #[test]
    fn only_json_is_taken() {
        let check = |kind: Option<&str>, length: &str| {
            let mut headers = HeaderMap::new();
            if let Some(kind) = kind {
                headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            }
            headers.insert(header::CONTENT_LENGTH, length.parse().unwrap());
            check_content(&Method::POST, &headers, BODY_BYTES_MAX)
                .map_err(|error| error.code.status)
        };
        assert_eq!(check(Some("application/json"), "2"), Ok(()));
        assert_eq!(check(Some("Application/JSON; charset=utf-8"), "2"), Ok(()));
        assert_eq!(check(None, "0"), Ok(()));
        for bad in [
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("application/jsonp"),
            Some(""),
            None,
        ] {
            assert_eq!(check(bad, "2"), Err(415), "{bad:?}");
        }
        assert_eq!(check(Some("text/plain"), "0"), Err(415));
        assert_eq!(check(Some("application/json"), "1048577"), Err(413));
    }
}
