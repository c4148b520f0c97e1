//! `/metrics`: the whole as numbers, in the text form that Prometheus reads. Few series, whatever the
//! number of agents.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use relight::doors::clock;
use relight_core::agent::{AgentStateKind, Cause};
use relight_core::status::TaskStatus;
use relight_store::AgentQuery;

use super::stats::named;
use crate::VERSION;
use crate::app::App;
use crate::error::ApiError;
use crate::pulse::{BOUNDS_MS, Totals};

/// The whole as numbers, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "daemon",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let store = app.backend.engine.store();
    let totals = app.pulse.now(store.as_ref()).await?.totals;
    let inventory = store.inventory(false).await?;
    let mut page = Page::default();
    page.head("info", "gauge", "The daemon's version.");
    page.line("info", &[("version", VERSION)], 1);
    let agents = named(&inventory.agents);
    page.head("agents", "gauge", "Agents by state.");
    for kind in AgentStateKind::ALL {
        let count = agents.get(kind.as_str()).copied().unwrap_or(0);
        page.line("agents", &[("state", kind.as_str())], count);
    }
    let tasks = named(&inventory.tasks);
    page.head("tasks", "gauge", "Tasks by status.");
    for status in TaskStatus::ALL {
        let count = tasks.get(status.as_str()).copied().unwrap_or(0);
        page.line("tasks", &[("status", status.as_str())], count);
    }
    page.head("sessions", "gauge", "Sessions by state.");
    for (state, count) in named(&inventory.sessions) {
        page.line("sessions", &[("state", &state)], count);
    }
    page.head("tasks_in_doubt", "gauge", "Tasks with a step begun and not ended.");
    page.line("tasks_in_doubt", &[], inventory.in_doubt);
    page.totals(&totals);
    page.head("heartbeat_age_seconds", "gauge", "The longest silence among running agents.");
    page.line("heartbeat_age_seconds", &[], seconds(app.longest_silence_ms().await?));
    page.head("store_bytes", "gauge", "Bytes of the store on disk.");
    page.line("store_bytes", &[], inventory.bytes);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page.0).into_response())
}

impl App {
    async fn longest_silence_ms(&self) -> Result<u64, ApiError> {
        let states = vec![AgentStateKind::Running];
        let query = AgentQuery { states, ..AgentQuery::default() };
        let now = clock::now();
        let mut longest = 0;
        for agent in self.backend.engine.store().agents(query).await? {
            let sign = self.backend.beats.view(&agent.name).and_then(|view| view.last_sign);
            longest = longest.max(sign.map_or(0, |sign| now.since(sign).as_ms()));
        }
        Ok(longest)
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// The page so far.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP relight_{name} {help}\n# TYPE relight_{name} {kind}");
    }

    /// Values of labels are our own words: nothing in them has to be escaped.
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "relight_{name}{labels} {value}");
    }

    fn totals(&mut self, totals: &Totals) {
        self.head("attempts_total", "counter", "Attempts begun since the daemon started.");
        self.line("attempts_total", &[], totals.attempts);
        self.head("deaths_total", "counter", "Attempts that ended, by cause.");
        for cause in Cause::ALL {
            let count = totals.deaths.get(cause.as_str()).copied().unwrap_or(0);
            self.line("deaths_total", &[("cause", cause.as_str())], count);
        }
        self.head("recoveries_total", "counter", "Agents brought back after a death.");
        self.line("recoveries_total", &[("outcome", "started")], totals.recoveries);
        self.head("recovery_duration_seconds", "histogram", "From a death to the next start.");
        for (bound, count) in BOUNDS_MS.iter().zip(totals.within) {
            let bound = seconds(*bound);
            self.line("recovery_duration_seconds_bucket", &[("le", &bound)], count);
        }
        let all = totals.within[BOUNDS_MS.len()];
        self.line("recovery_duration_seconds_bucket", &[("le", "+Inf")], all);
        self.line("recovery_duration_seconds_sum", &[], seconds(totals.recovery_ms));
        self.line("recovery_duration_seconds_count", &[], all);
        self.head("steps_total", "counter", "Steps finished.");
        self.line("steps_total", &[], totals.steps);
        self.head("alerts_total", "counter", "Alerts raised.");
        self.line("alerts_total", &[], totals.alerts);
    }
}
