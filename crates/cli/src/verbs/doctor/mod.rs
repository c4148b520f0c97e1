//! `relight doctor`: looks at everything Relight stands on, a line a finding.
//!
//! Changes nothing and makes nothing: not even a store. What cannot be looked at is a finding too,
//! and the rest goes on.

mod agents;
mod daemon;
mod finding;
mod fleet;
mod kernel;
mod machine;
mod salvage;
mod standbys;
mod store;
mod waiting;

use std::path::Path;

use relight_core::error_code::with_causes;
use relight_runtime::presets::Preset;
use serde_json::{Value, json};

use self::finding::{DoctorFinding, Severity};
use super::setup::{self, State};
use crate::arguments::other::DoctorArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Outcome};
use crate::work::{Work, find_config};
use crate::{output, terminal_filter, trust};

pub(crate) fn run(environment: &Environment, arguments: &DoctorArguments) -> Outcome {
    let mut findings = machine::look();
    findings.extend(kernel::look(environment));
    findings.extend(machine::look_at_home(environment));
    findings.extend(daemon::look(environment));
    let (of_store, store_exit) = store::look(environment, arguments.whole);
    findings.extend(of_store);
    findings.extend(config(environment));
    findings.push(presets(environment));
    findings.push(agents_md());
    let has_problem = findings
        .iter()
        .any(|finding| finding.level == Severity::Problem);
    let Some(to) = &arguments.salvage else {
        print(environment, &findings, None);
        let exit_otherwise = if has_problem { Exit::No as u8 } else { 0 };
        return Ok(if store_exit == 0 {
            exit_otherwise
        } else {
            store_exit
        });
    };
    let salvaged = salvage::run(environment, to.as_deref());
    match salvaged {
        Ok(salvaged) => {
            print(environment, &findings, Some(&salvaged));
            Ok(salvaged.exit())
        }
        Err(failure) => {
            print(environment, &findings, None);
            Err(failure)
        }
    }
}

fn print(
    environment: &Environment,
    findings: &[DoctorFinding],
    salvaged: Option<&salvage::Salvage>,
) {
    if environment.json {
        let mut value = json!({
            "worst": findings.iter().map(|finding| finding.level).max().unwrap_or(Severity::Ok),
            "findings": findings,
        });
        value["salvage"] = salvaged.map_or(Value::Null, salvage::Salvage::json);
        output::json(&value);
        return;
    }
    for finding in findings {
        if !environment.quiet || finding.level == Severity::Problem {
            output::line(&terminal_filter::clean(&finding.line()));
        }
    }
    if let Some(salvaged) = salvaged {
        output::line(&terminal_filter::clean(&salvaged.text()));
    }
}

/// The configuration that `relight up` would read here, and what a daemon does by the clock; it is told
/// of everything else.
fn config(environment: &Environment) -> Vec<DoctorFinding> {
    let read = find_config(environment, None).and_then(|config| {
        let work = config.as_ref().map_or_else(Work::by_default, Work::of)?;
        Ok((config, work))
    });
    let (config, work) = match read {
        Ok(read) => read,
        Err(failure) => {
            let hint = failure
                .hint
                .unwrap_or_else(|| "relight setup config shows every key".to_owned());
            return vec![DoctorFinding::problem("config", failure.message).hint(hint)];
        }
    };
    if let (None, Ok(Some(project))) = (&config, environment.project())
        && let Some(missing) = project.missing()
    {
        let hint = missing.hint.unwrap_or_default();
        return vec![DoctorFinding::problem("config", missing.message).hint(hint)];
    }
    let text = match &config {
        None => "there is no relight.toml; the defaults hold".to_owned(),
        Some(config) => {
            let file = config
                .origin
                .as_ref()
                .map_or(&config.folder, |origin| &origin.source.file);
            format!(
                "{} is valid; agents: {}",
                file.display(),
                config.agents.len()
            )
        }
    };
    let renew = config.as_ref().map(|config| config.node.renew);
    let renew = renew.map(|renew| format!("; in a fleet leases are renewed every {renew}"));
    let sweep = format!(
        "deaths that no event reports are looked for every {}{}",
        work.sweep,
        renew.unwrap_or_default()
    );
    let mut findings = vec![
        DoctorFinding::ok("config", text),
        DoctorFinding::ok("queue", sweep),
    ];
    let approved = config.map_or(Ok(()), |config| {
        environment.require_approval(&config, &trust::keys(&config))
    });
    if let Err(failure) = approved {
        let finding = DoctorFinding::warning("trust", failure.message);
        findings.push(finding.hint(failure.hint.unwrap_or_default()));
    }
    findings
}

/// Whether the user's own presets can be read.
fn presets(environment: &Environment) -> DoctorFinding {
    let all = Preset::all(environment.presets_folder().as_deref());
    let count = all.len();
    let broken: Vec<String> = all
        .into_iter()
        .filter_map(|(name, preset)| Some(format!("{name}: {}", with_causes(&preset.err()?))))
        .collect();
    match broken.first() {
        None => DoctorFinding::ok("presets", format!("{count}, all valid")),
        Some(first) => DoctorFinding::warning(
            "presets",
            format!("{} cannot be used ({first})", broken.len()),
        )
        .hint("relight presets list"),
    }
}

/// Whether agents that start in this folder are told of Relight.
fn agents_md() -> DoctorFinding {
    let topic = "agents-md";
    let state = match setup::agents_md_state(Path::new("AGENTS.md")) {
        Ok(Some(state)) => state,
        Ok(None) => return DoctorFinding::ok(topic, "there is no AGENTS.md in this folder"),
        Err(failure) => return DoctorFinding::warning(topic, failure.message),
    };
    let text = format!("the Relight block of AGENTS.md is {}", state.as_str());
    match state {
        State::Current | State::Newer { .. } | State::Edited => DoctorFinding::ok(topic, text),
        State::Absent | State::Outdated { .. } => {
            DoctorFinding::warning(topic, text).hint("relight setup agents-md")
        }
        State::Broken { .. } => {
            DoctorFinding::warning(topic, text).hint("relight setup agents-md --check")
        }
    }
}
