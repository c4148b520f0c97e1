//! What a task's holder or a person says of it.

use axum::extract::State;
use relight::os::clock;
use relight_core::decide::TaskEvent;
use relight_core::ids::{AgentName, TaskId};

use super::moment;
use super::tasks::right;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};
use crate::wire::task::{Task, TaskVerb};

macro_rules! verb {
    ($(#[$doc:meta])* $name:ident, $path:literal) => {
        $(#[$doc])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "tasks", params(("id" = String, Path)),
            request_body = TaskVerb,
            responses((status = 200, body = Task), (status = 404),
                (status = 409), (status = 422))))]
        pub(super) async fn $name(
            State(app): State<App>,
            Named(id): Named<String>,
            Given(given): Given<TaskVerb>,
        ) -> Result<Answer<Task>, ApiError> {
            app.act(TaskId::new(id)?, given, stringify!($name)).await
        }
    };
}

verb!(
    /// It is finished; refused while declared steps are open, unless by force.
    done, "/api/tasks/{id}/done"
);
verb!(
    /// It went wrong: its strategy is asked what becomes of it.
    fail, "/api/tasks/{id}/fail"
);
verb!(
    /// It cannot go on before a person acts.
    block, "/api/tasks/{id}/block"
);
verb!(
    /// It goes on later.
    defer, "/api/tasks/{id}/defer"
);
verb!(
    /// It is not wanted any more.
    cancel, "/api/tasks/{id}/cancel"
);
verb!(
    /// Gives it to somebody again.
    retry, "/api/tasks/{id}/retry"
);
verb!(
    /// Gives it back.
    release, "/api/tasks/{id}/release"
);

impl App {
    async fn act(
        &self,
        id: TaskId,
        given: TaskVerb,
        verb: &'static str,
    ) -> Result<Answer<Task>, ApiError> {
        let right = right(given.fence);
        let engine = &self.backend.engine;
        if verb == "fail" {
            let reason = given.reason.unwrap_or_default();
            self.backend.recoverer.fail(&id, right, &reason).await?;
        } else {
            engine.act(&id, right, event(given, verb)?).await?;
        }
        self.refresh(&id).await;
        Ok(Answer(engine.task(&id).await?.into()))
    }
}

fn event(given: TaskVerb, verb: &'static str) -> Result<TaskEvent, ApiError> {
    Ok(match verb {
        "done" => TaskEvent::Done { force: given.force },
        "block" => TaskEvent::Block { reason: given.reason.unwrap_or_default(), is_told: false },
        "defer" => {
            let until = given.until.ok_or_else(|| {
                ApiError::invalid("defer needs `until`").hint("a time, or a duration such as 10m")
            })?;
            TaskEvent::Defer { until: moment(&until, clock::now())?, reason: given.reason }
        }
        "cancel" => TaskEvent::Cancel { reason: given.reason },
        "retry" => {
            let agent = given.agent.map(AgentName::new).transpose()?;
            TaskEvent::Retry { agent, force: given.force }
        }
        "release" => TaskEvent::Release { force: given.force },
        other => return Err(ApiError::internal(format!("the verb {other} is not known"))),
    })
}
