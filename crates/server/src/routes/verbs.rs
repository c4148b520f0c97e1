//! What a task's holder or a person says of it: each verb is an operation.

use axum::Extension;
use axum::extract::State;
use relight_core::lease::Holder;
use relight_core::task;
use relight_runtime::holders::of_attempt;
use relight_runtime::operations::task::{
    Failed, TaskBlock, TaskCancel, TaskDefer, TaskDone, TaskFail, TaskRelease, TaskRetry,
    TaskReview, TaskSet, TaskSpend,
};
use relight_runtime::operations::view::TaskView;
use relight_runtime::operations::{Context, Operation, Written, read};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Given, Named};

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident $path:literal $request:ident;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "tasks", params(("id" = String, Path)),
            request_body = $request,
            responses((status = 200, body = Written<TaskView>), (status = 404),
                (status = 409), (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            Named(id): Named<String>,
            Given(given): Given<Map<String, Value>>,
        ) -> Result<Answer<Written<TaskView>>, ApiError> {
            app.operate::<$request>(&caller, [("task", id)], given).await
        }
    )*};
}

verbs! {
    /// It is finished; refused while declared steps are open, unless by force.
    done "/api/tasks/{id}/done" TaskDone;
    /// Marks the task as done; it waits for a review.
    review "/api/tasks/{id}/review" TaskReview;
    /// It cannot continue before a person acts; an alert is sent.
    block "/api/tasks/{id}/block" TaskBlock;
    /// It continues later.
    defer "/api/tasks/{id}/defer" TaskDefer;
    /// Cancels the task.
    cancel "/api/tasks/{id}/cancel" TaskCancel;
    /// Assigns the task again.
    retry "/api/tasks/{id}/retry" TaskRetry;
    /// Releases the lease.
    release "/api/tasks/{id}/release" TaskRelease;
    /// Adds context for a successor.
    set "/api/tasks/{id}/set" TaskSet;
    /// Adds to what it has cost.
    spend "/api/tasks/{id}/spend" TaskSpend;
}

/// Records that it failed; its strategy decides what happens next.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/fail", tag = "tasks", params(("id" = String, Path)),
    request_body = TaskFail,
    responses((status = 200, body = Written<Failed>), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn fail(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Answer<Written<Failed>>, ApiError> {
    let request: TaskFail = read(with_path([("task", id)], given)?)?;
    let context = app.context_of(&caller).await?;
    let written = request.run(&context, &app.backend.recoverer).await?;
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

    /// The same for a caller that may act for an agent: core refuses it the tasks of others. An attempt may
    /// be faster than the record of its start, with which its predecessor's hold ends; that is waited for.
    pub(crate) async fn context_of(&self, caller: &Caller) -> Result<Context, ApiError> {
        let context = self.context();
        if let Some(attempt) = &caller.attempt {
            of_attempt(context.engine.store().as_ref(), attempt).await?;
        }
        Ok(Context {
            engine: context.engine.with_caller(caller.acting_agent()),
            ..context
        })
    }

    /// Runs the operation that a request asks for; the path names what it is done to.
    pub(super) async fn operate<O: Operation>(
        &self,
        caller: &Caller,
        path: impl IntoIterator<Item = (&'static str, String)>,
        given: Map<String, Value>,
    ) -> Result<Answer<Written<O::Answer>>, ApiError> {
        let request: O = read(with_path(path, given)?)?;
        let written = request.run(&self.context_of(caller).await?).await?;
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
