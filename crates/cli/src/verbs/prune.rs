//! `relight prune`.

use relight_runtime::os::clock;
use relight_runtime::prune::{Candidate, OldSession, Pruned, candidates, old_sessions, prune};
use relight_runtime::supervise::successor::task_state_file;
use serde_json::{Value, json};

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
            let sessions = old_sessions(&engine, arguments.older_than, now).await?;
            foretell(environment, &found.tasks, &sessions);
            return Ok(0);
        }
        let all = found.tasks.len();
        let mut bar = Bar::new(environment);
        let tell = |done: usize| bar.count("removing tasks", done, all);
        let pruned = prune(&engine, &found, arguments.older_than, now, tell).await?;
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
        tell_removed(environment, &pruned);
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

/// What would go. Old sessions are counted: there may be one for every conversation that ever was.
fn foretell(environment: &Environment, found: &[Candidate], sessions: &[OldSession]) {
    let mut text: Vec<String> = found
        .iter()
        .map(|one| format!("would remove {} ({})", one.id, one.why))
        .collect();
    if !sessions.is_empty() {
        text.push(format!("would remove {} old sessions", sessions.len()));
    }
    if text.is_empty() {
        text.push("nothing to remove".to_owned());
    }
    let value = json!({"dry_run": true, "tasks": items(found), "sessions": sessions.len()});
    output::answer(environment, &value, &text.join("\n"));
}

fn tell_removed(environment: &Environment, pruned: &Pruned) {
    let Pruned {
        tasks,
        events,
        attempts,
        sessions,
        temporary_files,
        ..
    } = pruned;
    let mut parts = vec![format!("{} tasks", tasks.len()), format!("{events} events")];
    parts.extend((*attempts > 0).then(|| format!("{attempts} attempts")));
    parts.extend((*sessions > 0).then(|| format!("{sessions} sessions")));
    parts.extend((*temporary_files > 0).then(|| format!("{temporary_files} temporary files")));
    let last = parts.pop().unwrap_or_default();
    let text = format!("removed {} and {last}", parts.join(", "));
    let value = json!({
        "dry_run": false, "tasks": tasks, "events": events, "attempts": attempts,
        "sessions": sessions, "temporary_files": temporary_files,
    });
    output::answer(environment, &value, &text);
}

fn items(found: &[Candidate]) -> Vec<Value> {
    found
        .iter()
        .map(|one| json!({"id": one.id, "why": one.why}))
        .collect()
}
