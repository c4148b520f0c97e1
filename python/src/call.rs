//! A call of the package: its request as JSON, and the two ways of waiting for its answer.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use relight_sdk::{Client, Refused};
use serde_json::{Map, Value};

use crate::completions::AnswerTo;
use crate::error::PythonFailure;
use crate::outcome::Outcome;

/// Waits for the answer on this thread, or has it told to `via` and answers nothing.
pub(crate) fn run(
    py: Python<'_>,
    client: &Client,
    via: Option<AnswerTo>,
    future: impl Future<Output = Result<Outcome, Refused>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if let Some(via) = via {
        let runtime = client.runtime().map_err(PythonFailure::from)?;
        runtime.spawn(async move { via.tell(future.await) });
        return Ok(py.Ellipsis());
    }
    let waited = py.detach(|| client.wait(future, check_signals));
    waited?.map_err(PythonFailure::from)?.into_object(py)
}

/// Whether a signal handler of the program raises something.
fn check_signals() -> Result<(), PythonFailure> {
    match Python::try_attach(|py| py.check_signals()) {
        Some(checked) => checked.map_err(PythonFailure::from),
        // The interpreter has ended, and with it the process soon: this thread must not return into it.
        None => loop {
            std::thread::park();
        },
    }
}

/// The same for a call that usually waits for nothing: asked once without leaving the interpreter.
pub(crate) fn run_now(
    py: Python<'_>,
    client: &Client,
    via: Option<AnswerTo>,
    future: impl Future<Output = Result<Outcome, Refused>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let mut future = Box::pin(future);
    let runtime = client.runtime().map_err(PythonFailure::from)?;
    let polled = {
        let _inside = runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        pin!(&mut future).poll(&mut context)
    };
    match polled {
        Poll::Ready(outcome) => outcome.map_err(PythonFailure::from)?.into_object(py),
        Poll::Pending => run(py, client, via, future),
    }
}

pub(crate) fn object(text: &str) -> PyResult<Map<String, Value>> {
    Ok(relight_sdk::read_object(text).map_err(PythonFailure::from)?)
}
