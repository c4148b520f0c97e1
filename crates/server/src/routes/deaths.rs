//! How attempts ended, and when they lived.

use axum::extract::State;
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_store::AttemptQuery;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::given::{Asked, Named};
use crate::wire;
use crate::wire::death::Death;
use crate::wire::list::{List, Page};
use crate::wire::problem::ProblemBody;

/// Attempts that are looked through at most.
const LOOKED_THROUGH_MAX: usize = 10_000;

/// The deaths of an agent with their post-mortems, newest first.
#[utoipa::path(get, path = "/api/agents/{name}/deaths", tag = "agents",
    params(("name" = String, Path), Page),
    responses((status = 200, body = List<Death>), (status = 404, body = ProblemBody),
        (status = 422, body = ProblemBody)))]
pub(super) async fn deaths(
    State(app): State<App>,
    Named(name): Named<String>,
    Asked(page): Asked<Page>,
) -> Result<Answer<List<Death>>, ApiError> {
    let agent = app.agent(&AgentName::new(name)?).await?;
    let limit = page.limit()?;
    let after = page.after.as_deref().map(number).transpose()?;
    // They are numbered in order: where the page begins is so far from the newest.
    let newer = after.map_or(0, |after| agent.attempt_number.saturating_sub(after) as usize + 1);
    let limit_all = newer.saturating_add(limit + 1).min(LOOKED_THROUGH_MAX);
    let query = AttemptQuery { agent: Some(agent.name), ended: true, limit: limit_all };
    let attempts = app.backend.engine.store().attempts(query).await?;
    let is_wanted = |death: &Death| after.is_none_or(|after| death.number < after);
    let found: Vec<Death> = attempts.into_iter().filter_map(Death::of).filter(is_wanted).collect();
    Ok(Answer(List::cut(found, limit, |death| death.number.to_string(), |death| death)))
}

fn number(text: &str) -> Result<u32, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("{text:?} is no place in this list")))
}

/// Which attempts.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WhichAttempts {
    /// Only those that lived after this time.
    since: Option<String>,
    /// Only of this agent.
    agent: Option<String>,
    /// At most so many, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<usize>,
}

/// Attempts for a timeline, newest first.
#[utoipa::path(get, path = "/api/attempts", tag = "agents", params(WhichAttempts),
    responses((status = 200, body = List<wire::attempt::Attempt>), (status = 422, body = ProblemBody)))]
pub(super) async fn attempts(
    State(app): State<App>,
    Asked(which): Asked<WhichAttempts>,
) -> Result<Answer<List<wire::attempt::Attempt>>, ApiError> {
    let limit = Page { limit: which.limit.or(Some(1_000)), after: None }.limit()?;
    let since: Option<Time> = which.since.as_deref().map(str::parse).transpose()?;
    let agent = which.agent.map(AgentName::new).transpose()?;
    let query = AttemptQuery { agent, ended: false, limit: LOOKED_THROUGH_MAX.min(limit * 4) };
    let found = app.backend.engine.store().attempts(query).await?;
    let shown = found.into_iter().map(wire::attempt::Attempt::from);
    let lived_since = |attempt: &wire::attempt::Attempt| {
        since.is_none_or(|since| attempt.ended_at.is_none_or(|ended| ended >= since))
    };
    Ok(Answer(List { items: shown.filter(lived_since).take(limit).collect(), next: None }))
}
