//! `relight check`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use relight_core::error_code::with_causes;
use relight_core::time::{Span, Time};
use relight_runtime::engine::Engine;
use relight_runtime::os::{clock, file};
use relight_runtime::stale_check::{
    CheckError, CheckFinding, CheckReport, check_files, check_store,
};
use relight_runtime::store_url::StoreUrl;
use serde_json::{Value, json};

use crate::arguments::other::CheckArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &CheckArguments) -> Outcome {
    let now = clock::now();
    let engine = open_if_there(environment)?;
    let roots = roots(environment, arguments)?;
    let report = block_on(look(engine.as_ref(), &roots, arguments.stale, now))?;
    let lines: Vec<String> = report
        .alerts
        .iter()
        .map(|alert| output::one_line(&line(alert)))
        .collect();
    let text = if lines.is_empty() {
        "OK".to_owned()
    } else {
        lines.join("\n")
    };
    if let Some(log) = &arguments.log {
        append(log, &text, now)?;
    }
    let items: Vec<Value> = if environment.json {
        report.alerts.iter().map(alert_json).collect()
    } else {
        Vec::new()
    };
    let value = json!({"ok": items.is_empty(), "alerts": items, "checked": report.checked});
    output::answer(environment, &value, &text);
    Ok(code(&report))
}

/// A store that was never made has nothing to check, and checking makes none.
fn open_if_there(environment: &Environment) -> Result<Option<Engine>, Failure> {
    if environment.relay().is_none()
        && let StoreUrl::Sqlite(path) = &environment.store_url()?
    {
        let log = PathBuf::from(format!("{}-wal", path.display()));
        if !path.exists() && !log.exists() {
            let text = format!(
                "there is no store {}; only files were checked",
                path.display()
            );
            output::note(environment, &text);
            return Ok(None);
        }
    }
    Ok(Some(environment.engine()?))
}

/// What was named, else the folder in use here; that one need not be there.
fn roots(environment: &Environment, arguments: &CheckArguments) -> Result<Vec<PathBuf>, Failure> {
    if let Some(root) = arguments.roots.iter().find(|root| !root.is_dir()) {
        return Err(Failure::new(
            Exit::Usage,
            format!("{} is not a folder", root.display()),
        ));
    }
    if !arguments.roots.is_empty() {
        return Ok(arguments.roots.clone());
    }
    let usual = match environment.given_folder() {
        Some(folder) => folder,
        None => {
            // A link that leads out of the workspace is refused.
            environment.checkpoint_folder(None)?;
            PathBuf::from("memory/checkpoints")
        }
    };
    Ok(if usual.is_dir() {
        vec![usual]
    } else {
        Vec::new()
    })
}

async fn look(
    engine: Option<&Engine>,
    roots: &[PathBuf],
    stale: Span,
    now: Time,
) -> Result<CheckReport, Failure> {
    let mut all = match engine {
        Some(engine) => check_store(engine, stale, now).await?,
        None => CheckReport::default(),
    };
    for root in roots {
        let store = engine.map(|engine| engine.store().as_ref());
        let found = check_files(store, root, stale, now).await?;
        all.alerts.extend(found.alerts);
        all.checked += found.checked;
    }
    Ok(all)
}

fn code(report: &CheckReport) -> u8 {
    let damaged = report
        .alerts
        .iter()
        .any(|alert| matches!(alert, CheckFinding::Damaged { .. }));
    match (damaged, report.alerts.is_empty()) {
        (true, _) => Exit::Data as u8,
        (false, false) => Exit::No as u8,
        (false, true) => 0,
    }
}

fn line(alert: &CheckFinding) -> String {
    match alert {
        CheckFinding::Stale {
            id,
            status,
            agent,
            age,
            file,
        } => {
            let agent = agent
                .as_deref()
                .map(|agent| format!(" agent={agent}"))
                .unwrap_or_default();
            let file = file
                .as_ref()
                .map(|file| format!(" file={}", file.display()));
            format!(
                "ALERT stale {id} status={status}{agent} age={age}{}",
                file.unwrap_or_default()
            )
        }
        CheckFinding::Damaged { file, reason } => {
            format!("ALERT damaged {}: {reason}", file.display())
        }
    }
}

fn alert_json(alert: &CheckFinding) -> Value {
    match alert {
        CheckFinding::Stale {
            id,
            status,
            agent,
            age,
            file,
        } => json!({
            "kind": "stale", "id": id, "status": status, "agent": agent,
            "age_ms": age.as_ms(), "file": file,
        }),
        CheckFinding::Damaged { file, reason } => {
            json!({"kind": "damaged", "file": file, "reason": reason})
        }
    }
}

fn append(log: &Path, text: &str, now: Time) -> Result<(), Failure> {
    let mut lines = String::new();
    for line in text.lines() {
        lines += &format!("{now} {line}\n");
    }
    let written = file::open_to_append(log).and_then(|mut file| file.write_all(lines.as_bytes()));
    written
        .map_err(|error| Failure::new(Exit::Io, format!("cannot write {}: {error}", log.display())))
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Store(error) => error.into(),
            CheckError::Folder { .. } => Self::new(Exit::Io, with_causes(&error)),
        }
    }
}
