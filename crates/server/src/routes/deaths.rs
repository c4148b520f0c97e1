//! How attempts ended, and when they lived.

use axum::extract::State;
use relight_core::agent::{Attempt, AttemptTag};
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_runtime::operations::death::DeathView;
use relight_runtime::operations::fields;
use relight_store::AttemptQuery;
use serde::Deserialize;

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Asked, Named};
use crate::wire;
use crate::wire::list::{List, Page};

/// Attempts that are looked through at most for one page.
const LOOKED_THROUGH_MAX: usize = 10_000;
/// Attempts that are read at a time.
const READ_AT_ONCE: usize = 1_000;

/// The deaths of an agent with their post-mortems, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents/{name}/deaths", tag = "agents",
    params(("name" = String, Path), Page),
    responses((status = 200, body = List<DeathView>), (status = 404),
        (status = 422))))]
pub(super) async fn deaths(
    State(app): State<App>,
    Named(name): Named<String>,
    Asked(page): Asked<Page>,
) -> Result<Answer<List<DeathView>>, ApiError> {
    let agent = app.agent(&AgentName::new(name)?).await?;
    let limit = page.limit()?;
    let before = app.place(page.after).await?;
    let query = AttemptQuery {
        agent: Some(agent.name),
        ended: true,
        limit: limit + 1,
        before,
    };
    let mut found = app.backend.engine.store().attempts(query).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found
        .last()
        .filter(|_| has_more)
        .map(|last| last.tag.to_string());
    let items = found.into_iter().filter_map(DeathView::of).collect();
    Ok(Answer(List::new(items, next)))
}

/// Which attempts.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichAttempts {
    /// Only those that lived after this time.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(test, param(value_type = Option<String>))]
    since: Option<Time>,
    /// Only of this agent.
    agent: Option<String>,
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 1000))]
    limit: Option<usize>,
    /// The `next` of the previous page.
    after: Option<String>,
}

/// Attempts for a timeline, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/api/attempts", tag = "agents", params(WhichAttempts),
    responses((status = 200, body = List<wire::attempt::AttemptView>), (status = 422))))]
pub(super) async fn attempts(
    State(app): State<App>,
    Asked(which): Asked<WhichAttempts>,
) -> Result<Answer<List<wire::attempt::AttemptView>>, ApiError> {
    let limit = Page {
        limit: which.limit.or(Some(1_000)),
        after: None,
    }
    .limit()?;
    let since = which.since;
    let agent = which.agent.map(AgentName::new).transpose()?;
    let mut before = app.place(which.after).await?;
    let mut found = Vec::new();
    let mut looked_at = 0;
    loop {
        let query = AttemptQuery {
            agent: agent.clone(),
            ended: false,
            limit: READ_AT_ONCE,
            before,
        };
        let read = app.backend.engine.store().attempts(query).await?;
        let is_last = read.len() < READ_AT_ONCE;
        looked_at += read.len();
        before = read.last().map(|last| last.tag.clone());
        let has_lived_since = |attempt: &Attempt| {
            let ended_at = attempt.ended.as_ref().map(|ended| ended.death.at);
            since.is_none_or(|since| ended_at.is_none_or(|ended_at| ended_at >= since))
        };
        found.extend(read.into_iter().filter(has_lived_since));
        if found.len() > limit || is_last || looked_at >= LOOKED_THROUGH_MAX {
            before = before.filter(|_| !is_last);
            break;
        }
    }
    // Where the page is full the next one begins after it, else where the look ended.
    if found.len() > limit {
        found.truncate(limit);
        before = found.last().map(|last| last.tag.clone());
    }
    let next = before.map(|tag| tag.to_string());
    let items = found.into_iter().map(Into::into).collect();
    Ok(Answer(List::new(items, next)))
}

impl App {
    /// Where a page begins. A place that is not there any more is no end of the list.
    async fn place(&self, after: Option<String>) -> Result<Option<AttemptTag>, ApiError> {
        let Some(tag) = after.map(AttemptTag::from_text) else {
            return Ok(None);
        };
        match self.backend.engine.store().attempt(&tag).await? {
            Some(attempt) => Ok(Some(attempt.tag)),
            None => Err(
                ApiError::invalid(format!("{:?} is no place in this list", tag.as_str()))
                    .hint("begin again without `after`"),
            ),
        }
    }
}
