//! The library as a front: the same requests as calls of a program that embeds Relight.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use relight_runtime::core::step::RepeatRule;
use relight_runtime::engine::ActError;
use relight_runtime::{Relight, RunningTask, StepError};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::front::Answer;

/// An open store and the tasks that this process works on.
pub(crate) struct Library {
    runtime: Runtime,
    relight: Relight,
    tasks: HashMap<String, RunningTask>,
    /// A step that was begun: the library begins and ends it in one call.
    begun: HashMap<String, RepeatRule>,
}

impl Library {
    pub(crate) fn open(file: &Path) -> Self {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let relight = runtime
            .block_on(Relight::open(&format!("sqlite:{}", file.display())))
            .unwrap();
        Self {
            runtime,
            relight,
            tasks: HashMap::new(),
            begun: HashMap::new(),
        }
    }

    pub(crate) fn call(&mut self, operation: &str, fields: &Value) -> Option<Answer> {
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        let (task, step) = (text("task"), text("step"));
        let answer = match operation {
            "task.start" => self.start(&task, fields),
            "step.begin" => {
                // Begun and not ended: the first future is dropped half way.
                if self.begun.contains_key(&step) {
                    self.drop_half_way(&task, &step);
                }
                self.begun
                    .insert(step, text("rule").parse().unwrap_or_default());
                return None;
            }
            // A step of the library has no cost of its own; the task has.
            "step.end" if fields.get("cost").or(fields.get("turns")).is_some() => return None,
            "step.end" => {
                let rule = self.begun.remove(&step)?;
                self.end(&task, &step, rule, fields)
            }
            "step.skip" => {
                let task = self.tasks.get(&task)?;
                self.runtime.block_on(task.skip(&step, &text("reason")))
            }
            "task.done" | "task.block" => {
                let running = self.tasks.remove(&task)?;
                self.runtime.block_on(async {
                    match operation {
                        "task.done" if fields["force"] == true => running.done_by_force().await,
                        "task.done" => running.done().await,
                        _ => running.block(&text("reason")).await,
                    }
                })
            }
            _ => return None,
        };
        Some(
            answer
                .map(|()| Value::Null)
                .map_err(|error| json!({"code": error.code().name, "message": error.to_string()})),
        )
    }

    fn start(&mut self, id: &str, fields: &Value) -> Result<(), ActError> {
        let mut builder = self.relight.task(id)?;
        if let Some(agent) = fields["agent"].as_str() {
            builder = builder.agent(agent)?;
        }
        if let Some(title) = fields["title"].as_str() {
            builder = builder.title(title);
        }
        for step in fields["steps"].as_array().into_iter().flatten() {
            builder = builder.declare(step.as_str().unwrap())?;
        }
        let started = self.runtime.block_on(builder.start())?;
        self.tasks.insert(id.to_owned(), started);
        Ok(())
    }

    fn drop_half_way(&self, task: &str, step: &str) {
        let (plan, began) = (self.tasks[task].plan(step).unwrap(), RefCell::new(false));
        let rule = self.begun[step];
        let step = plan.rule(rule).occurrence(1).run(async |_| {
            *began.borrow_mut() = true;
            std::future::pending::<Result<(), String>>().await
        });
        let is_begun = async {
            while !*began.borrow() {
                tokio::task::yield_now().await;
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                _ = step => panic!("a pending step has ended"),
                () = is_begun => {}
            }
        });
    }

    fn end(
        &self,
        task: &str,
        step: &str,
        rule: RepeatRule,
        fields: &Value,
    ) -> Result<(), ActError> {
        let running = &self.tasks[task];
        let plan = running.plan(step).unwrap().rule(rule).occurrence(1);
        let failed = fields["failed"] == true;
        let run = async |_| {
            if failed {
                Err("it failed")
            } else {
                Ok(fields["output"].clone())
            }
        };
        match self.runtime.block_on(plan.run(run)) {
            Ok(_) | Err(StepError::Failed(_) | StepError::InDoubt(_)) => Ok(()),
            Err(StepError::Act(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }
}
