//! Sessions: their turns marked before they run and cleared after.

use axum::Extension;
use axum::extract::State;
use relight_core::ids::SessionKey;
use relight_core::session::SessionStateKind;
use relight_runtime::operations::session::{
    self, BegunTurn, ChangedSession, Discarded, EndedTurn, RecoveredSessions, SessionBegin,
    SessionCaller, SessionClear, SessionEnd, SessionOperation, SessionRecover, SessionResume,
    SessionShutdown, SessionSuspend, SessionTouch, SessionView,
};
use relight_runtime::operations::work::Taker;
use relight_runtime::operations::{fields, read};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::wire::list::{List, Page};

/// Which sessions.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichSessions {
    /// Only in these states, separated by commas.
    #[serde(default, deserialize_with = "fields::words")]
    #[cfg_attr(test, param(value_type = Option<String>))]
    state: Vec<SessionStateKind>,
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    limit: Option<usize>,
    /// The `next` of the previous page.
    after: Option<String>,
}

/// Sessions in the order of their keys.
#[cfg_attr(test, utoipa::path(get, path = "/api/sessions", tag = "sessions", params(WhichSessions),
    responses((status = 200, body = List<SessionView>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<WhichSessions>,
) -> Result<Answer<List<SessionView>>, ApiError> {
    let limit = Page {
        limit: which.limit,
        after: None,
    }
    .limit()?;
    let after = which.after.map(SessionKey::new).transpose()?;
    Ok(Answer(
        session::list(&app.backend.engine, which.state, after, limit).await?,
    ))
}

/// One session.
#[cfg_attr(test, utoipa::path(get, path = "/api/sessions/{key}", tag = "sessions",
    params(("key" = String, Path)),
    responses((status = 200, body = SessionView), (status = 404), (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named(key): Named<String>,
) -> Result<Answer<SessionView>, ApiError> {
    Ok(Answer(
        session::show(&app.backend.engine, &SessionKey::new(key)?).await?,
    ))
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident $path:literal $request:ident => $answer:ident;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "sessions",
            params(("key" = String, Path)), request_body = $request,
            responses((status = 200, body = $answer), (status = 404), (status = 409),
                (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            Named(key): Named<String>,
            Given(mut given): Given<Map<String, Value>>,
        ) -> Result<Answer<$answer>, ApiError> {
            if given.insert("key".to_owned(), key.into()).is_some() {
                return Err(ApiError::invalid("the session is named in the path"));
            }
            let request: $request = read(given)?;
            Ok(Answer(request.run(&app.backend.engine, &by(&app, &caller).await?).await?))
        }
    )*};
}

verbs! {
    /// Marks a turn before it runs.
    begin "/api/sessions/{key}/begin" SessionBegin => BegunTurn;
    /// Ends a turn.
    end "/api/sessions/{key}/end" SessionEnd => EndedTurn;
    /// Renews the mark of a turn by its generation, or records activity in a session whose turns are not
    /// marked.
    touch "/api/sessions/{key}/touch" SessionTouch => SessionView;
    /// Lets a session continue that was cut off, suspended or expired.
    resume "/api/sessions/{key}/resume" SessionResume => ChangedSession;
    /// Suspends the session: no turn begins until it is resumed.
    suspend "/api/sessions/{key}/suspend" SessionSuspend => ChangedSession;
    /// Clears a session's mark, reason, deaths and context.
    clear "/api/sessions/{key}/clear" SessionClear => ChangedSession;
}

/// At the start of a gateway: decides what happens to each session whose turn was cut off, and returns
/// them.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/recover", tag = "sessions",
    request_body = SessionRecover,
    responses((status = 200, body = RecoveredSessions), (status = 422))))]
pub(super) async fn recover(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(given): Given<SessionRecover>,
) -> Result<Answer<RecoveredSessions>, ApiError> {
    let context = app.context_of(&caller).await?;
    Ok(Answer(
        given.run(&context.engine, app.backend.sessions).await?,
    ))
}

/// At a clean stop of a gateway: discards its marks.
#[cfg_attr(test, utoipa::path(post, path = "/api/sessions/shutdown", tag = "sessions",
    request_body = SessionShutdown,
    responses((status = 200, body = Discarded), (status = 422))))]
pub(super) async fn shutdown(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(given): Given<SessionShutdown>,
) -> Result<Answer<Discarded>, ApiError> {
    let caller = by(&app, &caller).await?;
    Ok(Answer(given.run(&app.backend.engine, &caller).await?))
}

/// Whose marks they are: those of an attempt end with it. Whoever names a process comes by the socket.
async fn by(app: &App, caller: &Caller) -> Result<SessionCaller, ApiError> {
    let (context, attempt) = (app.context_of(caller).await?, caller.attempt.as_ref());
    let taker = Taker::over_http(&context, None, attempt, &caller.id).await?;
    Ok(SessionCaller {
        owner: taker.holder,
        is_local: caller.via == Via::Socket,
    })
}
