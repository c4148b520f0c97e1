//! A task that the program works on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use napi::Result;
use napi_derive::napi;
use relight_sdk::{
    Client, ErrorCode, Refused, StepBegun, StepHandle, StepRequest, TaskEnd, TaskHandle,
    TaskRequest, read_object,
};
use serde::Deserialize;

use crate::bridge::{Bridge, lock};
use crate::client::{NativeClient, opened, thrown};
use crate::step::{BeganStep, at_once};

/// Work that is looked for in the queue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    agent: Option<String>,
    #[serde(default)]
    skills: Vec<String>,
    wait: Option<String>,
    lease: Option<String>,
}

/// A task; none before it was started or claimed, and after it was let go.
#[napi]
pub struct NativeTask {
    bridge: Arc<Bridge>,
    client: Arc<OnceLock<Client>>,
    task: Slot,
    steps: Arc<Mutex<HashMap<u32, StepHandle>>>,
}

type Slot = Arc<Mutex<Option<Arc<TaskHandle>>>>;
type Settled = std::result::Result<Option<String>, Refused>;

#[napi]
impl NativeTask {
    /// Makes the handle; nothing is asked of the store.
    #[napi(constructor)]
    pub fn new(client: &NativeClient) -> Self {
        Self {
            bridge: Arc::clone(&client.bridge),
            client: Arc::clone(&client.client),
            task: Slot::default(),
            steps: Arc::default(),
        }
    }

    /// Starts or continues a task.
    #[napi]
    pub fn start(&self, number: u32, request: String) -> Result<()> {
        let (client, slot) = (opened(&self.client)?.clone(), Arc::clone(&self.task));
        self.bridge.spawn(&client.clone(), number, async move {
            let task = client
                .start_task(TaskRequest::read(read_object(&request)?)?)
                .await?;
            put(&slot, task)
        });
        Ok(())
    }

    /// Takes a task from the queue; settled with nothing when there is none.
    #[napi]
    pub fn claim(&self, number: u32, request: String) -> Result<()> {
        let (client, slot) = (opened(&self.client)?.clone(), Arc::clone(&self.task));
        self.bridge.spawn(&client.clone(), number, async move {
            let claim: Claim = serde_json::from_str(&request).map_err(invalid)?;
            let span = |text: Option<String>| text.map(|text| text.parse()).transpose();
            let (wait, lease) = (span(claim.wait), span(claim.lease));
            let (wait, lease) = (wait.map_err(invalid)?, lease.map_err(invalid)?);
            let agent = claim.agent.as_deref();
            match client.claim(agent, &claim.skills, wait, lease).await? {
                Some(task) => put(&slot, task),
                None => Ok(None),
            }
        });
        Ok(())
    }

    /// Begins a step. The state of `BeganStep` says what is next; 0 means that the call is settled later,
    /// with the same as JSON.
    #[napi]
    pub fn begin_step(
        &self,
        number: u32,
        name: String,
        repeat: Option<String>,
        occurrence: Option<u32>,
        input: Option<String>,
    ) -> Result<BeganStep> {
        let client = opened(&self.client)?;
        let task = self.task().map_err(|refused| thrown(&refused))?;
        let input = input.map(|text| serde_json::from_str(&text)).transpose();
        let request = StepRequest {
            name,
            repeat,
            occurrence,
            input: input.map_err(|error| thrown(&invalid(error)))?,
        };
        // What must be on disk before the step acts is not written on the thread of JavaScript.
        let is_on_disk_first = matches!(request.repeat.as_deref(), Some("once" | "verify"));
        let call = async move { task.begin_step(&request).await };
        let mut call = Box::pin(call);
        let runtime = client.runtime().map_err(|refused| thrown(&refused))?;
        if !is_on_disk_first && let Some(begun) = at_once(runtime, call.as_mut()) {
            return self.begun(number, begun.map_err(|refused| thrown(&refused))?);
        }
        let steps = Arc::clone(&self.steps);
        self.bridge.spawn(client, number, async move {
            let began = note(&steps, number, call.await?)?;
            Ok(Some(
                serde_json::to_string(&began).expect("it has string keys"),
            ))
        });
        Ok(BeganStep::default())
    }

    fn begun(&self, number: u32, begun: StepBegun) -> Result<BeganStep> {
        note(&self.steps, number, begun).map_err(|refused| thrown(&refused))
    }

    /// What a step that was begun may want to know: its idempotency key.
    #[napi]
    pub fn step_key(&self, step: u32) -> Option<String> {
        let steps = lock(&self.steps);
        steps
            .get(&step)
            .map(|step| step.idempotency_key().to_owned())
    }

    /// Ends a step with its value as JSON.
    #[napi]
    pub fn finish_step(&self, number: u32, step: u32, value: String) -> Result<()> {
        let step = self.take_step(step)?;
        self.settle(number, async move {
            step.finish(value.into_bytes()).await?;
            Ok(None)
        })
    }

    /// Records a failed try of a step.
    #[napi]
    pub fn fail_step(&self, number: u32, step: u32, error: String) -> Result<()> {
        let step = self.take_step(step)?;
        self.settle(number, async move {
            step.fail(error).await?;
            Ok(None)
        })
    }

    /// A step in doubt is known not to have happened: it is to be run now, under the same number.
    #[napi]
    pub fn step_did_not_happen(&self, number: u32, step: u32) -> Result<()> {
        let (steps, open) = (Arc::clone(&self.steps), self.take_step(step)?);
        self.settle(number, async move {
            let again = open.did_not_happen().await?;
            lock(&steps).insert(step, again);
            Ok(None)
        })
    }

    /// Gives a step up: it stays in doubt.
    #[napi]
    pub fn drop_step(&self, step: u32) {
        lock(&self.steps).remove(&step);
    }

    /// Adds context for a successor.
    #[napi]
    pub fn set(&self, number: u32, pairs: String) -> Result<()> {
        let task = self.task().map_err(|refused| thrown(&refused))?;
        self.settle(number, async move {
            let pairs: BTreeMap<String, String> = serde_json::from_str(&pairs).map_err(invalid)?;
            task.set(pairs).await?;
            Ok(None)
        })
    }

    /// Adds to what the task has cost.
    #[napi]
    pub fn spend(&self, number: u32, cost: Option<String>, turns: u32) -> Result<()> {
        let task = self.task().map_err(|refused| thrown(&refused))?;
        self.settle(number, async move {
            task.spend(cost.as_deref(), turns.into()).await?;
            Ok(None)
        })
    }

    /// Closes a declared step without doing it.
    #[napi]
    pub fn skip(&self, number: u32, step: String, reason: String) -> Result<()> {
        let task = self.task().map_err(|refused| thrown(&refused))?;
        self.settle(number, async move {
            task.skip(&step, &reason).await?;
            Ok(None)
        })
    }

    /// Ends the work: `done`, `fail`, `block` or `defer`, with the reason or the time.
    #[napi]
    pub fn end(&self, number: u32, how: String, why: String) -> Result<()> {
        let task = self.task().map_err(|refused| thrown(&refused))?;
        self.settle(number, async move {
            let end = match how.as_str() {
                "done" => TaskEnd::Done,
                "fail" => TaskEnd::Fail { reason: why },
                "block" => TaskEnd::Block { reason: why },
                "defer" => TaskEnd::Defer { until: why },
                other => return Err(invalid(format!("{other} is not an end of a task"))),
            };
            Ok(Some(task.end(end).await?.to_string()))
        })
    }

    /// Whether the lease has ended: by an end, or by a step in doubt that blocked the task.
    #[napi]
    pub fn is_over(&self) -> bool {
        self.task().and_then(|task| task.is_over()).unwrap_or(true)
    }

    /// Settled with the error when somebody else has the lease.
    #[napi]
    pub fn lost(&self, number: u32) -> Result<()> {
        let task = self.task().map_err(|refused| thrown(&refused))?;
        self.settle(number, async move { Err(task.lost().await?) })
    }

    /// Lets it go: interrupted if it was not ended, and anybody may continue it.
    #[napi]
    pub fn close(&self) {
        lock(&self.steps).clear();
        drop(lock(&self.task).take());
    }

    fn task(&self) -> std::result::Result<Arc<TaskHandle>, Refused> {
        lock(&self.task).clone().ok_or_else(|| {
            let hint = "start it again: the recorded steps are there";
            Refused::new(
                ErrorCode::CONFLICT,
                "the handle of this task is closed",
                hint,
            )
        })
    }

    fn take_step(&self, step: u32) -> Result<StepHandle> {
        let taken = lock(&self.steps).remove(&step);
        taken.ok_or_else(|| {
            let hint = "a step ends once; begin a new one";
            thrown(&Refused::new(
                ErrorCode::CONFLICT,
                "this step has ended",
                hint,
            ))
        })
    }

    fn settle(
        &self,
        number: u32,
        call: impl Future<Output = Settled> + Send + 'static,
    ) -> Result<()> {
        self.bridge.spawn(opened(&self.client)?, number, call);
        Ok(())
    }
}

/// Keeps the handle and tells what was started.
fn put(slot: &Slot, task: TaskHandle) -> Settled {
    let started = task.started()?.to_string();
    *lock(slot) = Some(Arc::new(task));
    Ok(Some(started))
}

/// Keeps the handle of a step that is to be run under its number.
fn note(
    steps: &Mutex<HashMap<u32, StepHandle>>,
    number: u32,
    begun: StepBegun,
) -> std::result::Result<BeganStep, Refused> {
    let (state, step) = match begun {
        StepBegun::Done(value) => {
            let value = String::from_utf8(value).map_err(invalid)?;
            return Ok(BeganStep::done(value));
        }
        StepBegun::Run(step) => (BeganStep::RUN, step),
        StepBegun::Verify(step) => (BeganStep::VERIFY, step),
    };
    let began = BeganStep {
        state,
        value: None,
        tries: step.tries(),
        in_doubt: step.in_doubt(),
    };
    lock(steps).insert(number, step);
    Ok(began)
}

fn invalid(error: impl std::fmt::Display) -> Refused {
    Refused::without_hint(ErrorCode::INVALID, error.to_string())
}
