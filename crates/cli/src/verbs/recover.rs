//! `relight recover`: says of everything whose holder is gone what it really is, and does what its rule
//! says; or what a person says (`operator`).

use std::collections::HashSet;

use relight_core::ids::TaskId;
use relight_runtime::engine::Engine;
use relight_runtime::operations::recover::{RecoveryReport, RecoverySettings, StoreRecovery};
use relight_runtime::recovery::operator::{Filter, command_to_continue};
use relight_runtime::supervise::unnoticed_deaths::Discrepancy;
use relight_store::Rows;

use super::operator::{self, waiting_text};
use super::session::recovery::in_words as session_in_words;
use super::supervision;
use super::task_queue::{recovered_text, trouble_text};
use crate::arguments::agent::RecoverArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::work::Work;

pub(crate) fn run(environment: &Environment, arguments: &RecoverArguments) -> Outcome {
    if let Some(verb) = operator::verb(arguments) {
        return operator::act(environment, arguments, &verb);
    }
    if !arguments.tasks.is_empty() || arguments.all {
        return Err(Failure::new(Exit::Usage, "what is to become of them?")
            .hint("add --resume, --restart, --abandon or --hand-over AGENT"));
    }
    let given = arguments.config.config.as_deref();
    let work = match arguments.dry_run {
        true => Work::find_to_read(environment, given)?,
        false => Work::find(environment, given)?,
    };
    let (filter, dry_run) = (operator::filter(arguments), arguments.dry_run);
    let (report, text, damage) = block_on_with(&supervision::runtime()?, async {
        let engine = environment.long_engine()?;
        let report = recover(environment, &engine, work, filter, dry_run).await?;
        let damage = engine.store().unreadable(Rows::All).await?;
        let text = in_words_of(&engine, &report).await?;
        Ok::<_, Failure>((report, text, damage))
    })?;
    output::answer(environment, &report, &text);
    let damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    output::left_out(&damage);
    for recovered in &report.recovered {
        if let Some(trouble) = &recovered.trouble {
            output::alert(&trouble_text(recovered, trouble));
        }
    }
    let is_complete = report.failed.is_empty();
    for refused in report.failed {
        output::failure(environment.json, &refused.into());
    }
    Ok(if is_complete { 0 } else { Exit::No as u8 })
}

/// Recovers everything whose holder is gone, or answers what would be done.
pub(super) async fn recover(
    environment: &Environment,
    engine: &Engine,
    work: Work,
    filter: Filter,
    dry_run: bool,
) -> Result<RecoveryReport, Failure> {
    let home = environment.store_folder(engine)?;
    let sessions = work.sessions;
    let settings = supervision::settings(environment, &home)?;
    let plan = RecoverySettings {
        supervisor: supervision::with_work(settings, work),
        sessions,
        presets: environment.presets_folder(),
        filter,
    };
    let report = StoreRecovery { dry_run }.run(engine, plan).await?;
    for notice in &report.notices {
        supervision::say(environment, notice);
    }
    for (name, error) in &report.refused {
        output::note(environment, &format!("{name} is left alone: {error}"));
    }
    Ok(report)
}

async fn in_words_of(engine: &Engine, report: &RecoveryReport) -> Result<String, Failure> {
    let mut lines = if report.dry_run {
        foreseen(report)
    } else {
        let mut decided = Vec::new();
        for recovered in &report.recovered {
            if let Some(task) = engine.store().task(&recovered.task).await? {
                let command = command_to_continue(engine, &task).await?;
                let text = recovered_text(recovered, &task, command.as_deref());
                decided.push((&recovered.task, text));
            }
        }
        told(&report.findings, &decided)
    };
    let verb = if report.dry_run { "would become" } else { "is" };
    let sessions = report.sessions.iter();
    lines.extend(sessions.map(|session| session_in_words(session, verb)));
    if lines.is_empty() {
        lines.push("nothing to recover".to_owned());
    }
    Ok(lines.join("\n"))
}

fn foreseen(report: &RecoveryReport) -> Vec<String> {
    let is_agent = |finding: &&Discrepancy| matches!(finding, Discrepancy::Agent { .. });
    let of_agents = report.findings.iter().filter(is_agent);
    let mut lines: Vec<String> = of_agents
        .map(|finding| in_words(finding, "would be"))
        .collect();
    lines.extend(report.waiting.iter().map(waiting_text));
    // A task that has a lease and is not in progress is not listed as waiting.
    let waits = |id: &TaskId| report.waiting.iter().any(|waiting| waiting.task == *id);
    let others = report.findings.iter().filter(|finding| match finding {
        Discrepancy::Task { task, .. } => !waits(task),
        Discrepancy::Agent { .. } => false,
    });
    lines.extend(others.map(|finding| in_words(finding, "would be")));
    lines
}

/// A line for each thing that was found, then for what else was decided.
fn told(findings: &[Discrepancy], decided: &[(&TaskId, String)]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut named = HashSet::new();
    for finding in findings {
        let decided = match finding {
            Discrepancy::Task { task, .. } => decided.iter().find(|(id, _)| *id == task),
            Discrepancy::Agent { .. } => None,
        };
        lines.push(match decided {
            Some((task, text)) => {
                named.insert(*task);
                text.clone()
            }
            None => in_words(finding, "is"),
        });
    }
    let others = decided.iter().filter(|(task, _)| !named.contains(task));
    lines.extend(others.map(|(_, text)| text.clone()));
    lines
}

fn in_words(finding: &Discrepancy, verb: &str) -> String {
    match finding {
        Discrepancy::Agent { agent, lives: true } => format!(
            "agent {agent} lives without a supervisor; its relight up or relight run adopts it \
             (relight start {agent} says which); relight stop {agent} ends it"
        ),
        Discrepancy::Agent {
            agent,
            lives: false,
        } => {
            format!(
                "agent {agent} died unnoticed; its death {verb} recorded (relight deaths {agent})"
            )
        }
        Discrepancy::Task { task, holder } => {
            format!("task {task} {verb} recovered: its holder, {holder}, is gone")
        }
    }
}
