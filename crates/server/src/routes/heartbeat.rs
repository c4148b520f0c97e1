//! Signs of life: cheap, with no write to disk.

use axum::extract::State;
use relight_core::agent::plain::{clipped, plain_line};
use relight_core::ids::{AgentName, TaskId};
use relight_runtime::engine::ActError;
use relight_runtime::os::clock;
use relight_runtime::supervise::heartbeats::Beat;
use relight_runtime::supervise::reporters::{Belief, HeartbeatAnswer, ReportError};

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};
use crate::wire::agent::Heartbeat;

const STATUS_BYTES_MAX: usize = 1024;
/// More of a status is not looked at.
const STATUS_READ_BYTES_MAX: usize = 8 * 1024;

/// A sign of life of an agent, which renews its leases. The first one of an agent that reports by itself
/// makes it `running`; the answer says what it has to do.
#[cfg_attr(test, utoipa::path(post, path = "/api/agents/{name}/heartbeat", tag = "agents",
    params(("name" = String, Path)), request_body = Heartbeat,
    responses((status = 200, body = HeartbeatAnswer), (status = 404), (status = 409),
        (status = 422))))]
pub(super) async fn beat(
    State(app): State<App>,
    Named(name): Named<String>,
    Given(given): Given<Heartbeat>,
) -> Result<Answer<HeartbeatAnswer>, ApiError> {
    hear(&app, AgentName::new(name)?, given).await.map(Answer)
}

/// Takes note of it, wherever the agent is known.
pub(crate) async fn hear(
    app: &App,
    name: AgentName,
    mut given: Heartbeat,
) -> Result<HeartbeatAnswer, ApiError> {
    let task = given.task.take().map(TaskId::new).transpose()?;
    let belief = Belief {
        attempt: given.attempt,
        task,
    };
    let beat = read(app, given)?;
    let reporters = &app.backend.reporters;
    if !app.backend.beats.beat(&name, beat.clone()) && !app.signs.heard(&name, &beat) {
        match app.backend.engine.store().agent(&name).await? {
            None => return Err(ActError::NoSuchAgent(name).into()),
            Some(agent) if agent.plan.reports_itself() => reporters.report(&name, beat).await?,
            Some(agent) => match app.far_node(&agent).await? {
                // Taken here it would be lost: only its supervisor judges its silence.
                Some(node) => {
                    return Err(
                        ApiError::conflict(format!("agent {name} is on node {node}")).hint(
                            "it beats on that machine, at the socket that RELIGHT_SOCKET names",
                        ),
                    );
                }
                None => app.signs.first(name.clone(), beat),
            },
        }
    }
    Ok(reporters.answer(&name, belief).await?)
}

impl App {
    /// An agent takes work: where it reports by itself, that is a report. Others are left alone.
    pub(crate) async fn reported(&self, agent: &AgentName) -> Result<(), ApiError> {
        let reporters = &self.backend.reporters;
        if reporters.worked(agent) {
            return Ok(());
        }
        match reporters.report(agent, Beat::default()).await {
            Err(ReportError::Unknown(_) | ReportError::NotReporting(_)) => Ok(()),
            reported => Ok(reported?),
        }
    }
}

fn read(app: &App, given: Heartbeat) -> Result<Beat, ApiError> {
    let waiting_until = match given.waiting_until {
        Some(text) => Some(super::waiting_until(&text, clock::now())?),
        None => None,
    };
    let status = given.status.map(|text| {
        // Cut to size last: half a secret is not recognised as one.
        let plain = clipped(&plain_line(&text), STATUS_READ_BYTES_MAX);
        clipped(
            &app.backend.engine.redactor().text(&plain),
            STATUS_BYTES_MAX,
        )
    });
    Ok(Beat {
        waiting_until,
        status,
    })
}
