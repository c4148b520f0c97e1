//! A task that the program works on.

use std::collections::BTreeMap;

use relight_core::error_code::Refused;
use relight_core::task::{Cost, Usage};
use relight_core::time::{Moment, Span};
use relight_runtime::engine::ActError;
use relight_runtime::operations::fields;
use relight_runtime::operations::work::no_claimant;
use relight_runtime::os::clock;
use relight_runtime::{End, Relight, RunningTask, TaskBuilder, TaskQueue};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::fork_guard::OfProcess;
use crate::open::invalid;
use crate::step::{StepBegun, StepRequest};

/// A task to start or to continue.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// Its id.
    pub task: String,
    /// One line for people.
    pub title: Option<String>,
    /// Whose task it is.
    pub agent: Option<String>,
    /// The declared steps, in order.
    #[serde(default)]
    pub steps: Vec<String>,
    /// What it is about.
    pub payload: Option<Value>,
    /// What becomes of it when its holder dies or it fails.
    pub strategy: Option<String>,
    /// How often it may be assigned again.
    pub max_retries: Option<u32>,
    /// What makes two requests the same request.
    pub key: Option<String>,
    /// Larger goes first.
    #[serde(default)]
    pub priority: i32,
    /// Skills that an agent needs.
    #[serde(default)]
    pub needs: Vec<String>,
    /// How long it is worth resuming.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub ttl: Option<Span>,
    /// First context for a successor.
    #[serde(default, deserialize_with = "fields::context")]
    pub set: BTreeMap<String, String>,
    /// Holds it for so long, renewed in the background, instead of for as long as the process lives.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub lease: Option<Span>,
    /// Start it even if it waits for a person, or has used up its budget.
    #[serde(default)]
    pub force: bool,
}

impl TaskRequest {
    /// Reads it from JSON. What is null was not given.
    pub fn read(given: Map<String, Value>) -> Result<Self, Refused> {
        Ok(relight_runtime::operations::read(given)?)
    }

    pub(crate) fn builder(self, relight: &Relight) -> Result<TaskBuilder, Refused> {
        let mut task = relight.task(&self.task).map_err(invalid)?;
        task = task.priority(self.priority).context(self.set);
        for step in &self.steps {
            task = task.declare(step).map_err(invalid)?;
        }
        for skill in &self.needs {
            task = task.needs(skill);
        }
        if let Some(title) = &self.title {
            task = task.title(title);
        }
        if let Some(agent) = &self.agent {
            task = task.agent(agent).map_err(invalid)?;
        }
        if let Some(payload) = self.payload {
            task = task.payload(payload);
        }
        if let Some(strategy) = &self.strategy {
            task = task.strategy(strategy).map_err(invalid)?;
        }
        if let Some(max_retries) = self.max_retries {
            task = task.max_retries(max_retries);
        }
        if let Some(key) = &self.key {
            task = task.key(key).map_err(invalid)?;
        }
        if let Some(ttl) = self.ttl {
            task = task.expires_in(ttl);
        }
        if let Some(lease) = self.lease {
            task = task.lease(lease);
        }
        Ok(if self.force { task.force() } else { task })
    }
}

/// How work on a task ends.
#[derive(Debug, Clone)]
pub enum TaskEnd {
    /// It is finished.
    Done,
    /// Records that it failed; its strategy decides what happens next.
    Fail {
        /// Why.
        reason: String,
    },
    /// It cannot continue before a person acts.
    Block {
        /// Why.
        reason: String,
    },
    /// It continues later.
    Defer {
        /// A time, or a duration from now.
        until: String,
    },
}

impl Client {
    /// Starts a task, or continues it where it was.
    pub async fn start_task(&self, request: TaskRequest) -> Result<TaskHandle, Refused> {
        let builder = request.builder(&self.shared()?.relight)?;
        Ok(TaskHandle::new(self.clone(), builder.start().await?))
    }

    /// Takes the best task that there is for an agent with these skills, waiting for one for so long; none
    /// when there was none. Without an agent it is the calling one.
    pub async fn claim(
        &self,
        agent: Option<&str>,
        skills: &[String],
        wait: Option<Span>,
        lease: Option<Span>,
    ) -> Result<Option<TaskHandle>, Refused> {
        let shared = self.shared()?;
        let own = shared.caller.agent.as_ref().map(|agent| agent.as_str());
        let agent = agent.or(own).ok_or_else(no_claimant)?;
        let queue: TaskQueue = shared.relight.queue();
        let queue = match lease {
            Some(lease) => queue.lease(lease),
            None => queue,
        };
        let claimed = match wait {
            Some(wait) => queue.claim_wait(agent, skills, wait.as_duration()).await?,
            None => queue.claim(agent, skills).await?,
        };
        Ok(claimed.map(|task| TaskHandle::new(self.clone(), task)))
    }
}

/// A task under the program's lease. Dropped without an end it is interrupted, and anybody may continue it.
#[derive(Debug)]
pub struct TaskHandle {
    // Before the client: its end is queued in the store, which is open as long as the client lives.
    task: OfProcess<RunningTask>,
    client: Client,
}

impl TaskHandle {
    pub(crate) fn new(client: Client, task: RunningTask) -> Self {
        Self {
            task: OfProcess::new(task),
            client,
        }
    }

    /// The client that it came from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn task(&self) -> Result<&RunningTask, Refused> {
        self.task.get()
    }

    /// The task as it was started, as `task start --json` shows it.
    pub fn started(&self) -> Result<Value, Refused> {
        let task = self.task()?;
        let (record, progress) = (task.record(), task.progress());
        Ok(json!({
            "task": task.id(),
            "status": record.status,
            "title": record.spec.title,
            "agent": record.agent,
            "fence": task.fence().0,
            "resumed": task.resumed(),
            "done_steps": progress.done_steps,
            "in_doubt": progress.in_doubt,
            "next_step": progress.next_step,
            "context": record.context,
            "payload": record.spec.payload,
        }))
    }

    /// Whether this handle has ended the task.
    pub fn is_over(&self) -> Result<bool, Refused> {
        Ok(self.task()?.is_over())
    }

    /// Begins a step, or gives its recorded value. Under the rules `keyed` and `repeatable` that waits for
    /// nothing: the end puts both on disk.
    pub async fn begin_step(&self, request: &StepRequest) -> Result<StepBegun, Refused> {
        let task = self.task()?;
        let plan = request.plan(task)?;
        StepBegun::new(&self.client, task.id(), plan.begin().await)
    }

    /// Adds context for a successor.
    pub async fn set(&self, pairs: BTreeMap<String, String>) -> Result<(), Refused> {
        let task = self.task()?;
        for (key, value) in pairs {
            task.set(&key, &value).await?;
        }
        Ok(())
    }

    /// Adds to what the task has cost, such as `0.25`, and to the turns of a model that it took.
    pub async fn spend(&self, cost: Option<&str>, turns: u64) -> Result<(), Refused> {
        let cost: Cost = match cost {
            Some(text) => text.parse().map_err(invalid)?,
            None => Cost::default(),
        };
        let usage = Usage {
            cost_micros: cost.0,
            turns,
            ..Usage::default()
        };
        Ok(self.task()?.spend(usage).await?)
    }

    /// Closes a declared step on purpose without doing it.
    pub async fn skip(&self, step: &str, reason: &str) -> Result<(), Refused> {
        Ok(self.task()?.skip(step, reason).await?)
    }

    /// Ends the work. What a strategy made of a failure is the answer; null otherwise.
    pub async fn end(&self, end: TaskEnd) -> Result<Value, Refused> {
        let task = self.task()?;
        let end = match end {
            TaskEnd::Fail { reason } => return Ok(json!(task.fail_with(&reason).await?)),
            TaskEnd::Done => End::Done,
            TaskEnd::Block { reason } => End::Block { reason },
            TaskEnd::Defer { until } => {
                let moment: Moment = until.parse().map_err(invalid)?;
                let until = moment.after(clock::now()).map_err(invalid)?;
                End::Defer { until }
            }
        };
        task.end_with(end).await?;
        Ok(Value::Null)
    }

    /// Gives the task up: it is interrupted, and anybody may continue it. Nothing happens where it has ended
    /// or is somebody else's.
    pub async fn release(&self) -> Result<(), Refused> {
        let task = self.task()?;
        if task.is_over() {
            return Ok(());
        }
        match task.interrupt("it was given up").await {
            Err(ActError::Refused(_)) => Ok(()),
            released => Ok(released?),
        }
    }

    /// Completes when somebody else has the lease: whatever is being done should be dropped.
    pub async fn lost(&self) -> Result<Refused, Refused> {
        let refusal = self.task()?.lost().await;
        Ok(ActError::from(refusal).into())
    }
}
