//! The verbs that are killed and harmed call by call, each with what comes before it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::checker;
use crate::world::product::Product;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Violation};

/// One verb in one situation.
#[derive(Debug, Clone, Copy)]
pub struct Verb {
    /// What it is called in reports.
    pub name: &'static str,
    /// The calls that bring the store to where the verb is used. `PID` is the prover's.
    before: &'static [&'static str],
    /// The verb itself. `DIR` is the folder of the checkpoint files, `EFFECT` a command.
    words: &'static str,
    /// Whether it leaves a checkpoint file.
    pub has_file: bool,
}

const TASK: [&str; 3] = [
    "task start T --owner-pid PID --step s01 --step s02 --set a=1",
    "step run s01 --task T -- echo first",
    "step begin s02 --task T",
];
const WORKFLOW: [&str; 2] = [
    "checkpoint start --workflow T --agent prover --step s01 --remaining s02 s03 --idempotency k --dir DIR",
    "checkpoint update --workflow T --complete s01 --step s02 --dir DIR",
];

/// All of them; those that `--quick` takes come first.
pub const VERBS: [Verb; 12] = [
    Verb::of_task("step end", &TASK, "step end s02 --task T"),
    Verb::of_workflow(
        "checkpoint update",
        &WORKFLOW,
        "update --workflow T --complete s02 --step s03",
    ),
    Verb::of_task(
        "task start, new store",
        &[],
        "task start T --owner-pid PID --step s01 --step s02",
    ),
    Verb::of_task(
        "task start, known store",
        &["task add U"],
        "task start T --owner-pid PID --step s01",
    ),
    Verb::of_task("step begin", TASK.split_at(2).0, "step begin s02 --task T"),
    Verb::of_task(
        "step run",
        TASK.split_at(2).0,
        "step run s02 --task T -- EFFECT",
    ),
    Verb::of_task("task set", &TASK, "task set T b=2"),
    Verb::of_task("task done", TASK.split_at(2).0, "task done T --force"),
    Verb::of_workflow(
        "checkpoint start, new store",
        &[],
        "start --workflow T --agent prover --step s01 --remaining s02 --idempotency k",
    ),
    Verb::of_workflow(
        "checkpoint resume",
        &WORKFLOW,
        "resume --workflow T --owner-pid PID",
    ),
    Verb::of_workflow("checkpoint complete", &WORKFLOW, "complete --workflow T"),
    Verb::of_workflow(
        "checkpoint start --force",
        &WORKFLOW,
        "start --force --workflow T --agent prover --step s01 --remaining s02 --idempotency k2",
    ),
];

impl Verb {
    const fn of_task(
        name: &'static str,
        before: &'static [&'static str],
        words: &'static str,
    ) -> Self {
        Self {
            name,
            before,
            words,
            has_file: false,
        }
    }

    const fn of_workflow(
        name: &'static str,
        before: &'static [&'static str],
        words: &'static str,
    ) -> Self {
        Self {
            name,
            before,
            words,
            has_file: true,
        }
    }

    /// Makes the folder in which the verb is used.
    pub fn prepare(&self, product: &Product, folder: &Path) -> anyhow::Result<Stage> {
        let stage = Stage::in_folder(product, folder, "T")?;
        for line in self.before {
            let answer = stage
                .product
                .call(&stage.home, &as_str(&fill(line, &stage)))?;
            anyhow::ensure!(answer.code == 0, "{line}: {}", answer.stderr);
        }
        Ok(stage)
    }

    /// The verb, ready to run.
    pub fn command(&self, stage: &Stage) -> Command {
        let line = match self.has_file {
            true => format!("checkpoint {} --dir DIR", self.words),
            false => self.words.to_owned(),
        };
        stage
            .product
            .relight(&stage.home, &as_str(&fill(&line, stage)))
    }

    /// What can be compared: what was kept, without times and counters.
    pub fn state(&self, stage: &Stage) -> Value {
        let task = match stage.task_shown() {
            Ok(Some(task)) => task,
            Ok(None) => return Value::Null,
            Err(error) => return json!({"unreadable": format!("{error:#}")}),
        };
        let steps = task["steps"].as_array().cloned().unwrap_or_default();
        let steps = steps
            .iter()
            .map(|step| json!([step["name"], step["state"]]));
        json!({
            "status": task["status"],
            "key": task["key"],
            "context": task["context"],
            "held": !task["holder"].is_null(),
            "steps": steps.collect::<Vec<_>>(),
        })
    }

    /// After harm: what was there before is still there, and no file is torn.
    pub fn check_kept(&self, stage: &Stage, before: &Value) -> anyhow::Result<Vec<Violation>> {
        let mut found = checker::check_files_whole(stage)?;
        let now = self.state(stage);
        if let Some(why) = now["unreadable"].as_str() {
            found.push(Violation::new(Promise::Damage, why));
            return Ok(found);
        }
        let replaces = self.name.contains("--force");
        let list = |value: &Value| value["steps"].as_array().cloned().unwrap_or_default();
        let was_done = list(before).into_iter().filter(|step| step[1] == "done");
        for step in was_done.filter(|step| !replaces && !list(&now).contains(step)) {
            found.push(Violation::new(
                Promise::Lost,
                format!("{step} was done before: {now}"),
            ));
        }
        let pairs = before["context"].as_object().into_iter().flatten();
        for (key, value) in pairs.filter(|(key, value)| now["context"][key] != **value) {
            found.push(Violation::new(
                Promise::Lost,
                format!("context {key}={value}"),
            ));
        }
        Ok(found)
    }

    /// The verb once more, without harm: it ends well, and everything is as if nothing had been.
    pub fn check_repeated(&self, stage: &Stage, after: &Value) -> anyhow::Result<Vec<Violation>> {
        let was_there = self.state(stage) == *after;
        let answer = crate::world::product::finish(&mut self.command(stage))?;
        let refused_as_done = answer.code == 1 && was_there && self.name == "task done";
        let mut found = Vec::new();
        if answer.code != 0 && !refused_as_done {
            let text = format!("repeated: exit {}: {}", answer.code, answer.stderr.trim());
            found.push(Violation::new(Promise::Answer, text));
        }
        let now = self.state(stage);
        if now != *after {
            let text = format!("repeated, it is {now} instead of {after}");
            found.push(Violation::new(Promise::Lost, text));
        }
        if self.has_file {
            found.extend(checker::check_file(stage)?);
        }
        found.extend(checker::check_pages(stage)?);
        Ok(found)
    }
}

fn fill(line: &str, stage: &Stage) -> Vec<String> {
    let ledger = stage.ledger.path().display().to_string();
    let mut words = Vec::new();
    for word in line.split(' ') {
        match word {
            "PID" => words.push(std::process::id().to_string()),
            "DIR" => words.push(stage.checkpoints.display().to_string()),
            "EFFECT" => {
                let driver = stage.product.driver.display().to_string();
                words.extend([
                    driver,
                    "effect".into(),
                    ledger.clone(),
                    "T".into(),
                    "s02".into(),
                ]);
            }
            word => words.push(word.to_owned()),
        }
    }
    words
}

fn as_str(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
