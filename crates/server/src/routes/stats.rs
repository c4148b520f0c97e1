//! The whole at a glance, and what waits for a person.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::extract::State;
use relight::doors::clock;
use relight_core::agent::{AgentState, AgentStateKind};
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{AgentQuery, SessionQuery, TaskQuery};

use crate::VERSION;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::given::Asked;
use crate::pulse::{Counts, HOURS_MAX, hour, hour_of, minute};
use crate::wire::problem::ProblemBody;
use crate::wire::stats::{
    DeathsOfHour, NeedsMe, RecoveriesOfHour, Stats, StepsOfMinute, TimeToRecover, WhichHours,
};

/// Of each kind of thing that waits for a person, so many are listed.
const NEEDS_MAX: usize = 100;
const HOURS_DEFAULT: u32 = 24;

/// The whole at a glance: counts, the last hours, and what waits for a person.
#[utoipa::path(get, path = "/api/stats", tag = "daemon", params(WhichHours),
    responses((status = 200, body = Stats), (status = 422, body = ProblemBody)))]
pub(super) async fn stats(
    State(app): State<App>,
    Asked(which): Asked<WhichHours>,
) -> Result<Answer<Stats>, ApiError> {
    let hours = which.hours.unwrap_or(HOURS_DEFAULT);
    if !(1..=HOURS_MAX).contains(&hours) {
        return Err(ApiError::invalid(format!("hours is {hours}; write 1 to {HOURS_MAX}")));
    }
    let store = app.backend.engine.store();
    let counts = app.pulse.now(store.as_ref()).await?;
    let inventory = store.inventory(false).await?;
    let now = clock::now();
    let oldest = hour_of(now) - i64::from(hours) + 1;
    Ok(Answer(Stats {
        now,
        version: VERSION.to_owned(),
        node: app.backend.node.clone(),
        draining: relight::drain::now(store.as_ref()).await?.is_some(),
        held_back: app.backend.held_back.load(Ordering::Relaxed),
        agents: named(&inventory.agents),
        tasks: named(&inventory.tasks),
        sessions: named(&inventory.sessions),
        in_doubt: inventory.in_doubt,
        deaths_per_hour: deaths(&counts, oldest),
        recoveries_per_hour: recoveries(&counts, oldest),
        time_to_recover_ms: time_to_recover(&counts, hour(oldest)),
        steps_per_minute: steps(&counts),
        needs_me: app.needs_me(now).await?,
    }))
}

/// Counts by their words.
pub(super) fn named(counts: &[(impl ToString, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(word, count)| (word.to_string(), *count)).collect()
}

fn deaths(counts: &Counts, oldest: i64) -> Vec<DeathsOfHour> {
    let hours = counts.deaths.range(oldest..);
    hours.map(|(at, causes)| DeathsOfHour { hour: hour(*at), causes: causes.clone() }).collect()
}

fn recoveries(counts: &Counts, oldest: i64) -> Vec<RecoveriesOfHour> {
    let hours = counts.recoveries.range(oldest..);
    hours.map(|(at, count)| RecoveriesOfHour { hour: hour(*at), count: *count }).collect()
}

fn steps(counts: &Counts) -> Vec<StepsOfMinute> {
    let minutes = counts.steps.iter();
    minutes.map(|(at, count)| StepsOfMinute { minute: minute(*at), count: *count }).collect()
}

fn time_to_recover(counts: &Counts, since: Time) -> TimeToRecover {
    let mut times: Vec<u64> =
        counts.times.iter().filter(|(at, _)| *at >= since).map(|(_, ms)| *ms).collect();
    times.sort_unstable();
    let at = |part: usize| {
        let last = times.len().checked_sub(1)?;
        times.get((last * part).div_ceil(100)).copied()
    };
    TimeToRecover { p50: at(50), p99: at(99), count: times.len() }
}

impl App {
    /// What waits for a person, the newest first.
    async fn needs_me(&self, now: Time) -> Result<Vec<NeedsMe>, ApiError> {
        let mut needs = self.needs_of_agents().await?;
        needs.extend(self.needs_of_tasks().await?);
        needs.extend(self.needs_of_sessions(now).await?);
        needs.sort_by_key(|need| std::cmp::Reverse(need.at));
        Ok(needs)
    }

    async fn needs_of_agents(&self) -> Result<Vec<NeedsMe>, ApiError> {
        let states = vec![AgentStateKind::Terminated];
        let query = AgentQuery { states, after: None, limit: Some(NEEDS_MAX) };
        let agents = self.backend.engine.store().agents(query).await?;
        let need = |agent: relight_core::agent::Agent| {
            let AgentState::Terminated { why } = &agent.state else { return None };
            Some(NeedsMe {
                kind: "terminated".to_owned(),
                subject: format!("agent/{}", agent.name),
                text: format!("agent {} is not brought back any more: {why}", agent.name),
                hint: format!("relight deaths {0}, then relight start {0}", agent.name),
                at: agent.updated_at,
            })
        };
        Ok(agents.into_iter().filter_map(need).collect())
    }

    async fn needs_of_tasks(&self) -> Result<Vec<NeedsMe>, ApiError> {
        let store = self.backend.engine.store();
        let mut needs = Vec::new();
        for status in [TaskStatus::Blocked, TaskStatus::Suspended, TaskStatus::Failed] {
            let limit = Some(NEEDS_MAX);
            let query = TaskQuery { statuses: vec![status], limit, ..TaskQuery::default() };
            needs.extend(store.tasks(query).await?.iter().filter_map(need_of_task));
        }
        Ok(needs)
    }

    async fn needs_of_sessions(&self, now: Time) -> Result<Vec<NeedsMe>, ApiError> {
        let states = vec![SessionStateKind::Suspended];
        let limit = Some(NEEDS_MAX);
        let query = SessionQuery { states, limit, ..SessionQuery::default() };
        let sessions = self.backend.engine.store().sessions(query).await?;
        let need = |session: relight_core::session::Session| {
            let reason = session.reason.as_ref().map(|reason| format!(": {}", reason.text));
            NeedsMe {
                kind: session.state_at(now).to_string(),
                subject: format!("session/{}", session.key),
                text: format!("session {} waits{}", session.key, reason.unwrap_or_default()),
                hint: format!("relight session resume {}", session.key),
                at: session.updated_at,
            }
        };
        Ok(sessions.into_iter().map(need).collect())
    }
}

fn need_of_task(task: &Task) -> Option<NeedsMe> {
    let id = &task.id;
    let kind = match task.status {
        TaskStatus::Blocked if task.steps_open > 0 => "in_doubt",
        TaskStatus::Blocked => "blocked",
        TaskStatus::Suspended => "suspended",
        TaskStatus::Failed if !task.has_retry_left() => "given_up",
        _ => return None,
    };
    let hint = match kind {
        "in_doubt" => format!("relight task show {id}, then relight step resolve"),
        "given_up" => format!("relight task retry {id} --force, or relight task cancel {id}"),
        _ => format!("relight task show {id}, then relight task retry {id}"),
    };
    let reason = task.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(NeedsMe {
        kind: kind.to_owned(),
        subject: format!("task/{id}"),
        text: format!("task {id} is {}{reason}", task.status),
        hint,
        at: task.updated_at,
    })
}
