//! `relight doctor`: looks at everything Relight stands on, a line a finding.
//!
//! Changes nothing and makes nothing: not even a store. What cannot be looked at is a finding too,
//! and the rest goes on.

mod agents;
mod finding;
mod machine;
mod salvage;
mod store;

use std::path::Path;

use serde_json::{Value, json};

use self::finding::{Finding, Level};
use super::setup::{self, State};
use crate::arguments::other::DoctorArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::work::Work;

pub(crate) fn run(environment: &Environment, arguments: &DoctorArguments) -> Outcome {
    let mut findings = machine::look();
    findings.extend(machine::look_at_home(environment));
    let (of_store, store_exit) = store::look(environment, arguments.whole);
    findings.extend(of_store);
    findings.push(queue(environment));
    findings.push(agents_md());
    let has_problem = findings.iter().any(|finding| finding.level == Level::Problem);
    let Some(to) = &arguments.salvage else {
        print(environment, &findings, None);
        let exit_otherwise = if has_problem { Exit::No as u8 } else { 0 };
        return Ok(if store_exit == 0 { exit_otherwise } else { store_exit });
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

fn print(environment: &Environment, findings: &[Finding], salvaged: Option<&salvage::Salvage>) {
    if environment.json {
        let mut value = json!({
            "worst": findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok),
            "findings": findings,
        });
        value["salvage"] = salvaged.map_or(Value::Null, salvage::Salvage::json);
        output::json(&value);
        return;
    }
    for finding in findings {
        if !environment.quiet || finding.level == Level::Problem {
            output::line(&output::clean(&finding.line()));
        }
    }
    if let Some(salvaged) = salvaged {
        output::line(&output::clean(&salvaged.text()));
    }
}

/// What a daemon looks for by the clock; it is told of everything else.
fn queue(environment: &Environment) -> Finding {
    match Work::find(environment, None) {
        Ok(work) => {
            let sweep = work.sweep;
            let text = format!("dead holders that nobody tells of are looked for every {sweep}");
            Finding::ok("queue", text)
        }
        Err(failure) => Finding::warning("queue", failure.message),
    }
}

/// Whether agents that start in this folder are told of Relight.
fn agents_md() -> Finding {
    let topic = "agents-md";
    let state = match setup::agents_md_state(Path::new("AGENTS.md")) {
        Ok(Some(state)) => state,
        Ok(None) => return Finding::ok(topic, "there is no AGENTS.md in this folder"),
        Err(failure) => return Finding::warning(topic, failure.message),
    };
    let text = format!("the Relight block of AGENTS.md is {}", state.as_str());
    match state {
        State::Current | State::Newer { .. } | State::Edited => Finding::ok(topic, text),
        State::Absent | State::Outdated { .. } => {
            Finding::warning(topic, text).hint("relight setup agents-md")
        }
        State::Broken { .. } => {
            Finding::warning(topic, text).hint("relight setup agents-md --check")
        }
    }
}
