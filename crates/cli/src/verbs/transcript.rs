//! `relight transcript`: what a crash did to the file of a conversation, and its repair.

use std::path::PathBuf;

use relight_core::agent::Agent;
use relight_core::error_code::{ErrorCode, with_causes};
use relight_core::ids::AgentName;
use relight_runtime::engine::ActError;
use relight_runtime::os::process;
use relight_runtime::transcripts::{
    self, Finding, Format, OpenCall, Remedy, TranscriptError, TranscriptReport,
};
use relight_store::{AttemptQuery, Store};
use serde_json::{Value, json};

use super::presets;
use crate::arguments::agent::{TranscriptArguments, TranscriptCommand};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, command: &TranscriptCommand) -> Outcome {
    let (arguments, repairs) = match command {
        TranscriptCommand::Check(arguments) => (arguments, false),
        TranscriptCommand::Repair(arguments) => (arguments, true),
    };
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    for (path, format) in files(environment, arguments, repairs)? {
        let act = if repairs {
            transcripts::repair
        } else {
            transcripts::check
        };
        // One that cannot be read stops no other.
        match act(&path, format) {
            Ok(report) => reports.push(report),
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    let redactor = environment.redactor_for_output();
    let mut items: Vec<Value> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for report in &reports {
        let calls = transcripts::redacted(report.examination.open_calls.clone(), &redactor);
        lines.push(in_words(report, &calls));
        items.push(in_json(report, &calls));
    }
    if !reports.is_empty() {
        output::list(environment, items, &lines.join("\n"));
    }
    if let Some(last) = failures.pop() {
        for failure in &failures {
            output::failure(environment.json, failure);
        }
        return Err(last);
    }
    Ok(reports.iter().map(code).max().unwrap_or(0))
}

fn code(report: &TranscriptReport) -> u8 {
    match report.examination.remedy {
        Remedy::Impossible(_) => Exit::Data as u8,
        Remedy::Replace(_) if report.kept.is_none() => Exit::No as u8,
        Remedy::Replace(_) | Remedy::None => 0,
    }
}

fn state(report: &TranscriptReport) -> &'static str {
    match report.examination.remedy {
        Remedy::None => "sound",
        Remedy::Replace(_) if report.kept.is_none() => "damaged",
        Remedy::Replace(_) => "repaired",
        Remedy::Impossible(_) => "beyond_repair",
    }
}

fn in_json(report: &TranscriptReport, calls: &[OpenCall]) -> Value {
    let reason = match report.examination.remedy {
        Remedy::Impossible(reason) => Some(reason),
        Remedy::None | Remedy::Replace(_) => None,
    };
    json!({
        "path": report.path, "format": report.format.as_str(), "state": state(report),
        "reason": reason, "findings": report.examination.findings, "open_calls": calls,
        "kept": report.kept,
    })
}

fn in_words(report: &TranscriptReport, calls: &[OpenCall]) -> String {
    let path = report.path.display();
    let mut lines = vec![match (&report.examination.remedy, &report.kept) {
        (Remedy::None, _) => format!("{path}: sound ({})", report.format),
        (Remedy::Impossible(reason), _) => format!("{path}: cannot be repaired: {reason}"),
        (Remedy::Replace(_), None) => format!("{path}: damaged ({})", report.format),
        (Remedy::Replace(_), Some(kept)) => {
            format!("{path}: repaired; the damaged file is {}", kept.display())
        }
    }];
    lines.extend(report.examination.findings.iter().map(finding_in_words));
    for OpenCall {
        name, arguments, ..
    } in calls
    {
        lines.push(format!("  in doubt: {name} {arguments}"));
    }
    lines
        .iter()
        .map(|line| output::one_line(line))
        .collect::<Vec<_>>()
        .join("\n")
}

fn finding_in_words(finding: &Finding) -> String {
    let Finding {
        kind,
        line,
        offset,
        bytes,
        tool,
    } = finding;
    let tool = tool
        .as_deref()
        .map(|tool| format!(" ({tool})"))
        .unwrap_or_default();
    format!(
        "  line {line}, byte {offset}: {}{tool}; {bytes} bytes cut",
        kind.in_words()
    )
}

fn files(
    environment: &Environment,
    arguments: &TranscriptArguments,
    repairs: bool,
) -> Result<Vec<(PathBuf, Option<Format>)>, Failure> {
    let Some(name) = &arguments.agent else {
        let files = arguments.files.iter();
        return Ok(files.map(|file| (file.clone(), arguments.format)).collect());
    };
    let engine = environment.engine()?;
    let store = engine.store().as_ref();
    let agent = block_on(store.agent(name))?.ok_or_else(|| ActError::NoSuchAgent(name.clone()))?;
    if repairs {
        refuse_while_alive(store, name)?;
    }
    let (path, format) = of_agent(environment, &agent)?;
    Ok(vec![(path, arguments.format.or(Some(format)))])
}

fn refuse_while_alive(store: &dyn Store, name: &AgentName) -> Result<(), Failure> {
    let query = AttemptQuery {
        agent: Some(name.clone()),
        ended: false,
        limit: 1,
        before: None,
    };
    let newest = block_on(store.attempts(query))?.into_iter().next();
    let running = newest.and_then(|attempt| attempt.process.filter(process::is_alive));
    match running {
        Some(process) => {
            let text = format!("agent {name} is running (pid {})", process.pid);
            Err(Failure::of(ErrorCode::HELD, text).hint(format!("relight stop {name}")))
        }
        None => Ok(()),
    }
}

fn of_agent(environment: &Environment, agent: &Agent) -> Result<(PathBuf, Format), Failure> {
    let Agent {
        name,
        session,
        plan,
        ..
    } = agent;
    let nothing = |text: String| Failure::of(ErrorCode::NOT_FOUND, text);
    let session = session.as_deref().ok_or_else(|| {
        nothing(format!("agent {name} has no session"))
            .hint("its preset learns it when the agent runs; or name the FILE")
    })?;
    let preset = presets::find(environment, &plan.preset)?;
    preset
        .transcript(session, |variable| environment.path(variable))
        .ok_or_else(|| {
            nothing(format!(
                "no transcript of session {session} was found for preset {}",
                preset.name()
            ))
            .hint("name the FILE; docs/guides/transcripts.md says where programs keep them")
        })
}

impl From<TranscriptError> for Failure {
    fn from(error: TranscriptError) -> Self {
        match &error {
            TranscriptError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Self::of(ErrorCode::NOT_FOUND, with_causes(&error))
            }
            TranscriptError::Io { .. } => Self::of(ErrorCode::IO, with_causes(&error)),
            TranscriptError::UnknownFormat(_) => {
                let formats = Format::ALL.map(Format::as_str).join(", ");
                Self::of(ErrorCode::DAMAGED, with_causes(&error))
                    .hint(format!("give --format, one of {formats}"))
            }
            TranscriptError::InUse { .. } | TranscriptError::Changed(_) => {
                Self::of(ErrorCode::HELD, with_causes(&error)).hint("end its program first")
            }
        }
    }
}
