//! `Client`: an open store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use relight_sdk::{AgentRequest, Client, OpenOptions, StrategyCallback, TaskRequest, TurnRequest};
use tokio::sync::watch;

use crate::agent::PythonAgent;
use crate::call::{object, run};
use crate::completions::AnswerTo;
use crate::error::{PythonFailure, ended};
use crate::outcome::Outcome;
use crate::strategy::PythonStrategy;
use crate::task::{PythonTask, PythonTurn};

/// An open store.
#[pyclass(frozen, name = "Client", module = "relight._native")]
#[derive(Debug)]
pub(crate) struct PythonClient(Mutex<Option<Client>>);

impl PythonClient {
    fn sdk(&self) -> PyResult<Client> {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone().ok_or_else(|| ended("client"))
    }
}

#[pymethods]
impl PythonClient {
    /// Opens the store that the command line would use.
    #[staticmethod]
    #[pyo3(signature = (home=None, store=None, agent=None, strategies=None, default_strategy=None))]
    fn open(
        py: Python<'_>,
        home: Option<PathBuf>,
        store: Option<String>,
        agent: Option<String>,
        strategies: Option<HashMap<String, Py<PyAny>>>,
        default_strategy: Option<String>,
    ) -> PyResult<Self> {
        let strategies = strategies.unwrap_or_default().into_iter();
        let strategies = strategies.map(|(name, function)| {
            let strategy: Arc<dyn StrategyCallback> = Arc::new(PythonStrategy(function));
            (name, strategy)
        });
        let options = OpenOptions {
            home,
            store,
            agent,
            strategies: strategies.collect(),
            default_strategy,
        };
        let client = py
            .detach(|| Client::open(options))
            .map_err(PythonFailure::from)?;
        Ok(Self(Mutex::new(Some(client))))
    }

    /// The folder of the state.
    fn home(&self) -> PyResult<PathBuf> {
        Ok(self
            .sdk()?
            .home()
            .map_err(PythonFailure::from)?
            .to_path_buf())
    }

    /// Closes it; the store itself with the last task and turn that came from it.
    fn close(&self, py: Python<'_>) {
        let client = {
            let mut client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            client.take()
        };
        py.detach(|| drop(client));
    }

    /// An operation by its name: JSON in, JSON out.
    #[pyo3(signature = (name, given, via=None))]
    fn call(
        &self,
        py: Python<'_>,
        name: String,
        given: String,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        let client = self.sdk()?;
        let calling = client.clone();
        run(py, &client, via, async move {
            Ok(Outcome::Json(calling.call_text(&name, &given).await?))
        })
    }

    /// Starts a task, or continues it where it was.
    #[pyo3(signature = (request, via=None))]
    fn start_task(
        &self,
        py: Python<'_>,
        request: &str,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        let request = TaskRequest::read(object(request)?).map_err(PythonFailure::from)?;
        let client = self.sdk()?;
        let calling = client.clone();
        run(py, &client, via, async move {
            let task = calling.start_task(request).await?;
            Ok(Outcome::object(PythonTask::new(task)))
        })
    }

    /// Takes a task from the queue; nothing where there was none.
    #[pyo3(signature = (agent, skills, wait=None, lease=None, stop=None, via=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are Python's keyword arguments"
    )]
    fn claim(
        &self,
        py: Python<'_>,
        agent: Option<String>,
        skills: Vec<String>,
        wait: Option<&str>,
        lease: Option<&str>,
        stop: Option<&Bound<'_, Stop>>,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        let (wait, lease) = (span(wait)?, span(lease)?);
        let mut stopped = stop.map(|stop| stop.get().0.subscribe());
        let client = self.sdk()?;
        let calling = client.clone();
        run(py, &client, via, async move {
            let stop = async {
                if let Some(stopped) = &mut stopped {
                    // The sender lives as long as the worker that waits here.
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            let claim = calling.claim(agent.as_deref(), &skills, wait, lease);
            let claimed = tokio::select! {
                biased;
                () = stop => None,
                claimed = claim => claimed?,
            };
            Ok(claimed.map_or(Outcome::Nothing, |task| {
                Outcome::object(PythonTask::new(task))
            }))
        })
    }

    /// Makes an agent of the program known.
    #[pyo3(signature = (request, via=None))]
    fn agent(&self, py: Python<'_>, request: &str, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let request = AgentRequest::read(object(request)?).map_err(PythonFailure::from)?;
        let client = self.sdk()?;
        let calling = client.clone();
        run(py, &client, via, async move {
            let agent = calling.agent(request).await?;
            Ok(Outcome::object(PythonAgent::new(agent)))
        })
    }

    /// Marks a turn of a session.
    #[pyo3(signature = (request, via=None))]
    fn begin_turn(
        &self,
        py: Python<'_>,
        request: &str,
        via: Option<AnswerTo>,
    ) -> PyResult<Py<PyAny>> {
        let request = TurnRequest::read(object(request)?).map_err(PythonFailure::from)?;
        let client = self.sdk()?;
        let calling = client.clone();
        run(py, &client, via, async move {
            let turn = calling.begin_turn(request).await?;
            Ok(Outcome::object(PythonTurn::new(turn)))
        })
    }
}

/// Tells the supervisor of this process that it lives; false where there is none.
#[pyfunction]
#[pyo3(signature = (waiting_until=None, status=None))]
pub(crate) fn beat(
    py: Python<'_>,
    waiting_until: Option<&str>,
    status: Option<&str>,
) -> PyResult<bool> {
    let told = py.detach(|| relight_sdk::beat(waiting_until, status));
    Ok(told.map_err(PythonFailure::from)?)
}

/// Ends waits for the queue.
#[pyclass(frozen, module = "relight._native")]
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn set(&self) {
        self.0.send_replace(true);
    }

    fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}

fn span(text: Option<&str>) -> PyResult<Option<relight_sdk::Span>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: relight_sdk::TimeError| {
        pyo3::exceptions::PyValueError::new_err(error.to_string())
    })
}
