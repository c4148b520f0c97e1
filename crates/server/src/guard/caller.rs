//! Finds out who sent a request: a user of the socket, the owner of a token, a browser that logged in,
//! or another node of the fleet.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use relight_core::agent::AttemptTag;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_runtime::fleet::key::{FleetKey, SCHEME};
use relight_runtime::os::clock;
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::is_write;
use crate::listen::{Peer, PeerProcess};
use crate::login::hash;
use crate::tokens::Scope;

/// The header by which a client says which agent it acts for.
const AGENT_HEADER: &str = "relight-agent";
/// The header by which a process of an agent says which attempt it is part of: its `RELIGHT_ATTEMPT`.
const ATTEMPT_HEADER: &str = "relight-attempt";

/// The header by which a page of ours proves that it may write.
pub(crate) const CSRF_HEADER: &str = "x-relight-csrf";

impl Caller {
    /// A browser sends the cookie by itself, a page of ours sends the header too.
    pub(super) fn check_csrf(&self, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(wanted) = self.csrf_hash.as_deref().filter(|_| is_write(method)) else {
            return Ok(());
        };
        let given = headers
            .get(CSRF_HEADER)
            .and_then(|value| value.to_str().ok());
        let given = hash(given.unwrap_or_default());
        if bool::from(given.as_bytes().ct_eq(wanted.as_bytes())) {
            return Ok(());
        }
        Err(
            ApiError::forbidden("a write by cookie needs the header X-Relight-Csrf")
                .hint("POST /api/login told its value; relight dashboard gives a new login"),
        )
    }
}

impl Caller {
    /// Learns for whom it acts: what its headers say, else what its process shows.
    pub(super) async fn acts_for(
        &mut self,
        process: Option<PeerProcess>,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        self.attempt = match (text_of(headers, ATTEMPT_HEADER)?, process) {
            (Some(tag), _) => Some(AttemptTag::from_text(tag)),
            (None, Some(process)) => process.attempt().await,
            (None, None) => None,
        };
        let named = text_of(headers, AGENT_HEADER)?;
        self.agent = named.map(AgentName::new).transpose()?;
        Ok(())
    }
}

/// The text of a header; none when it is absent or empty.
fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let Some(value) = headers.get(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str();
    let text = text.map_err(|_| ApiError::invalid(format!("the header {name} is not a name")))?;
    Ok(Some(text))
}

/// Finds out who asks. A token that was given counts, and a cookie beside it does not.
pub(super) fn find(app: &App, peer: Peer, request: &Request) -> Result<Caller, ApiError> {
    let headers = request.headers();
    if peer == Peer::Socket {
        // The system has said already whose process it is.
        let id = "socket".to_owned();
        return Ok(Caller {
            via: Via::Socket,
            scope: Scope::Admin,
            csrf_hash: None,
            id,
            attempt: None,
            agent: None,
        });
    }
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(given), None) => match ticket(given) {
            Some(ticket) => by_ticket(app, request, ticket),
            None => by_token(app, given.as_bytes()),
        },
        (Some(_), Some(_)) => Err(ApiError::bad_request("send one Authorization header")),
        (None, _) => by_cookie(app, headers),
    }
}

/// What another node shows instead of a token.
fn ticket(given: &HeaderValue) -> Option<&str> {
    given.to_str().ok()?.strip_prefix(SCHEME)?.strip_prefix(' ')
}

/// A ticket names the one thing that it is for, which is a log.
fn by_ticket(app: &App, request: &Request, ticket: &str) -> Result<Caller, ApiError> {
    let path = request.uri().path();
    let is_log = path
        .strip_prefix("/api/agents/")
        .is_some_and(|rest| rest.split_once('/').is_some_and(|(_, what)| what == "logs"));
    let whole = request
        .uri()
        .path_and_query()
        .map_or(path, |whole| whole.as_str());
    let is_read = *request.method() == Method::GET && is_log;
    let admits = |(node, key): &(NodeName, FleetKey)| {
        is_read && key.admits(node, whole, ticket, clock::now())
    };
    if !app.backend.node.as_ref().is_some_and(admits) {
        return Err(failed(
            app,
            "this ticket is for something else, or of another time",
        ));
    }
    Ok(Caller {
        via: Via::Node,
        scope: Scope::Read,
        csrf_hash: None,
        id: "node".to_owned(),
        attempt: None,
        agent: None,
    })
}

fn by_token(app: &App, given: &[u8]) -> Result<Caller, ApiError> {
    let token = given
        .split_at_checked(7)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
        .map(|(_, token)| token.trim_ascii());
    // Looked at before the failures of others are: a valid token is never held up by them.
    let grant = token.and_then(|token| app.keyring.find(token));
    let Some(grant) = grant else {
        return Err(failed(app, "this token is not known"));
    };
    let id = format!("token {}", grant.id);
    Ok(Caller {
        via: Via::Token,
        scope: grant.scope,
        csrf_hash: None,
        id,
        attempt: None,
        agent: None,
    })
}

fn by_cookie(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let Some(secret) = cookie(&app.cookie_name(), headers) else {
        return Err(ApiError::unauthorized("a token is needed here"));
    };
    let Some(session) = app.browser_sessions.find(&secret, app.keyring.epoch()) else {
        return Err(failed(app, "this login is over").hint("relight dashboard opens a new one"));
    };
    let id = format!("visit {}", session.id);
    Ok(Caller {
        via: Via::Cookie,
        scope: session.scope,
        csrf_hash: Some(session.csrf_hash),
        id,
        attempt: None,
        agent: None,
    })
}

/// Our cookie among those that the browser sent.
pub(crate) fn cookie(name: &str, headers: &HeaderMap) -> Option<String> {
    let pairs = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let mut pairs = pairs.flat_map(|line| line.split(';')).map(str::trim);
    pairs.find_map(|pair| {
        pair.strip_prefix(name)?
            .strip_prefix('=')
            .map(str::to_owned)
    })
}

/// Whoever guesses too fast is told to wait; nobody else is.
pub(crate) fn failed(app: &App, message: &str) -> ApiError {
    if app.failures.is_one_too_many() {
        return ApiError::new(ErrorCode::RATE_LIMITED, "too many wrong tokens lately")
            .hint("wait, and use the right one: relight token show");
    }
    ApiError::unauthorized(message)
}
