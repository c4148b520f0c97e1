//! `relight recover`: says of everything whose holder is gone what it really is.

use relight::supervise::recover::{self, Finding};
use relight::supervise::supervisor::Supervisor;
use serde_json::json;

use super::supervision::{self, cannot_use};
use crate::arguments::agent::RecoverArguments;
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::output;
use crate::work::Work;

pub(crate) fn run(environment: &Environment, arguments: &RecoverArguments) -> Outcome {
    supervision::runtime()?.block_on(recover(environment, arguments.dry_run))
}

async fn recover(environment: &Environment, dry_run: bool) -> Outcome {
    let engine = environment.long_engine()?;
    let findings = recover::find(&engine).await?;
    let left_alone = if dry_run { Vec::new() } else { put_right(environment).await? };
    let verb = if dry_run { "would be" } else { "is" };
    let lines: Vec<String> = findings.iter().map(|finding| in_words(finding, verb)).collect();
    let text = match lines.is_empty() {
        true => "nothing to recover".to_owned(),
        false => lines.join("\n"),
    };
    let answer = json!({"dry_run": dry_run, "findings": findings, "left_alone": left_alone});
    output::answer(environment, &answer, &text);
    Ok(0)
}

async fn put_right(environment: &Environment) -> Result<Vec<String>, crate::exit::Failure> {
    let engine = environment.long_engine()?;
    let home = environment.store_folder(&engine)?;
    let settings = supervision::settings(environment, &home)?;
    let settings = supervision::with_work(settings, Work::find(environment, None)?);
    let generic = supervision::preset(environment, None)?;
    // One that is not there any more tells nothing.
    let preset = |name: &str| {
        supervision::preset(environment, Some(name)).unwrap_or_else(|_| generic.clone())
    };
    let (mut supervisor, mut notices) =
        Supervisor::new(engine, settings).map_err(|error| cannot_use(&home, &error))?;
    let refused = recover::put_right(&mut supervisor, preset).await?;
    while let Ok(notice) = notices.try_recv() {
        supervision::say(environment, &notice);
    }
    for (name, error) in &refused {
        output::note(environment, &format!("{name} is left alone: {error}"));
    }
    Ok(refused.into_iter().map(|(name, _)| name.to_string()).collect())
}

fn in_words(finding: &Finding, verb: &str) -> String {
    match finding {
        Finding::Agent { agent, lives: true } => format!(
            "agent {agent} lives without a supervisor; relight up or relight run --name {agent} -- CMD \
             adopts it, relight stop {agent} ends it"
        ),
        Finding::Agent { agent, lives: false } => {
            format!(
                "agent {agent} died unnoticed; its death {verb} recorded (relight deaths {agent})"
            )
        }
        Finding::Task { task, holder } => {
            format!("task {task} {verb} given to its strategy: its holder, {holder}, is gone")
        }
    }
}
