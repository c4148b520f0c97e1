//! Sessions: their turns marked before they run and cleared after.

use axum::Extension;
use axum::extract::State;
use relight_core::ids::{OwnerName, SessionId, SessionKey};
use relight_core::lease::Holder;
use relight_core::session::{Generation, Policy, SessionEvent, SessionStateKind};
use relight_runtime::os::{clock, process};
use relight_runtime::sessions::{self, Acted, Owner};
use serde::Deserialize;

use super::span;
use super::tasks::{holder, lease};
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::guard::{Caller, Via};
use crate::wire::list::{List, Page};
use crate::wire::session::{
    Because, BeginTurn, BegunTurn, ChangedSession, Discarded, EndedTurn, RecoverSessions,
    RecoveredSessions, Session, ShutdownOwner, TouchSession, Turn,
};

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
    let after = which.after.map(SessionKey::new).transpose()?;
    let (states, engine) = (state.into_iter().collect(), &app.backend.engine);
    let (found, next) = sessions::list(engine, states, after, limit).await?;
    let now = clock::now();
    let items = found.into_iter().map(|session| Session::at(session, now)).collect();
    Ok(Answer(List { items, next: next.map(String::from) }))
}

/// One session.
#[cfg_attr(test, utoipa::path(get, path = "/api/sessions/{key}", tag = "sessions",
    params(("key" = String, Path)),
    responses((status = 200, body = Session), (status = 404), (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named(key): Named<String>,
) -> Result<Answer<Session>, ApiError> {
    let found = sessions::session(&app.backend.engine, &SessionKey::new(key)?).await?;
    Ok(Answer(Session::at(found, clock::now())))
}

/// A turn is about to run.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/begin", tag = "sessions",
    params(("key" = String, Path)), request_body = BeginTurn,
    responses((status = 200, body = BegunTurn), (status = 409),
        (status = 422))))]
pub(super) async fn begin(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(key): Named<String>,
    Given(given): Given<BeginTurn>,
) -> Result<Answer<BegunTurn>, ApiError> {
    let (owner, ttl) = match given.owner_pid {
        Some(_) if given.owner.is_some() || given.lease.is_some() => {
            return Err(ApiError::invalid("owner_pid stands alone, without owner and lease"));
        }
        Some(pid) => (live_process(&caller, pid)?, None),
        None => (named_owner(&caller, given.owner)?, Some(lease(given.lease.as_deref())?)),
    };
    let session_id = SessionId::new(given.id)?;
    let event = SessionEvent::Begin { session_id, owner, ttl, context: given.set };
    Ok(Answer(BegunTurn::from(&app.act_on_session(key, event).await?)))
}

/// The turn has run.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/end", tag = "sessions",
    params(("key" = String, Path)), request_body = Turn,
    responses((status = 200, body = EndedTurn), (status = 404), (status = 409),
        (status = 422))))]
pub(super) async fn end(
    State(app): State<App>,
    Named(key): Named<String>,
    Given(given): Given<Turn>,
) -> Result<Answer<EndedTurn>, ApiError> {
    let generation = Generation(given.generation);
    let acted = app.act_on_session(key, SessionEvent::End { generation }).await?;
    Ok(Answer(EndedTurn::new(&acted, generation)))
}

/// Something happened in a session whose turns are not marked.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/touch", tag = "sessions",
    params(("key" = String, Path)), request_body = TouchSession,
    responses((status = 200, body = Session), (status = 409), (status = 422))))]
pub(super) async fn touch(
    State(app): State<App>,
    Named(key): Named<String>,
    Given(given): Given<TouchSession>,
) -> Result<Answer<Session>, ApiError> {
    let event = SessionEvent::Touch { session_id: SessionId::new(given.id)?, at: clock::now() };
    let acted = app.act_on_session(key, event).await?;
    Ok(Answer(Session::at(acted.after, clock::now())))
}

/// Lets a session continue that was cut off, suspended or expired.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/resume", tag = "sessions",
    params(("key" = String, Path)),
    responses((status = 200, body = ChangedSession), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn resume(
    State(app): State<App>,
    Named(key): Named<String>,
) -> Result<Answer<ChangedSession>, ApiError> {
    Ok(Answer(ChangedSession::from(&app.act_on_session(key, SessionEvent::Resume).await?)))
}

/// No turn of it begins before somebody resumes it.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/suspend", tag = "sessions",
    params(("key" = String, Path)), request_body = Because,
    responses((status = 200, body = ChangedSession), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn suspend(
    State(app): State<App>,
    Named(key): Named<String>,
    Given(given): Given<Because>,
) -> Result<Answer<ChangedSession>, ApiError> {
    let event = SessionEvent::Suspend { reason: given.reason };
    Ok(Answer(ChangedSession::from(&app.act_on_session(key, event).await?)))
}

/// Forgets what is owed to a session: its mark, reason, deaths and context.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/{key}/clear", tag = "sessions",
    params(("key" = String, Path)),
    responses((status = 200, body = ChangedSession), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn clear(
    State(app): State<App>,
    Named(key): Named<String>,
) -> Result<Answer<ChangedSession>, ApiError> {
    Ok(Answer(ChangedSession::from(&app.act_on_session(key, SessionEvent::Clear).await?)))
}

/// A gateway starts: decides every session whose turn was cut off, and answers those.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/recover", tag = "sessions",
    request_body = RecoverSessions,
    responses((status = 200, body = RecoveredSessions), (status = 422))))]
pub(super) async fn recover(
    State(app): State<App>,
    Given(given): Given<RecoverSessions>,
) -> Result<Answer<RecoveredSessions>, ApiError> {
    let policy = given.policy.as_deref().map(str::parse::<Policy>).transpose();
    let policy = policy.map_err(|error| ApiError::invalid(error.to_string()))?;
    let freshness = given.freshness.as_deref().map(span).transpose()?;
    let window = given.window.as_deref().map(span).transpose()?;
    let rules = app.backend.sessions.with(policy, freshness, window);
    let engine = &app.backend.engine;
    let decided = match given.dry_run {
        true => sessions::find(engine, &rules).await?,
        false => sessions::recover(engine, &rules).await?,
    };
    Ok(Answer(RecoveredSessions {
        dry_run: given.dry_run,
        policy: rules.policy.to_string(),
        items: decided.into_iter().map(Into::into).collect(),
        next: None,
    }))
}

/// A gateway stops in order: discards its marks.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/shutdown", tag = "sessions",
    request_body = ShutdownOwner,
    responses((status = 200, body = Discarded), (status = 422))))]
pub(super) async fn shutdown(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(given): Given<ShutdownOwner>,
) -> Result<Answer<Discarded>, ApiError> {
    let owner = match given.owner_pid {
        Some(pid) => {
            check_local(&caller)?;
            Owner::process(pid)
        }
        None => Owner::Holder(named_owner(&caller, given.owner)?),
    };
    let discarded = sessions::shutdown(&app.backend.engine, &owner).await?;
    Ok(Answer(Discarded { discarded: discarded.into_iter().map(String::from).collect() }))
}

impl App {
    async fn act_on_session(&self, key: String, event: SessionEvent) -> Result<Acted, ApiError> {
        Ok(sessions::act(&self.backend.engine, &SessionKey::new(key)?, event).await?)
    }
}

fn named_owner(caller: &Caller, owner: Option<String>) -> Result<Holder, ApiError> {
    let owner = owner.map(OwnerName::new).transpose()?;
    Ok(holder(owner.as_ref().map_or(&caller.id, OwnerName::as_str)))
}

/// A process of this machine: whoever names one comes by the socket.
fn live_process(caller: &Caller, pid: u32) -> Result<Holder, ApiError> {
    check_local(caller)?;
    let process = process::identity(pid).ok_or_else(|| {
        ApiError::invalid(format!("there is no process {pid}"))
            .hint("owner_pid takes the pid of a live process")
    })?;
    Ok(Holder::Process(process))
}

fn check_local(caller: &Caller) -> Result<(), ApiError> {
    if caller.via == Via::Socket {
        return Ok(());
    }
    Err(ApiError::invalid("owner_pid is only for callers of the Unix socket")
        .hint("give owner and lease instead, or call the socket of the daemon on that machine"))
}
