//! `Task`, `Step` and `Turn`: what the program works on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use relight_sdk::{Client, StepBegun, StepHandle, StepRequest, TaskEnd, TaskHandle, TurnHandle};

use crate::call::{run, run_now};
use crate::completions::AnswerTo;
use crate::error::{PythonFailure, ended};
use crate::outcome::Outcome;

/// A task under this process's lease.
#[pyclass(frozen, name = "Task", module = "relight._native")]
#[derive(Debug)]
pub(crate) struct PythonTask(Mutex<Option<Arc<TaskHandle>>>);

impl PythonTask {
    pub(crate) fn new(task: TaskHandle) -> Self {
        Self(Mutex::new(Some(Arc::new(task))))
    }

    fn handle(&self) -> PyResult<Arc<TaskHandle>> {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        task.clone().ok_or_else(|| ended("task"))
    }

    fn run<F>(
        &self,
        py: Python<'_>,
        via: Option<AnswerTo>,
        call: impl FnOnce(Arc<TaskHandle>) -> F,
    ) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Outcome, relight_sdk::Refused>> + Send + 'static,
    {
        let task = self.handle()?;
        run(py, task.client(), via, call(Arc::clone(&task)))
    }

    fn end(&self, py: Python<'_>, end: TaskEnd, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.run(py, via, |task| async move {
            Ok(Outcome::Json(task.end(end).await?.to_string()))
        })
    }
}

#[pymethods]
impl PythonTask {
    /// The task as it was started, as JSON.
    fn started(&self) -> PyResult<String> {
        let started = self.handle()?.started().map_err(PythonFailure::from)?;
        Ok(started.to_string())
    }

    fn is_over(&self) -> PyResult<bool> {
        Ok(self.handle()?.is_over().map_err(PythonFailure::from)?)
    }

    /// Begins a step: its recorded value as JSON, or a `Step` to run and to end.
    #[pyo3(signature = (name, repeat=None, occurrence=None, input=None, via=None))]
    fn begin_step(
        &self,
        py: Python<'_>,
        name: String,
        repeat: Option<String>,
        occurrence: Option<u32>,
        input: Option<&str>,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        let input = input.map(serde_json::from_str).transpose();
        let input =
            input.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        let waits = repeat
            .as_deref()
            .is_some_and(|rule| rule == "once" || rule == "verify");
        let request = StepRequest {
            name,
            repeat,
            occurrence,
            input,
        };
        let task = self.handle()?;
        let begin = {
            let task = Arc::clone(&task);
            async move { Ok(task.begin_step(&request).await?.into()) }
        };
        match waits {
            true => run(py, task.client(), via, begin),
            false => run_now(py, task.client(), via, begin),
        }
    }

    #[pyo3(signature = (pairs, via=None))]
    fn set(
        &self,
        py: Python<'_>,
        pairs: BTreeMap<String, String>,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, via, |task| async move {
            task.set(pairs).await?;
            Ok(Outcome::Nothing)
        })
    }

    #[pyo3(signature = (cost, turns, via=None))]
    fn spend(
        &self,
        py: Python<'_>,
        cost: Option<String>,
        turns: u64,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, via, |task| async move {
            task.spend(cost.as_deref(), turns).await?;
            Ok(Outcome::Nothing)
        })
    }

    #[pyo3(signature = (step, reason, via=None))]
    fn skip(
        &self,
        py: Python<'_>,
        step: String,
        reason: String,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, via, |task| async move {
            task.skip(&step, &reason).await?;
            Ok(Outcome::Nothing)
        })
    }

    #[pyo3(signature = (via=None))]
    fn done(&self, py: Python<'_>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.end(py, TaskEnd::Done, via)
    }

    #[pyo3(signature = (reason, via=None))]
    fn fail(&self, py: Python<'_>, reason: String, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.end(py, TaskEnd::Fail { reason }, via)
    }

    #[pyo3(signature = (reason, via=None))]
    fn block(&self, py: Python<'_>, reason: String, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.end(py, TaskEnd::Block { reason }, via)
    }

    #[pyo3(signature = (until, via=None))]
    fn defer(&self, py: Python<'_>, until: String, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.end(py, TaskEnd::Defer { until }, via)
    }

    /// Waits until somebody else has the lease.
    #[pyo3(signature = (via=None))]
    fn lost(&self, py: Python<'_>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        self.run(py, via, |task| async move { Err(task.lost().await?) })
    }

    /// Gives the task up: one that was not ended is interrupted, and anybody may continue it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let released = self.run(py, None, |task| async move {
            task.release().await?;
            Ok(Outcome::Nothing)
        });
        self.close(py);
        released.map(drop)
    }

    /// The same without waiting for it.
    fn close(&self, py: Python<'_>) {
        let task = {
            let mut task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            task.take()
        };
        py.detach(|| drop(task));
    }
}

/// A step that was begun.
#[pyclass(frozen, name = "Step", module = "relight._native")]
#[derive(Debug)]
pub(crate) struct PythonStep {
    /// It is in doubt, and has to be verified first.
    #[pyo3(get)]
    verify: bool,
    #[pyo3(get)]
    tries: u32,
    #[pyo3(get)]
    in_doubt: bool,
    #[pyo3(get)]
    idempotency_key: String,
    client: Client,
    step: Mutex<Option<StepHandle>>,
}

impl PythonStep {
    pub(crate) fn new(step: StepHandle, verify: bool) -> Self {
        Self {
            verify,
            tries: step.tries(),
            in_doubt: step.in_doubt(),
            idempotency_key: step.idempotency_key().to_owned(),
            client: step.client().clone(),
            step: Mutex::new(Some(step)),
        }
    }

    fn take(&self) -> PyResult<StepHandle> {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        step.take().ok_or_else(|| ended("step"))
    }
}

#[pymethods]
impl PythonStep {
    /// It gave this JSON.
    #[pyo3(signature = (value, via=None))]
    fn finish(&self, py: Python<'_>, value: Vec<u8>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let step = self.take()?;
        run(py, &self.client, via, async move {
            step.finish(value).await?;
            Ok(Outcome::Nothing)
        })
    }

    #[pyo3(signature = (error, via=None))]
    fn fail(&self, py: Python<'_>, error: String, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let step = self.take()?;
        run(py, &self.client, via, async move {
            step.fail(error).await?;
            Ok(Outcome::Nothing)
        })
    }

    /// It did not happen: a step to run now.
    #[pyo3(signature = (via=None))]
    fn did_not_happen(&self, py: Python<'_>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let step = self.take()?;
        run(py, &self.client, via, async move {
            let step = step.did_not_happen().await?;
            Ok(Outcome::object(PythonStep::new(step, false)))
        })
    }
}

impl From<StepBegun> for Outcome {
    fn from(begun: StepBegun) -> Self {
        match begun {
            StepBegun::Done(value) => Self::Value(value),
            StepBegun::Run(step) => Self::object(PythonStep::new(step, false)),
            StepBegun::Verify(step) => Self::object(PythonStep::new(step, true)),
        }
    }
}

/// A turn in flight.
#[pyclass(frozen, name = "Turn", module = "relight._native")]
#[derive(Debug)]
pub(crate) struct PythonTurn {
    begun: String,
    client: Client,
    turn: Mutex<Option<TurnHandle>>,
}

impl PythonTurn {
    pub(crate) fn new(turn: TurnHandle) -> Self {
        Self {
            begun: turn.begun().to_string(),
            client: turn.client().clone(),
            turn: Mutex::new(Some(turn)),
        }
    }
}

#[pymethods]
impl PythonTurn {
    /// Its begin, as JSON.
    fn begun(&self) -> &str {
        &self.begun
    }

    #[pyo3(signature = (via=None))]
    fn end(&self, py: Python<'_>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let turn = {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            turn.take().ok_or_else(|| ended("turn"))?
        };
        run(py, &self.client, via, async move {
            turn.end().await?;
            Ok(Outcome::Nothing)
        })
    }

    /// Gives the turn up: the session is idle again, and no death is counted.
    fn close(&self, py: Python<'_>) {
        let turn = {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            turn.take()
        };
        py.detach(|| drop(turn));
    }
}
