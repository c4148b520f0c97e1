//! Events: as a list, or as a stream that goes on.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use relight_core::ids::{AgentName, TaskId};
use relight_store::EventQuery;

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::event_stream::Wanted;
use crate::extract::Asked;
use crate::wire::event::WhichEvents;
#[cfg(test)]
use crate::wire::list::List;
use crate::wire::list::Page;
use relight_runtime::operations::view::EventView;

/// Events as a list, or with `Accept: text/event-stream` as a stream that resumes by `Last-Event-ID`.
#[cfg_attr(test, utoipa::path(get, path = "/api/events", tag = "events",
    params(WhichEvents, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((List<EventView> = "application/json"), (String = "text/event-stream"))),
        (status = 422))))]
pub(super) async fn events(
    State(app): State<App>,
    Asked(which): Asked<WhichEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = Page {
        limit: which.limit,
        after: None,
    }
    .limit()?;
    let query = EventQuery {
        after: which.after.unwrap_or(0),
        before: which.before,
        task: which.task.map(TaskId::new).transpose()?,
        agent: which.agent.map(AgentName::new).transpose()?,
        kinds: which.kind,
        limit,
        newest: which.newest.unwrap_or(false) || which.before.is_some(),
    };
    let last_seen = last_seen(&headers)?;
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/event-stream")) {
        let after = last_seen.or(which.after);
        let query = EventQuery {
            newest: false,
            before: None,
            ..query
        };
        return app
            .journal
            .watch(app.backend.engine.store(), Wanted { after, query })
            .await;
    }
    let page = EventView::page(&app.backend.engine, query).await?;
    Ok(Answer(page).into_response())
}

/// The last event that a watcher saw.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    let id = id.filter(|id| i64::try_from(*id).is_ok());
    id.map(Some)
        .ok_or_else(|| ApiError::invalid("Last-Event-ID is a number"))
}
