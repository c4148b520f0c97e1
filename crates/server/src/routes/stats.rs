//! An overview.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::extract::State;
use relight_core::node::Node;
use relight_core::task::Cost;
use relight_core::time::Time;
use relight_runtime::os::clock;

use crate::VERSION;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Asked;
use crate::statistics::{Counts, hour, hour_of, minute};
use crate::wire::stats::{
    CostOfHour, DeathsOfHour, ProjectName, RecoveriesOfHour, Stats, StepsOfMinute, TimeToRecover,
    WhichHours,
};

const HOURS_DEFAULT: u32 = 24;

/// An overview: counts, the last hours, and what waits for a person.
#[cfg_attr(test, utoipa::path(get, path = "/api/stats", tag = "daemon", params(WhichHours),
    responses((status = 200, body = Stats), (status = 422))))]
pub(super) async fn stats(
    State(app): State<App>,
    Asked(which): Asked<WhichHours>,
) -> Result<Answer<Stats>, ApiError> {
    let hours = which.hours.unwrap_or(HOURS_DEFAULT);
    let context = app.context();
    let store = app.backend.engine.store();
    let counts = app.statistics.now(store.as_ref()).await?;
    let inventory = store.inventory(false).await?;
    let needs = context.needs_me(&inventory).await?;
    let now = clock::now();
    let oldest = hour_of(now) - i64::from(hours) + 1;
    Ok(Answer(Stats {
        now,
        version: VERSION.to_owned(),
        project: app.backend.project.as_ref().map(|project| ProjectName {
            name: project.name.clone(),
            folder: project.folder.display().to_string(),
        }),
        home: app.backend.home.display().to_string(),
        node: app.backend.node_name(),
        nodes: by_state(&store.nodes().await?),
        draining: relight_runtime::drain::now(store.as_ref()).await?.is_some(),
        held_back: app.backend.held_back.load(Ordering::Relaxed),
        agents: named(&inventory.agents),
        tasks: named(&inventory.tasks),
        sessions: named(&inventory.sessions),
        in_doubt: context.in_doubt(&inventory).await?,
        deaths_per_hour: deaths(&counts, oldest),
        recoveries_per_hour: recoveries(&counts, oldest),
        time_to_recover_ms: time_to_recover(&counts, hour(oldest)),
        cost_per_hour: costs(&counts, oldest),
        steps_per_minute: steps(&counts),
        needs_me: needs.listed,
        needs_me_total: needs.total,
    }))
}

/// How many nodes are in each state that there is.
pub(super) fn by_state(nodes: &[Node]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state().as_str().to_owned()).or_default() += 1;
    }
    counts
}

/// Counts by their words.
pub(super) fn named(counts: &[(impl ToString, u64)]) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|(word, count)| (word.to_string(), *count))
        .collect()
}

fn deaths(counts: &Counts, oldest: i64) -> Vec<DeathsOfHour> {
    let hours = counts.deaths.range(oldest..);
    hours
        .map(|(at, causes)| DeathsOfHour {
            hour: hour(*at),
            causes: causes.clone(),
        })
        .collect()
}

fn recoveries(counts: &Counts, oldest: i64) -> Vec<RecoveriesOfHour> {
    let hours = counts.recoveries.range(oldest..);
    hours
        .map(|(at, count)| RecoveriesOfHour {
            hour: hour(*at),
            count: *count,
        })
        .collect()
}

fn costs(counts: &Counts, oldest: i64) -> Vec<CostOfHour> {
    let hours = counts.cost_micros.range(oldest..);
    hours
        .map(|(at, micros)| CostOfHour {
            hour: hour(*at),
            cost: Cost(*micros).to_string(),
        })
        .collect()
}

fn steps(counts: &Counts) -> Vec<StepsOfMinute> {
    let minutes = counts.steps.iter();
    minutes
        .map(|(at, count)| StepsOfMinute {
            minute: minute(*at),
            count: *count,
        })
        .collect()
}

fn time_to_recover(counts: &Counts, since: Time) -> TimeToRecover {
    let mut times: Vec<u64> = counts
        .times
        .iter()
        .filter(|(at, _)| *at >= since)
        .map(|(_, ms)| *ms)
        .collect();
    times.sort_unstable();
    let at = |part: usize| {
        let last = times.len().checked_sub(1)?;
        times.get((last * part).div_ceil(100)).copied()
    };
    TimeToRecover {
        p50: at(50),
        p99: at(99),
        count: times.len(),
    }
}
