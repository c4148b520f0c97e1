//! `relight prune`.

use relight::doors::clock;
use relight::prune::{Candidate, candidates, prune};
use serde_json::{Value, json};

use crate::arguments::other::PruneArguments;
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &PruneArguments) -> Outcome {
    let engine = environment.engine()?;
    let now = clock::now();
    block_on(async {
        let found = candidates(&engine, arguments.older_than, now).await?;
        if arguments.dry_run {
            let mut text: Vec<String> =
                found.iter().map(|one| format!("would remove {} ({})", one.id, one.why)).collect();
            if text.is_empty() {
                text.push("nothing to remove".to_owned());
            }
            let value = json!({"dry_run": true, "tasks": items(&found)});
            output::answer(environment, &value, &text.join("\n"));
            return Ok(0);
        }
        let all = found.len();
        let tell = |done: usize| {
            if all > 1_000 && !environment.json {
                output::note(environment, &format!("removed {done} of {all}"));
            }
        };
        let pruned = prune(&engine, &found, arguments.older_than, now, tell).await?;
        for (id, error) in &pruned.files_left {
            output::note(
                environment,
                &format!("{id} stays: its file could not be removed: {error}"),
            );
        }
        let (tasks, events, attempts) = (pruned.tasks, pruned.events, pruned.attempts);
        let text = match attempts {
            0 => format!("removed {} tasks and {events} events", tasks.len()),
            _ => format!("removed {} tasks, {events} events and {attempts} attempts", tasks.len()),
        };
        let value =
            json!({"dry_run": false, "tasks": tasks, "events": events, "attempts": attempts});
        output::answer(environment, &value, &text);
        Ok(0)
    })
}

fn items(found: &[Candidate]) -> Vec<Value> {
    found.iter().map(|one| json!({"id": one.id, "why": one.why})).collect()
}
