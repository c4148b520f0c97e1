//! What a task's holder or a person says of it: each verb is an operation.

use axum::extract::State;
use relight_core::lease::Holder;
use relight_core::task;
use relight_runtime::operations::task::{
    Failed, TaskBlock, TaskCancel, TaskDefer, TaskDone, TaskFail, TaskRelease, TaskRetry,
    TaskReview, TaskSet, TaskSpend,
};
use relight_runtime::operations::view::Task;
use relight_runtime::operations::{Context, Operation, Written, read};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident $path:literal $request:ident;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "tasks", params(("id" = String, Path)),
            request_body = $request,
            responses((status = 200, body = Written<Task>), (status = 404),
                (status = 409), (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Named(id): Named<String>,
            Given(given): Given<Map<String, Value>>,
        ) -> Result<Answer<Written<Task>>, ApiError> {
            app.operate::<$request>([("task", id)], given).await
        }
    )*};
}

verbs! {
    /// It is finished; refused while declared steps are open, unless by force.
    done "/api/tasks/{id}/done" TaskDone;
    /// It is done and waits for a second look.
    review "/api/tasks/{id}/review" TaskReview;
    /// It cannot continue before a person acts; an alert is sent.
    block "/api/tasks/{id}/block" TaskBlock;
    /// It continues later.
    defer "/api/tasks/{id}/defer" TaskDefer;
    /// It is not wanted any more.
    cancel "/api/tasks/{id}/cancel" TaskCancel;
    /// Gives it to somebody again.
    retry "/api/tasks/{id}/retry" TaskRetry;
    /// Gives it back.
    release "/api/tasks/{id}/release" TaskRelease;
    /// Adds context for a successor.
    set "/api/tasks/{id}/set" TaskSet;
    /// Adds to what it has cost.
    spend "/api/tasks/{id}/spend" TaskSpend;
}

/// It went wrong: its strategy is asked what becomes of it.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/fail", tag = "tasks", params(("id" = String, Path)),
    request_body = TaskFail,
    responses((status = 200, body = Written<Failed>), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn fail(
    State(app): State<App>,
    Named(id): Named<String>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Answer<Written<Failed>>, ApiError> {
    let request: TaskFail = read(with_path([("task", id)], given)?)?;
    let written = request.run(&app.context(), &app.backend.recoverer).await?;
    app.worked(&written.task);
    Ok(Answer(written))
}

impl App {
    /// What operations work with.
    pub(crate) fn context(&self) -> Context {
        Context {
            engine: self.backend.engine.clone(),
            home: self.backend.home.clone(),
        }
    }

    /// Runs the operation that a request asks for; the path names what it is done to.
    pub(super) async fn operate<O: Operation>(
        &self,
        path: impl IntoIterator<Item = (&'static str, String)>,
        given: Map<String, Value>,
    ) -> Result<Answer<Written<O::Answer>>, ApiError> {
        let request: O = read(with_path(path, given)?)?;
        let written = request.run(&self.context()).await?;
        self.worked(&written.task);
        Ok(Answer(written))
    }

    /// A holder that writes lives; whoever only looks at it, or takes it away, has ended its lease.
    pub(crate) fn worked(&self, task: &task::Task) {
        let holder = task.lease.held.as_ref().map(|held| &held.holder);
        if let (Some(agent), Some(Holder::Time { .. })) = (&task.agent, holder) {
            self.backend.reporters.worked(agent);
        }
    }
}

/// The names of the path as fields of the body; said again there they must not differ.
pub(super) fn with_path(
    path: impl IntoIterator<Item = (&'static str, String)>,
    mut given: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    for (field, name) in path {
        let name = Value::String(name);
        if given.get(field).is_some_and(|said| *said != name) {
            return Err(ApiError::invalid(format!(
                "the {field} of the body is not the path's"
            )));
        }
        given.insert(field.to_owned(), name);
    }
    Ok(given)
}
