//! Sessions: their turns marked before they run and cleared after.

use axum::Extension;
use axum::extract::State;
use relight::os::clock;
use relight::sessions;
use relight_core::ids::{OwnerName, SessionId, SessionKey};
use relight_core::session::{Generation, SessionEvent, SessionStateKind};
use relight_store::SessionQuery;
use serde::Deserialize;

use super::heartbeat::Done;
use super::tasks::{holder, lease};
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::guard::Caller;
use crate::wire::list::{List, Page};
use crate::wire::session::{Because, BeginTurn, Session, Turn};

/// Which sessions.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichSessions {
    /// Only in this state.
    state: Option<String>,
    /// At most so many, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Sessions in the order of their keys.
#[cfg_attr(test, utoipa::path(get, path = "/api/sessions", tag = "sessions", params(WhichSessions),
    responses((status = 200, body = List<Session>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<WhichSessions>,
) -> Result<Answer<List<Session>>, ApiError> {
    let limit = Page { limit: which.limit, after: None }.limit()?;
    let state = which.state.as_deref().map(str::parse::<SessionStateKind>).transpose();
    let state = state.map_err(|error| ApiError::invalid(error.to_string()))?;
    let query = SessionQuery {
        states: state.into_iter().collect(),
        seen: false,
        after: which.after.map(SessionKey::new).transpose()?,
        limit: Some(limit + 1),
    };
    let store = app.backend.engine.store();
    let found = store.sessions(query).await?;
    let owners = found.iter().filter_map(relight_core::session::Session::owner);
    relight::holders::look_for(store.as_ref(), owners).await?;
    let now = clock::now();
    let shown = |session| Session::at(session, now);
    Ok(Answer(List::cut(found, limit, |session| session.key.to_string(), shown)))
}

/// A turn is about to run.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/begin", tag = "sessions",
    params(("key" = String, Path)), request_body = BeginTurn,
    responses((status = 200, body = Turn), (status = 409),
        (status = 422))))]
pub(super) async fn begin(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(key): Named<String>,
    Given(given): Given<BeginTurn>,
) -> Result<Answer<Turn>, ApiError> {
    let lease = lease(given.lease.as_deref())?;
    let owner = given.owner.map(OwnerName::new).transpose()?;
    let event = SessionEvent::Begin {
        session_id: SessionId::new(given.id)?,
        owner: holder(owner.as_ref().map_or(&caller.id, OwnerName::as_str)),
        ttl: Some(lease),
        context: given.set,
    };
    let acted = sessions::act(&app.backend.engine, &SessionKey::new(key)?, event).await?;
    Ok(Answer(Turn { generation: acted.after.generation.0 }))
}

/// The turn has run.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/end", tag = "sessions",
    params(("key" = String, Path)), request_body = Turn,
    responses((status = 200), (status = 404), (status = 409),
        (status = 422))))]
pub(super) async fn end(
    State(app): State<App>,
    Named(key): Named<String>,
    Given(given): Given<Turn>,
) -> Result<Answer<Done>, ApiError> {
    let event = SessionEvent::End { generation: Generation(given.generation) };
    sessions::act(&app.backend.engine, &SessionKey::new(key)?, event).await?;
    Ok(Answer(Done {}))
}

/// It may go on.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/resume", tag = "sessions",
    params(("key" = String, Path)),
    responses((status = 200, body = Session), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn resume(
    State(app): State<App>,
    Named(key): Named<String>,
) -> Result<Answer<Session>, ApiError> {
    let key = SessionKey::new(key)?;
    let acted = sessions::act(&app.backend.engine, &key, SessionEvent::Resume).await?;
    Ok(Answer(Session::at(acted.after, clock::now())))
}

/// It must not go on before somebody resumes it.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/suspend", tag = "sessions",
    params(("key" = String, Path)), request_body = Because,
    responses((status = 200, body = Session), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn suspend(
    State(app): State<App>,
    Named(key): Named<String>,
    Given(given): Given<Because>,
) -> Result<Answer<Session>, ApiError> {
    let key = SessionKey::new(key)?;
    let event = SessionEvent::Suspend { reason: given.reason };
    let acted = sessions::act(&app.backend.engine, &key, event).await?;
    Ok(Answer(Session::at(acted.after, clock::now())))
}
