//! Who may come in, decided before anything happens.
//!
//! In this order, for every request: the host that it names, the page that it comes from, who asks,
//! what that one may do, the header by which a page of ours proves itself, and what it carries. A
//! request that fails one of them reaches no handler.

pub(crate) mod caller;
pub(crate) mod origin;
pub(crate) mod scope;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use relight_core::error_code::ErrorCode;

use crate::answer::seal;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{self, BODY_BYTES_MAX};
use crate::hosts;
use crate::listen::{Peer, PeerProcess};
use crate::pages;
use crate::relay;

/// Lets a request through to its handler, or refuses it.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let mut response = match check(&app, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(error) => refuse(&app, &request, error),
    };
    if let Some(inside) = response
        .extensions()
        .get::<ApiError>()
        .and_then(|e| e.inside.as_ref())
    {
        (app.backend.complain)(inside);
    }
    app.traffic.answered(response.status());
    seal(response.headers_mut());
    response
}

async fn check(app: &App, request: &mut Request) -> Result<(), ApiError> {
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.ok_or_else(|| ApiError::internal("a request came without its connection"))?;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    hosts::check(&app.hosts, peer, request.uri(), request.headers())?;
    // A link in a chat or an issue: the frame holds no data, and what its script asks for comes from us.
    if pages::is_page(&path) && origin::is_link_followed(&method, request.headers()) {
        return Ok(());
    }
    origin::check(&app.hosts, peer, request.headers())?;
    if !is_open(&method, &path) {
        let mut caller = caller::find(app, peer, request)?;
        scope::check(&method, &path, caller.scope)?;
        caller.check_csrf(&method, request.headers())?;
        if extract::is_write(&method) && path != relay::PATH {
            let process = request.extensions().get::<PeerProcess>().cloned();
            caller.acts_for(process, request.headers()).await?;
        }
        request.extensions_mut().insert(caller);
    }
    let bytes_max = if path == relay::PATH {
        relay::BYTES_MAX
    } else {
        BODY_BYTES_MAX
    };
    extract::check_content(&method, request.headers(), bytes_max)
}

/// What needs no login: whether the daemon lives, and how to log in.
pub(crate) fn is_open(method: &Method, path: &str) -> bool {
    match path {
        "/api/health" => matches!(*method, Method::GET | Method::HEAD),
        "/api/login" => *method == Method::POST,
        _ => pages::is_open(path) && matches!(*method, Method::GET | Method::HEAD),
    }
}

/// A person with a browser is shown how to log in; a program gets the error.
fn refuse(app: &App, request: &Request, error: ApiError) -> Response {
    app.audit.refused(&app.backend, &error);
    let (method, path) = (request.method(), request.uri().path());
    let is_page = pages::is_page(path) && *method == Method::GET;
    let wants_html = request
        .headers()
        .get(header::ACCEPT)
        .is_none_or(|accept| accept.as_bytes().windows(4).any(|word| word == b"html"));
    let is_for_people =
        is_page && wants_html || pages::is_for_people(method, path, request.headers());
    if is_for_people && error.code == ErrorCode::UNAUTHORIZED {
        return pages::how_to_log_in(request.headers());
    }
    error.into_response()
}
