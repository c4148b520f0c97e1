//! Steps: begun before they act, ended after, and resolved by a person in between.

use std::num::NonZeroU32;

use axum::Extension;
use axum::extract::State;
use relight_core::ids::{StepName, TaskId};
use relight_runtime::operations::Written;
use relight_runtime::operations::step::{
    Advice, StepBegin, StepClosed, StepEnd, StepResolve, StepSkip,
};
use relight_runtime::operations::view::StepWithOutput;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident $path:literal $request:ident => $answer:ident;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "steps",
            params(("id" = String, Path), ("name" = String, Path)), request_body = $request,
            responses((status = 200, body = Written<$answer>), (status = 404),
                (status = 409), (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            Named((id, name)): Named<(String, String)>,
            Given(given): Given<Map<String, Value>>,
        ) -> Result<Answer<Written<$answer>>, ApiError> {
            app.operate::<$request>(&caller, [("task", id), ("step", name)], given).await
        }
    )*};
}

/// Which of the steps with this name.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichStep {
    /// Its occurrence, from 1.
    #[cfg_attr(test, param(value_type = Option<u32>, minimum = 1, default = 1))]
    occurrence: Option<NonZeroU32>,
}

/// A step and what it wrote.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks/{id}/steps/{name}", tag = "steps",
    params(("id" = String, Path), ("name" = String, Path), WhichStep),
    responses((status = 200, body = StepWithOutput), (status = 404), (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named((id, name)): Named<(String, String)>,
    Asked(which): Asked<WhichStep>,
) -> Result<Answer<StepWithOutput>, ApiError> {
    let (id, name) = (TaskId::new(id)?, StepName::new(name)?);
    let context = app.context();
    let found = context
        .show_step(&id, name.clone(), which.occurrence)
        .await?;
    found.map(Answer).ok_or_else(|| {
        ApiError::not_found(format!("task {id} has no step {name}"))
            .hint(format!("relight step list --task {id}"))
    })
}

verbs! {
    /// Begins a step; the answer says what to do.
    begin "/api/tasks/{id}/steps/{name}/begin" StepBegin => Advice;
    /// Ends a step. A finished step is not changed.
    end "/api/tasks/{id}/steps/{name}/end" StepEnd => StepClosed;
    /// Records whether a step in doubt happened.
    resolve "/api/tasks/{id}/steps/{name}/resolve" StepResolve => StepClosed;
    /// Closes a step without doing it; it no longer keeps its task open.
    skip "/api/tasks/{id}/steps/{name}/skip" StepSkip => StepClosed;
}
