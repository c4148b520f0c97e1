//! Whether the daemon lives, who asks, and how a browser logs in.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, http::StatusCode};
use relight_runtime::os::clock;

use crate::VERSION;
use crate::answer::{Answer, json_bytes};
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::{ApiError, STORE_REPLACED};
use crate::extract::Given;
use crate::guard::caller::{cookie, failed};
use crate::login::{AGE_MAX, Begun, GOOD_FOR};
use crate::wire::login::{Health, LoggedIn, Login, LoginCode, Me};

/// Whether the daemon lives and has its store. Needs no token.
#[cfg_attr(test, utoipa::path(get, path = "/api/health", tag = "daemon",
    responses((status = 200, body = Health), (status = 503, body = Health))))]
pub(super) async fn health(State(app): State<App>) -> Response {
    let version = VERSION.to_owned();
    let is_local = app.address.is_none_or(|address| address.ip().is_loopback());
    let login_command = is_local.then(|| app.backend.login_command());
    match app.backend.engine.store().check_files() {
        Err(_) => {
            let (status, reason) = ("store_gone".to_owned(), Some(STORE_REPLACED.to_owned()));
            json_bytes(
                StatusCode::SERVICE_UNAVAILABLE,
                &Health {
                    status,
                    version,
                    login_command,
                    reason,
                },
            )
        }
        Ok(()) => Answer(Health {
            status: "ok".to_owned(),
            version,
            login_command,
            reason: None,
        })
        .into_response(),
    }
}

/// The caller, as the daemon identifies it.
#[cfg_attr(test, utoipa::path(get, path = "/api/me", tag = "daemon", responses((status = 200, body = Me))))]
pub(super) async fn me(Extension(caller): Extension<Caller>) -> Answer<Me> {
    let via = match caller.via {
        Via::Socket => "socket",
        Via::Token => "token",
        Via::Cookie => "cookie",
        Via::Node => "node",
    };
    Answer(Me {
        via: via.to_owned(),
        scope: caller.scope,
    })
}

/// A one-time code that logs a browser in: good once, for a minute.
#[cfg_attr(test, utoipa::path(post, path = "/api/login-codes", tag = "daemon",
    responses((status = 200, body = LoginCode), (status = 409))))]
pub(super) async fn give_code(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Answer<LoginCode>, ApiError> {
    let Some(url) = app.url() else {
        return Err(
            ApiError::conflict("no address is served; there is only the socket")
                .hint("start the daemon without --no-http"),
        );
    };
    let code = app.codes.give(caller.scope);
    let url = format!("{url}/login/{code}");
    Ok(Answer(LoginCode {
        code,
        url,
        expires_at: clock::now().plus(GOOD_FOR),
    }))
}

/// Logs a browser in by a one-time code: sets the cookie, and returns the value that writes also
/// need.
#[cfg_attr(test, utoipa::path(post, path = "/api/login", tag = "daemon", request_body = Login,
    responses((status = 200, body = LoggedIn), (status = 401))))]
pub(super) async fn log_in(
    State(app): State<App>,
    Given(login): Given<Login>,
) -> Result<Response, ApiError> {
    let Some(scope) = app.codes.take(&login.code) else {
        let error = failed(&app, "this code is not good, or not any more")
            .hint("relight dashboard gives a new one");
        app.audit.refused(&app.backend, &error);
        return Err(error);
    };
    let begun = app.browser_sessions.begin(scope, app.keyring.epoch());
    let Begun { cookie, csrf } = begun.map_err(|error| ApiError::internal(error.to_string()))?;
    let answer = Answer(LoggedIn { scope, csrf });
    Ok(with_cookie(
        &app,
        &cookie,
        AGE_MAX.as_ms() / 1_000,
        answer.into_response(),
    ))
}

/// Logs a browser out.
#[cfg_attr(test, utoipa::path(post, path = "/api/logout", tag = "daemon", responses((status = 204))))]
pub(super) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(secret) = cookie(&app.cookie_name(), &headers) {
        let ended = app.browser_sessions.end(&secret);
        ended.map_err(|error| ApiError::internal(error.to_string()))?;
    }
    Ok(with_cookie(
        &app,
        "",
        0,
        StatusCode::NO_CONTENT.into_response(),
    ))
}

fn with_cookie(app: &App, secret: &str, seconds: u64, mut response: Response) -> Response {
    let secure = if app.is_tls { "; Secure" } else { "" };
    let name = app.cookie_name();
    let text =
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let value = HeaderValue::try_from(text).expect("a secret is plain text");
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}
