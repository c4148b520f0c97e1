//! Steps: begun before they act, ended after, and resolved by a person in between.

use axum::extract::State;
use relight_runtime::operations::Written;
use relight_runtime::operations::step::{
    Advice, StepBegin, StepClosed, StepEnd, StepResolve, StepSkip,
};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident $path:literal $request:ident => $answer:ident;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "steps",
            params(("id" = String, Path), ("name" = String, Path)), request_body = $request,
            responses((status = 200, body = Written<$answer>), (status = 404),
                (status = 409), (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Named((id, name)): Named<(String, String)>,
            Given(given): Given<Map<String, Value>>,
        ) -> Result<Answer<Written<$answer>>, ApiError> {
            app.operate::<$request>([("task", id), ("step", name)], given).await
        }
    )*};
}

verbs! {
    /// A step is about to act: what to do with it.
    begin "/api/tasks/{id}/steps/{name}/begin" StepBegin => Advice;
    /// A step has acted. One that was finished before stays as it is.
    end "/api/tasks/{id}/steps/{name}/end" StepEnd => StepClosed;
    /// A person knows what became of a step in doubt.
    resolve "/api/tasks/{id}/steps/{name}/resolve" StepResolve => StepClosed;
    /// A step is not to be done: it is closed, and no longer keeps its task from being done.
    skip "/api/tasks/{id}/steps/{name}/skip" StepSkip => StepClosed;
}
