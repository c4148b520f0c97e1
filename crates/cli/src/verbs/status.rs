//! `relight status`: everything at a glance, and an exit code that says whether somebody is needed.

use std::path::Path;

use relight_core::lease::ProcessIdentity;
use relight_runtime::operations::needs::NeedsMe;
use relight_runtime::os::{clock, process};
use relight_runtime::supervise::control::SupervisorStatus;
use relight_runtime::supervise::daemon_client::DaemonState;
use relight_store::AgentQuery;
use serde_json::{Value, json};

use super::detached;
use super::operate;
use super::overview::{self, StatusOverview};
use crate::block_on;
use crate::environment::Environment;
use crate::exit::{Exit, Outcome};
use crate::output;

/// So many needs are printed; the rest is counted.
const NEEDS_MAX: usize = 10;

pub(crate) fn run(environment: &Environment) -> Outcome {
    let context = operate::context(environment)?;
    let daemon = overview::daemon(&context.home);
    let mut overview = block_on(StatusOverview::read(&context, AgentQuery::default()))?;
    if let DaemonState::Silent(process) = &daemon {
        overview.need(need_of_silent(&context.home, process));
    }
    let store = context.engine.store();
    let place = match store.file() {
        Some(file) => format!("sqlite:{}", file.display()),
        None => environment.store_place(),
    };
    let bytes = store
        .file()
        .and_then(|file| std::fs::metadata(file).ok())
        .map(|found| found.len());
    let code = match overview.needs_total {
        0 => 0,
        _ => Exit::No as u8,
    };
    let project = environment.project()?;
    let log = detached::log_file(&context.home);
    let log = log.exists().then_some(log);
    if environment.json {
        output::json(&json!({
            "project": project.map(|it| json!({"name": it.name, "folder": it.folder})),
            "home": context.home,
            "daemon": daemon_json(&daemon, log.as_deref()),
            "agents": counts_json(&overview.agents_by_state()),
            "tasks": named(&overview.inventory.tasks),
            "sessions": named(&overview.inventory.sessions),
            "inflight": overview.inflight,
            "needs_me": overview.needs,
            "needs_me_total": overview.needs_total,
            "draining_since": overview.draining_since,
            "store": {"place": place, "bytes": bytes},
        }));
        return Ok(code);
    }
    if environment.quiet {
        return Ok(code);
    }
    let project = project.map(|it| {
        let gone = if it.missing().is_some() { ", gone" } else { "" };
        format!("{} ({}{gone})", it.name, it.folder.display())
    });
    let facts = [
        ("project", project.unwrap_or_else(|| "none".to_owned())),
        ("daemon", daemon_text(environment, &daemon)),
        ("agents", agents_text(&overview)),
        ("work", work_text(&overview)),
        ("needs me", needs_text(&overview)),
        ("store", store_text(&place, bytes)),
        ("home", context.home.display().to_string()),
    ];
    let log = log.map(|log| ("log", log.display().to_string()));
    let rows: Vec<Vec<String>> = facts
        .into_iter()
        .chain(log)
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    output::line(&output::facts(&rows));
    if let Some(since) = overview.draining_since {
        output::line(&super::drain::line(since));
    }
    for need in overview.needs.iter().take(NEEDS_MAX) {
        let (text, hint) = (output::one_line(&need.text), output::one_line(&need.hint));
        output::line(&format!("\n{text}\n  try: {hint}"));
    }
    Ok(code)
}

fn need_of_silent(home: &Path, process: &ProcessIdentity) -> NeedsMe {
    let (text, hint) = overview::silent(home, process);
    NeedsMe {
        kind: "silent".to_owned(),
        subject: "daemon".to_owned(),
        text,
        hint,
        at: clock::now().minus(process::age(process)),
    }
}

fn daemon_json(daemon: &DaemonState, log: Option<&Path>) -> Value {
    match daemon {
        DaemonState::NotRunning => Value::Null,
        DaemonState::Silent(process) => json!({
            "pid": process.pid, "answers": false, "url": null, "version": null, "log": log,
        }),
        DaemonState::Answers(status) => json!({
            "pid": status.pid, "answers": true, "url": status.url, "version": status.version,
            "log": log,
        }),
    }
}

fn daemon_text(environment: &Environment, daemon: &DaemonState) -> String {
    match daemon {
        DaemonState::NotRunning => format!("not running; {}", overview::how_to_start(environment)),
        DaemonState::Silent(process) => {
            format!("running, pid {}, but it does not answer", process.pid)
        }
        DaemonState::Answers(SupervisorStatus { pid, url, .. }) => match url {
            Some(url) => format!("running, pid {pid}, {url}"),
            None => format!("running, pid {pid}, on its socket only"),
        },
    }
}

fn agents_text(overview: &StatusOverview) -> String {
    let by_state = overview.agents_by_state();
    if by_state.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = by_state
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    words.join(", ")
}

fn work_text(overview: &StatusOverview) -> String {
    let found = &overview.inflight;
    let parts = [
        (found.held.len(), "task held", "tasks held"),
        (found.in_doubt.len(), "step in doubt", "steps in doubt"),
        (found.sessions.len(), "turn in flight", "turns in flight"),
        (waiting(overview), "task waiting", "tasks waiting"),
    ];
    let words: Vec<String> = parts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| output::count_of(count, one, many))
        .collect();
    match words.is_empty() {
        true => "nothing in flight".to_owned(),
        false => words.join(", "),
    }
}

/// Tasks that an agent may take.
fn waiting(overview: &StatusOverview) -> usize {
    use relight_core::status::TaskStatus::{Assigned, Created, Deferred, Interrupted};
    let counts = overview.inventory.tasks.iter();
    let waits = |status| matches!(status, Created | Assigned | Deferred | Interrupted);
    counts
        .filter(|(status, _)| waits(*status))
        .map(|(_, count)| *count as usize)
        .sum()
}

fn needs_text(overview: &StatusOverview) -> String {
    match overview.needs_total {
        0 => "nothing".to_owned(),
        total if total as usize > NEEDS_MAX => {
            format!("{total}; the newest {NEEDS_MAX} below")
        }
        total => total.to_string(),
    }
}

fn store_text(place: &str, bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{place}, {:.1} MB", bytes as f64 / 1e6),
        None => place.to_owned(),
    }
}

fn counts_json(counts: &[(&'static str, usize)]) -> Value {
    counts
        .iter()
        .map(|(word, count)| ((*word).to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn named(counts: &[(impl ToString, u64)]) -> Value {
    counts
        .iter()
        .map(|(word, count)| (word.to_string(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
