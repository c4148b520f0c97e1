//! Answers that are remembered by `Idempotency-Key`: the same key with the same request gets the same
//! answer and does nothing again; with another request it is refused.
//!
//! The promise: within one life of the daemon, for a day, for the last thousand keys. A restart
//! forgets them; adding, starting and claiming a task, and recording a step, are safe to repeat by
//! what the store itself keeps.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use relight_runtime::os::clock;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{is_write, read_body};
use crate::known_fields;

const HEADER: &str = "idempotency-key";
/// Says that an answer was given before.
const REPLAYED: &str = "idempotency-replayed";
const KEYS_MAX: usize = 1_000;
const KEY_BYTES_MAX: usize = 200;
/// A longer answer is not remembered, and its request is done again.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// All answers together; the oldest go first.
const ANSWERS_BYTES_MAX: usize = 4 << 20;
const AGE_MS_MAX: u64 = 24 * 3_600_000;

/// Answers by key.
#[derive(Debug)]
pub(crate) struct IdempotentAnswers {
    memory: Mutex<AnswerCache>,
    /// How long a whole body may take to arrive.
    body_wait_max: Duration,
}

#[derive(Debug, Default)]
struct AnswerCache {
    answers: HashMap<Key, Entry>,
    /// Oldest first.
    order: VecDeque<Key>,
    /// Of all answers.
    bytes: usize,
}

/// Whose, and which.
type Key = (String, String);

#[derive(Debug, Clone)]
struct Entry {
    request: blake3::Hash,
    at_ms: u64,
    /// None while it is being done.
    answer: Option<(StatusCode, Bytes)>,
}

enum Found {
    New,
    Answered(StatusCode, Bytes),
    UnderWay,
    OtherRequest,
}

/// Reads the body of a write within its limits, checks that its fields are known, and looks for its key.
pub(crate) async fn remember(
    State(answers): State<Arc<IdempotentAnswers>>,
    request: Request,
    next: Next,
) -> Response {
    if !is_write(request.method()) {
        return match known_fields::check(&request, b"") {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    }
    let (request, body) = match read_body(request, answers.body_wait_max).await {
        Ok(read) => read,
        Err(error) => return error.into_response(),
    };
    if let Err(error) = known_fields::check(&request, &body) {
        return error.into_response();
    }
    match key_of(&request) {
        Err(error) => error.into_response(),
        Ok(None) => next.run(request).await,
        Ok(Some(key)) => with_key(&answers, key, request, &body, next).await,
    }
}

async fn with_key(
    answers: &IdempotentAnswers,
    key: Key,
    request: Request,
    body: &Bytes,
    next: Next,
) -> Response {
    let hash = hash_of(&request, body);
    match answers.find(&key, hash, clock::boot_ms()) {
        Found::Answered(status, bytes) => return replay(status, bytes),
        Found::UnderWay => {
            return ApiError::conflict("a request with this Idempotency-Key is under way")
                .hint("try again")
                .into_response();
        }
        Found::OtherRequest => {
            return ApiError::invalid("this Idempotency-Key was used with another request")
                .hint("use a new key for a new request")
                .into_response();
        }
        Found::New => {}
    }
    let forget = Forget {
        answers,
        key: Some(&key),
    };
    let (parts, body) = next.run(request).await.into_parts();
    let Ok(collected) = body.collect().await else {
        return ApiError::internal("an answer broke off").into_response();
    };
    let bytes = collected.to_bytes();
    let is_final = !parts.status.is_server_error() && bytes.len() <= ANSWER_BYTES_MAX;
    if is_final {
        forget.keep(parts.status, bytes.clone());
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// What is not answered, because it failed or the caller left, may be tried again.
struct Forget<'a> {
    answers: &'a IdempotentAnswers,
    key: Option<&'a Key>,
}

impl Forget<'_> {
    fn keep(mut self, status: StatusCode, bytes: Bytes) {
        if let Some(key) = self.key.take() {
            self.answers.answered(key, status, bytes);
        }
    }
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.answers.forget(key);
        }
    }
}

fn replay(status: StatusCode, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// The key, and whose. Answers that hold a secret are not remembered.
fn key_of(request: &Request) -> Result<Option<Key>, ApiError> {
    let Some(key) = text_of(request.headers())? else {
        return Ok(None);
    };
    let caller = request.extensions().get::<Caller>();
    let Some(caller) = caller.filter(|_| !request.uri().path().starts_with("/api/login")) else {
        return Ok(None);
    };
    Ok(Some((caller.id.clone(), key)))
}

/// The key as it was given.
pub(crate) fn text_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .filter(|text| (1..=KEY_BYTES_MAX).contains(&text.len()));
    let text = text.ok_or_else(|| {
        ApiError::invalid(format!(
            "an Idempotency-Key has 1 to {KEY_BYTES_MAX} printable characters"
        ))
    })?;
    Ok(Some(text.to_owned()))
}

fn hash_of(request: &Request, body: &Bytes) -> blake3::Hash {
    let mut hash = blake3::Hasher::new();
    for part in [request.method().as_str(), request.uri().path()] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(body);
    hash.finalize()
}

impl IdempotentAnswers {
    pub(crate) fn new(body_wait_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            memory: Mutex::default(),
            body_wait_max,
        })
    }

    /// What is known of a key. A new one is under way from now on.
    fn find(&self, key: &Key, request: blake3::Hash, now_ms: u64) -> Found {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.forget_old(now_ms);
        match memory.answers.get(key) {
            Some(entry) if entry.request != request => return Found::OtherRequest,
            Some(Entry {
                answer: Some((status, bytes)),
                ..
            }) => {
                return Found::Answered(*status, bytes.clone());
            }
            Some(Entry { answer: None, .. }) => return Found::UnderWay,
            None => {}
        }
        let entry = Entry {
            request,
            at_ms: now_ms,
            answer: None,
        };
        memory.answers.insert(key.clone(), entry);
        memory.order.push_back(key.clone());
        Found::New
    }

    fn answered(&self, key: &Key, status: StatusCode, bytes: Bytes) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = memory.answers.get_mut(key) else {
            return;
        };
        let length = bytes.len();
        entry.answer = Some((status, bytes));
        memory.bytes += length;
        while memory.bytes > ANSWERS_BYTES_MAX && memory.forget_oldest() {}
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.remove(key);
        memory.order.retain(|known| known != key);
    }
}

impl AnswerCache {
    fn forget_old(&mut self, now_ms: u64) {
        while let Some(oldest) = self.order.front() {
            let is_old = |entry: &Entry| entry.at_ms + AGE_MS_MAX <= now_ms;
            let goes = self.order.len() >= KEYS_MAX || self.answers.get(oldest).is_none_or(is_old);
            if !goes {
                return;
            }
            self.forget_oldest();
        }
    }

    /// Whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.order.pop_front();
        oldest.inspect(|oldest| self.remove(oldest)).is_some()
    }

    fn remove(&mut self, key: &Key) {
        if let Some(Entry {
            answer: Some((_, bytes)),
            ..
        }) = self.answers.remove(key)
        {
            self.bytes -= bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        ("socket".to_owned(), text.to_owned())
    }

    #[test]
    fn a_key_is_new_once_then_answered_and_never_for_another_request() {
        let remembered = IdempotentAnswers::new(Duration::ZERO);
        let (one, other) = (blake3::hash(b"1"), blake3::hash(b"2"));
        assert!(matches!(remembered.find(&key("k"), one, 0), Found::New));
        assert!(matches!(
            remembered.find(&key("k"), one, 0),
            Found::UnderWay
        ));
        remembered.answered(&key("k"), StatusCode::CREATED, Bytes::from_static(b"{}"));
        assert!(matches!(
            remembered.find(&key("k"), one, 0),
            Found::Answered(..)
        ));
        assert!(matches!(
            remembered.find(&key("k"), other, 0),
            Found::OtherRequest
        ));
        let others = ("token a".to_owned(), "k".to_owned());
        assert!(matches!(remembered.find(&others, other, 0), Found::New));
        assert!(matches!(
            remembered.find(&key("k"), other, AGE_MS_MAX),
            Found::New
        ));
    }

    #[test]
    fn answers_are_kept_within_a_limit_of_bytes() {
        let remembered = IdempotentAnswers::new(Duration::ZERO);
        let one = blake3::hash(b"1");
        let answer = Bytes::from(vec![0; ANSWER_BYTES_MAX]);
        for n in 0..200 {
            remembered.find(&key(&n.to_string()), one, 0);
            remembered.answered(&key(&n.to_string()), StatusCode::OK, answer.clone());
        }
        let kept = |n: &str| matches!(remembered.find(&key(n), one, 0), Found::Answered(..));
        assert!(kept("199") && !kept("0"));
        assert_eq!(remembered.memory.lock().unwrap().bytes, ANSWERS_BYTES_MAX);
    }

    #[test]
    fn only_the_last_keys_are_kept() {
        let remembered = IdempotentAnswers::new(Duration::ZERO);
        let one = blake3::hash(b"1");
        (0..=KEYS_MAX).for_each(|n| drop(remembered.find(&key(&n.to_string()), one, 0)));
        assert!(matches!(remembered.find(&key("0"), one, 0), Found::New));
        assert!(remembered.memory.lock().unwrap().answers.len() <= KEYS_MAX);
    }
}
