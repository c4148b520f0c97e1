//! `/metrics`: the whole as numbers. Few series, whatever the number of agents.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use relight_core::agent::{AgentStateKind, Cause};
use relight_core::node::NodeState;
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use relight_runtime::meter::{STEP_BOUNDS_US, Times};
use relight_runtime::os::clock;
use relight_store::Inventory;

use super::stats::{by_state, named};
use crate::VERSION;
use crate::app::App;
use crate::error::ApiError;
use crate::metrics::page::{Buckets, MetricsPage, seconds, seconds_of_us};
use crate::metrics::{
    AGENTS, ALERTS, ATTEMPTS, BUILD, DEATHS, DRAINING, HEARTBEAT_AGE, HEARTBEAT_AGENTS, HELD_BACK,
    HTTP_REQUESTS, IN_DOUBT, NODES, RECOVERIES, RECOVERY_DURATION, SESSIONS, SSE_WATCHERS, STARTED,
    STEP_COMMIT, STEPS, STORE_BYTES, STORE_EVENTS, TASK_RECOVERIES, TASKS,
};
use crate::statistics::{BOUNDS_MS, TASK_OUTCOMES, Totals};

/// Agents that are named.
const AGENTS_NAMED_MAX: usize = 100;

/// Metrics for Prometheus.
#[cfg_attr(test, utoipa::path(get, path = "/metrics", tag = "daemon",
    responses((status = 200, body = String, content_type = "text/plain"))))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let store = app.backend.engine.store();
    let totals = app.statistics.now(store.as_ref()).await?.totals;
    let inventory = store.inventory(false).await?;
    let is_draining = relight_runtime::drain::now(store.as_ref()).await?.is_some();
    let mut page = MetricsPage::default();
    page.each(&BUILD, [(VERSION, 1)]);
    page.one(&STARTED, seconds(app.started_at.as_ms().unsigned_abs()));
    of_agents(&mut page, &inventory, &totals);
    heartbeats(&mut page, &app);
    of_work(&mut page, &inventory, &totals);
    page.histogram(
        &STEP_COMMIT,
        &step_buckets(&app.backend.engine.meter().step_commits()),
    );
    let sessions = named(&inventory.sessions);
    let count = |word: &str| sessions.get(word).copied().unwrap_or(0);
    page.each(
        &SESSIONS,
        SessionStateKind::ALL.map(|kind| (kind.as_str(), count(kind.as_str()))),
    );
    page.each(&ALERTS, alerts(&app, &totals));
    let nodes = by_state(&store.nodes().await?);
    let count = |state: NodeState| nodes.get(state.as_str()).copied().unwrap_or(0);
    page.each(
        &NODES,
        NodeState::ALL.map(|state| (state.as_str(), count(state))),
    );
    page.one(&DRAINING, u8::from(is_draining));
    page.one(
        &HELD_BACK,
        u8::from(app.backend.held_back.load(Ordering::Relaxed)),
    );
    page.each(&HTTP_REQUESTS, app.traffic.counts());
    page.one(&SSE_WATCHERS, app.journal.watchers());
    page.one(&STORE_BYTES, inventory.bytes);
    page.one(&STORE_EVENTS, inventory.events);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page.text()).into_response())
}

fn of_agents(page: &mut MetricsPage, inventory: &Inventory, totals: &Totals) {
    let agents = named(&inventory.agents);
    let count = |kind: AgentStateKind| agents.get(kind.as_str()).copied().unwrap_or(0);
    page.each(
        &AGENTS,
        AgentStateKind::ALL.map(|kind| (kind.as_str(), count(kind))),
    );
    page.one(&ATTEMPTS, totals.attempts);
    let died = |cause: Cause| totals.deaths.get(cause.as_str()).copied().unwrap_or(0);
    page.each(
        &DEATHS,
        Cause::ALL.map(|cause| (cause.as_str(), died(cause))),
    );
    let outcomes = [
        ("started", totals.recoveries),
        ("terminated", totals.terminations),
    ];
    page.each(&RECOVERIES, outcomes);
    let bounds = BOUNDS_MS.iter().map(|bound| seconds(*bound));
    let within: Vec<(String, u64)> = bounds.zip(totals.within).collect();
    let count = totals.within[BOUNDS_MS.len()];
    let sum = seconds(totals.recovery_ms);
    page.histogram(&RECOVERY_DURATION, &Buckets { within, count, sum });
}

/// Of those that this daemon hears; who is silent for longest is named first.
fn heartbeats(page: &mut MetricsPage, app: &App) {
    let now = clock::now();
    let views = app
        .backend
        .beats
        .views()
        .into_iter()
        .filter(|view| view.phase.is_some());
    let mut ages: Vec<(String, u64)> = views
        .filter_map(|view| {
            Some((
                view.agent.name.to_string(),
                now.since(view.last_sign?).as_ms(),
            ))
        })
        .collect();
    let heard = ages.len();
    ages.sort_by_key(|(_, age_ms)| std::cmp::Reverse(*age_ms));
    ages.truncate(AGENTS_NAMED_MAX);
    page.each(
        &HEARTBEAT_AGE,
        ages.into_iter()
            .map(|(name, age_ms)| (name, seconds(age_ms))),
    );
    page.one(&HEARTBEAT_AGENTS, heard);
}

fn of_work(page: &mut MetricsPage, inventory: &Inventory, totals: &Totals) {
    let tasks = named(&inventory.tasks);
    let count = |status: TaskStatus| tasks.get(status.as_str()).copied().unwrap_or(0);
    page.each(
        &TASKS,
        TaskStatus::ALL.map(|status| (status.as_str(), count(status))),
    );
    page.one(&IN_DOUBT, inventory.in_doubt);
    let became = |outcome: &str| totals.task_recoveries.get(outcome).copied().unwrap_or(0);
    page.each(
        &TASK_RECOVERIES,
        TASK_OUTCOMES.map(|outcome| (outcome, became(outcome))),
    );
    page.one(&STEPS, totals.steps);
}

fn alerts(app: &App, totals: &Totals) -> [(&'static str, u64); 4] {
    let meter = app.backend.engine.meter();
    [
        ("raised", totals.alerts),
        ("sent", meter.alerts_sent()),
        ("refused", meter.alerts_refused()),
        ("undelivered", totals.undelivered),
    ]
}

fn step_buckets(times: &Times) -> Buckets {
    let bounds = STEP_BOUNDS_US.iter().map(|bound| seconds_of_us(*bound));
    let within: Vec<(String, u64)> = bounds.zip(times.within).collect();
    Buckets {
        within,
        count: times.count,
        sum: seconds_of_us(times.sum_us),
    }
}
