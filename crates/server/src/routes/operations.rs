//! Every operation by its name: for what has no route of its own, and for clients that know only names.

use axum::Extension;
use axum::extract::State;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_runtime::operations::read;
use relight_runtime::operations::table::{HttpCaller, OperationCaller, only_reads};
use serde_json::{Map, Value, json};

use super::{claim, daemon, tasks};
use crate::answer::Answer;
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::{Given, Named};

/// Where checkpoint files are, below the home, unless a local caller names a folder.
const CHECKPOINTS: &str = "checkpoints";

/// An operation by its name, with its fields as the body: the answer is the JSON of the command line. The
/// answer is `nothing` if there is no work to claim.
#[cfg_attr(test, utoipa::path(post, path = "/api/operations/{name}", tag = "operations",
    params(("name" = inline(super::OperationName), Path, description = "The operation.")),
    request_body = Object,
    responses((status = 200, body = Object), (status = 404), (status = 409), (status = 422))))]
pub(super) async fn call(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Given(mut given): Given<Map<String, Value>>,
) -> Result<Answer<Value>, ApiError> {
    // For these the daemon does more than the operation: their routes do it.
    match name.as_str() {
        "task.start" => {
            let Some(Value::String(id)) = given.remove("task") else {
                return Err(ApiError::invalid("missing field `task`"));
            };
            let started = tasks::start(State(app), Extension(caller), Named(id), Given(given));
            return Ok(Answer(json!(started.await?.0)));
        }
        "task.claim" => {
            let (claimed, agent) = claim::take(&app, &caller, given).await?;
            let nothing =
                || ApiError::new(ErrorCode::NOTHING, format!("there is no task for {agent}"));
            return Ok(Answer(json!(claimed.ok_or_else(nothing)?)));
        }
        "recover" => {
            return daemon::recover(State(app), Given(read(given)?)).await;
        }
        _ => {}
    }
    let mut subject = ["task", "workflow"].into_iter();
    let subject = subject.find_map(|field| given.get(field)?.as_str().map(str::to_owned));
    let called = app.operations(&caller).await?.call(&name, given).await;
    let answer = called.map_err(told)?;
    if !only_reads(&name)
        && let Some(id) = subject.and_then(|id| TaskId::new(id).ok())
        && let Some(task) = app.backend.engine.store().task(&id).await?
    {
        app.worked(&task);
    }
    Ok(Answer(answer))
}

/// What is inside of an error stays inside.
fn told(refused: Refused) -> ApiError {
    match refused.code {
        ErrorCode::IO | ErrorCode::FULL | ErrorCode::STORE_UNAVAILABLE => {
            let message = "the store cannot be read or written now; nothing was acknowledged";
            let mut told = ApiError::new(ErrorCode::STORE_UNAVAILABLE, message).hint("try again");
            told.inside = Some(refused.message);
            told
        }
        ErrorCode::INVALID_DATA | ErrorCode::CONFIG => ApiError::internal(refused.message),
        _ => refused.into(),
    }
}

impl App {
    async fn operations(&self, caller: &Caller) -> Result<OperationCaller, ApiError> {
        let context = self.context_of(caller).await?;
        Ok(OperationCaller {
            checkpoints: Some(context.home.join(CHECKPOINTS)),
            context,
            recoverer: self.backend.recoverer.clone(),
            holder: Holder::over_http(&caller.id),
            user: caller.id.clone(),
            agent: caller.acting_agent(),
            task: None,
            sessions: self.backend.sessions,
            presets: None,
            over_http: Some(HttpCaller {
                attempt: caller.attempt.clone(),
                is_local: caller.via == Via::Socket,
            }),
        })
    }
}
