//! Workers of the product: each holds a task, or adds tasks, through the library.

use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::load::Worker;
use crate::product::{Library, Task};
use crate::prose::prose;

/// The size of every step's result.
pub(crate) const RESULT_BYTES: usize = 1024;

/// Holds one task and runs its steps, each with a name of its own.
pub(crate) struct Holder {
    task: Task,
    result: Arc<str>,
    steps: usize,
}

impl Holder {
    /// Starts `count` tasks whose ids begin with `name`; not part of any figure.
    pub(crate) fn start(
        runtime: &Runtime,
        library: &Library,
        name: &str,
        count: usize,
    ) -> anyhow::Result<Vec<Holder>> {
        let result: Arc<str> = prose(RESULT_BYTES).into();
        let start = |number| {
            let task = runtime.block_on(library.start_task(&format!("{name}-{number}")))?;
            Ok(Holder {
                task,
                result: result.clone(),
                steps: 0,
            })
        };
        (0..count).map(start).collect()
    }
}

impl Worker for Holder {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.steps += 1;
        self.task
            .step(&format!("step-{}", self.steps), &self.result)
            .await
    }
}

/// Adds one unfinished task after the other.
pub(crate) struct Adder {
    pub(crate) library: Arc<Library>,
    pub(crate) number: usize,
    pub(crate) added: usize,
}

impl Worker for Adder {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.added += 1;
        self.library
            .add_unfinished_task(&format!("task-{}-{}", self.number, self.added))
            .await
    }
}
