//! What an agent wrote last: without secrets, and without what a terminal obeys.

use axum::Extension;
use axum::extract::State;
use relight_core::agent::Agent;
use relight_core::agent::plain::plain_line;
use relight_core::ids::{AgentName, NodeName};
use relight_runtime::fleet::far_log;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::log::{AgentLog, LogPosition};
use serde::Deserialize;

use crate::answer::Answer;
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::{Asked, Named};
use crate::wire::agent::Logs;

const LINES_DEFAULT: usize = 200;
const LINES_MAX: usize = 5_000;
/// All lines together; the last ones are kept.
const BYTES_MAX: usize = 2 << 20;

/// How much.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct HowMuch {
    /// The last so many lines, 1 to 5000.
    #[cfg_attr(test, param(minimum = 1, maximum = 5000, default = 200))]
    lines: Option<usize>,
}

/// The last lines of an agent's output, over all its attempts. In a fleet those of the node that its
/// newest attempt is on; where that cannot be reached, what the store has of them, with a note.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents/{name}/logs", tag = "agents",
    params(("name" = String, Path), HowMuch),
    responses((status = 200, body = Logs), (status = 404),
        (status = 422))))]
pub(super) async fn logs(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Asked(how_much): Asked<HowMuch>,
) -> Result<Answer<Logs>, ApiError> {
    let count = how_much.lines.unwrap_or(LINES_DEFAULT);
    if !(1..=LINES_MAX).contains(&count) {
        return Err(ApiError::invalid(format!(
            "lines is {count}; write 1 to {LINES_MAX}"
        )));
    }
    let agent = app.agent(&AgentName::new(name)?).await?;
    // Whoever comes from another node wants what is here.
    if caller.via != Via::Node
        && app.backend.node.is_some()
        && let Some(node) = far_log::node_of(app.backend.engine.store().as_ref(), &agent).await?
    {
        return app.far_log(&agent, &node, count).await.map(Answer);
    }
    app.own_log(&agent, count).await.map(Answer)
}

impl App {
    async fn own_log(&self, agent: &Agent, count: usize) -> Result<Logs, ApiError> {
        let folder = AgentFolder::of(&self.backend.home, &agent.name);
        // One more than wanted tells whether there are more.
        let read = move || AgentLog::of(&folder).last_lines(count + 1, LogPosition::START);
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(|error| ApiError::internal(error.to_string()))?;
        let found = match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|error| ApiError::internal(error.to_string()))?,
        };
        let lines = found
            .iter()
            .map(|line| String::from_utf8_lossy(&line.bytes).into_owned());
        let lines: Vec<String> = lines.collect();
        let node = self.backend.node_name();
        Ok(self.shown_log(agent, &lines, count, node))
    }

    /// Of another node, as far as it or the store can tell.
    async fn far_log(
        &self,
        agent: &Agent,
        node: &NodeName,
        count: usize,
    ) -> Result<Logs, ApiError> {
        let far = far_log::read(self.backend.engine.store().as_ref(), agent, node, count).await?;
        let shown = self.shown_log(agent, &far.lines, count, Some(far.node.to_string()));
        Ok(Logs {
            truncated: shown.truncated || far.truncated,
            note: far.note,
            ..shown
        })
    }

    /// The last so many lines, harmless to read.
    fn shown_log(
        &self,
        agent: &Agent,
        found: &[String],
        count: usize,
        node: Option<String>,
    ) -> Logs {
        let plain: Vec<String> = found.iter().map(|line| plain_line(line)).collect();
        // Redacted after cleaning, for colours may stand in the middle of a secret.
        let text = self
            .backend
            .engine
            .redactor()
            .text(&plain.join("\n"))
            .into_owned();
        let mut lines: Vec<String> = match plain.is_empty() {
            true => Vec::new(),
            false => text.split('\n').map(str::to_owned).collect(),
        };
        let mut truncated = lines.len() > count;
        lines.drain(..lines.len().saturating_sub(count));
        while lines.iter().map(String::len).sum::<usize>() > BYTES_MAX {
            lines.remove(0);
            truncated = true;
        }
        Logs {
            agent: agent.name.to_string(),
            lines,
            truncated,
            node,
            note: None,
        }
    }
}
