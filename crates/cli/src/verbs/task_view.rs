//! A task as people read it.

use std::collections::HashMap;

use relight_core::status::TaskStatus;
use relight_core::step::StepKey;
use relight_core::task::{Cost, Task, Usage};
use relight_runtime::engine::TaskSnapshot;
use relight_runtime::holders::Holders;
use relight_runtime::operations::step_times::StepTime;
use relight_runtime::os::clock;

use crate::output;

pub(super) fn view_text(
    view: &TaskSnapshot,
    strategy: Option<&str>,
    lacks_agent: Option<String>,
    holders: &Holders,
    times: &HashMap<StepKey, StepTime>,
) -> String {
    let task = &view.task;
    let tally = &task.tally;
    let mut rows = vec![
        vec!["task".to_owned(), task.id.to_string()],
        vec!["status".to_owned(), status_text(task)],
    ];
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("title", task.spec.title.clone());
    row("agent", task.agent.as_ref().map(ToString::to_string));
    row(
        "holder",
        task.lease.held.as_ref().map(|held| {
            let life = if holders.is_alive(held) { "" } else { ", gone" };
            format!("{}{life}, since {}", held.holder, held.since)
        }),
    );
    row("fence", Some(task.lease.fence.to_string()));
    row(
        "needs",
        (!task.spec.needs.is_empty()).then(|| {
            let why = lacks_agent.map(|why| format!(" ({why})"));
            task.spec.needs.join(", ") + &why.unwrap_or_default()
        }),
    );
    row("strategy", Some(strategy_text(task, strategy)));
    let given_up = if tally.given_up {
        ", given up by its strategy"
    } else {
        ""
    };
    row(
        "retries",
        Some(format!("{}{given_up}", task.retries_in_words())),
    );
    row("starts", Some(starts_text(task)));
    row(
        "cost",
        (tally.cost_micros > 0).then(|| Cost(tally.cost_micros).to_string()),
    );
    row("turns", (tally.turns > 0).then(|| tally.turns.to_string()));
    let Usage {
        input_tokens,
        output_tokens,
        ..
    } = task.spec.meter.used;
    let has_tokens = input_tokens + output_tokens > 0;
    row(
        "tokens",
        has_tokens.then(|| format!("{input_tokens} in, {output_tokens} out")),
    );
    row("updated", Some(ago(task)));
    row("not before", task.not_before.map(|at| at.to_string()));
    row("expires", task.expires_at.map(|at| at.to_string()));
    for (key, value) in &task.context {
        row("context", Some(format!("{key}={value}")));
    }
    let mut text = output::table(&rows);
    text += "\n\n";
    text += &super::step::steps_text(view, times);
    text
}

fn status_text(task: &Task) -> String {
    match &task.reason {
        Some(reason) => format!("{}: {reason}", task.status),
        None => task.status.to_string(),
    }
}

/// Tasks with how many of their declared steps are finished or skipped.
pub(super) fn list_text(tasks: &[(Task, Option<usize>)], holders: &Holders) -> String {
    if tasks.is_empty() {
        return "no tasks; relight task add ID adds one".to_owned();
    }
    let header = ["task", "status", "agent", "steps", "updated", "title"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (task, declared_done) in tasks {
        let steps = match declared_done {
            Some(done) => format!("{done}/{}", task.spec.steps.len()),
            None => task.steps_done.to_string(),
        };
        rows.push(vec![
            task.id.to_string(),
            status_mark(task, holders),
            task.agent
                .as_ref()
                .map_or_else(|| "–".to_owned(), ToString::to_string),
            steps,
            ago(task),
            task.spec.title.clone().unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

/// Nothing is called running whose holder is gone; what waits says for what.
fn status_mark(task: &Task, holders: &Holders) -> String {
    let is_gone = task
        .lease
        .held
        .as_ref()
        .is_some_and(|held| !holders.is_alive(held));
    let now = clock::now();
    let waits = task
        .not_before
        .filter(|at| *at > now)
        .map(|at| format!("in {}", at.since(now)));
    let note = match task.status {
        TaskStatus::InProgress if is_gone => Some("holder gone".to_owned()),
        TaskStatus::Failed if task.tally.given_up => Some("given up".to_owned()),
        TaskStatus::Failed if !task.has_retry_left() => Some("no retry left".to_owned()),
        TaskStatus::Failed => Some(format!("again {}", waits.as_deref().unwrap_or("now"))),
        TaskStatus::Deferred | TaskStatus::Interrupted | TaskStatus::Assigned => waits,
        _ => None,
    };
    match note {
        Some(note) => format!("{} ({note})", task.status),
        None => task.status.to_string(),
    }
}

fn strategy_text(task: &Task, in_effect: Option<&str>) -> String {
    match (&task.spec.strategy, in_effect) {
        (Some(named), _) => named.clone(),
        (None, Some(configured)) => format!("{configured} (as configured)"),
        (None, None) => "as configured (relight.toml cannot be read)".to_owned(),
    }
}

fn starts_text(task: &Task) -> String {
    match task.tally.recoveries {
        0 => task.starts.to_string(),
        recoveries => format!(
            "{} ({recoveries} recovered since a step was finished)",
            task.starts
        ),
    }
}

fn ago(task: &Task) -> String {
    format!("{} ago", clock::now().since(task.updated_at))
}
