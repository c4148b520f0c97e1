//! `relight prune`.

use relight_runtime::os::clock;
use relight_runtime::prune::{Candidate, Pruned, candidates, foresee, prune};
use relight_runtime::supervise::successor::task_state_file;
use serde_json::json;

use super::progress::Bar;
use crate::arguments::other::PruneArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &PruneArguments) -> Outcome {
    if !arguments.dry_run && environment.relay().is_some() {
        return Err(not_here());
    }
    let engine = environment.engine()?;
    let now = clock::now();
    block_on(async {
        let mut found = candidates(&engine, arguments.older_than, now).await?;
        // The folder here may have lost its last task already. One that cannot be used is not swept.
        found.folders.extend(environment.checkpoint_folder(None));
        if arguments.dry_run {
            let pruned = foresee(&engine, &found, arguments.older_than, now).await?;
            tell(environment, &pruned, Some(&found.tasks));
            return Ok(0);
        }
        let all = found.tasks.len();
        let mut bar = Bar::new(environment);
        let count = |done: usize| bar.count("removing tasks", done, all);
        let pruned = prune(&engine, &found, arguments.older_than, now, count).await?;
        drop(bar);
        let home = environment.store_folder(&engine)?;
        for id in &pruned.tasks {
            // Most have none.
            let _ = std::fs::remove_file(task_state_file(&home, id));
        }
        for (id, error) in &pruned.files_left {
            output::note(
                environment,
                &format!("{id} stays: its file could not be removed: {error}"),
            );
        }
        tell(environment, &pruned, None);
        Ok(0)
    })
}

/// Refused before anything is removed: a file of a workflow goes first.
fn not_here() -> Failure {
    let text = "what is old in the store of a fleet is not removed through a node's daemon";
    Failure::new(Exit::Config, text).hint(
        "outside of agents: name the store by --store, RELIGHT_STORE or [store] in relight.toml",
    )
}

/// What went; in a dry run, what would go, with the reason for each task.
fn tell(environment: &Environment, pruned: &Pruned, dry_run: Option<&[Candidate]>) {
    let Pruned {
        tasks,
        events,
        attempts,
        sessions,
        temporary_files,
        ..
    } = pruned;
    let parts = [
        (tasks.len(), "task", "tasks"),
        (*events as usize, "event", "events"),
        (*attempts as usize, "attempt", "attempts"),
        (*sessions as usize, "session", "sessions"),
        (*temporary_files, "temporary file", "temporary files"),
    ];
    let found = parts.into_iter().filter(|(count, ..)| *count > 0);
    let mut parts: Vec<String> = found
        .map(|(count, one, many)| output::count_of(count, one, many))
        .collect();
    let last = parts.pop();
    let what = match (last, parts.join(", ")) {
        (None, _) => None,
        (Some(last), others) if others.is_empty() => Some(last),
        (Some(last), others) => Some(format!("{others} and {last}")),
    };
    let of_task = |one: &Candidate| format!("would remove {} ({})", one.id, one.why);
    let mut lines: Vec<String> = dry_run.unwrap_or_default().iter().map(of_task).collect();
    lines.push(match (what, dry_run) {
        (Some(what), Some(_)) => format!("would remove {what}"),
        (Some(what), None) => format!("removed {what}"),
        (None, _) => "nothing to remove".to_owned(),
    });
    let tasks = match dry_run {
        Some(found) => found
            .iter()
            .map(|one| json!({"id": one.id, "why": one.why}))
            .collect(),
        None => json!(tasks),
    };
    let value = json!({
        "dry_run": dry_run.is_some(), "tasks": tasks, "events": events, "attempts": attempts,
        "sessions": sessions, "temporary_files": temporary_files,
    });
    output::answer(environment, &value, &lines.join("\n"));
}
