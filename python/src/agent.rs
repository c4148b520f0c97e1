//! `Agent`: an agent inside of the program.

use std::sync::Arc;

use pyo3::prelude::*;
use relight_sdk::{AgentHandle, BeatRequest};

use crate::call::{object, run};
use crate::completions::AnswerTo;
use crate::error::PythonFailure;
use crate::outcome::Outcome;

/// An agent that reports by itself.
#[pyclass(frozen, name = "Agent", module = "relight._native")]
#[derive(Debug)]
pub(crate) struct PythonAgent(Arc<AgentHandle>);

impl PythonAgent {
    pub(crate) fn new(agent: AgentHandle) -> Self {
        Self(Arc::new(agent))
    }
}

#[pymethods]
impl PythonAgent {
    /// It lives: what it has to do, as JSON.
    #[pyo3(signature = (given, via=None))]
    fn beat(&self, py: Python<'_>, given: &str, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let given = BeatRequest::read(object(given)?).map_err(PythonFailure::from)?;
        let agent = Arc::clone(&self.0);
        run(py, self.0.client(), via, async move {
            Ok(Outcome::Json(agent.beat(given).await?.to_string()))
        })
    }

    /// Its attempt failed.
    #[pyo3(signature = (why, via=None))]
    fn failed(&self, py: Python<'_>, why: String, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let agent = Arc::clone(&self.0);
        run(py, self.0.client(), via, async move {
            agent.failed(&why).await?;
            Ok(Outcome::Nothing)
        })
    }

    /// It ends on purpose.
    #[pyo3(signature = (via=None))]
    fn leave(&self, py: Python<'_>, via: Option<AnswerTo>) -> PyResult<Py<PyAny>> {
        let agent = Arc::clone(&self.0);
        run(py, self.0.client(), via, async move {
            agent.leave().await?;
            Ok(Outcome::Nothing)
        })
    }
}
