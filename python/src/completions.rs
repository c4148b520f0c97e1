//! Answers for an event loop: one descriptor that becomes readable, and all answers that came meanwhile.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relight_sdk::Refused;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::exception;
use crate::outcome::Outcome;

type Told = (Py<PyAny>, Result<Outcome, Refused>);

/// Answers that one event loop waits for.
#[pyclass(frozen, module = "relight._native")]
#[derive(Debug)]
pub(crate) struct Completions(Arc<AnswerQueue>);

#[derive(Debug)]
struct AnswerQueue {
    ready: OwnedFd,
    told: Mutex<Vec<Told>>,
}

/// Where an answer goes: the loop, and what the caller knows it by.
#[derive(Debug)]
pub(crate) struct AnswerTo {
    to: Arc<AnswerQueue>,
    token: Py<PyAny>,
}

impl<'py> FromPyObject<'_, 'py> for AnswerTo {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (to, token): (Bound<'py, Completions>, Py<PyAny>) = given.extract()?;
        let to = Arc::clone(&to.get().0);
        Ok(Self { to, token })
    }
}

impl AnswerTo {
    /// Called on a thread of the runtime, which never waits for the interpreter.
    pub(crate) fn tell(self, outcome: Result<Outcome, Refused>) {
        let mut told = self.to.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = told.is_empty();
        told.push((self.token, outcome));
        drop(told);
        if is_first {
            // The loop drains all answers each time, so that one wake-up is enough.
            let _ = rustix::io::write(&self.to.ready, &1_u64.to_ne_bytes());
        }
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Self> {
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let ready = ready.map_err(|error| PyOSError::new_err(error.raw_os_error()))?;
        let told = Mutex::default();
        Ok(Self(Arc::new(AnswerQueue { ready, told })))
    }

    /// The descriptor that is readable while there are answers.
    fn fileno(&self) -> i32 {
        self.0.ready.as_raw_fd()
    }

    /// All answers that came: `(token, exception or None, answer)`.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.0.ready, &mut count);
        let told = {
            let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *told)
        };
        let list = PyList::empty(py);
        for (token, outcome) in told {
            let (error, answer) = match outcome {
                Ok(outcome) => (py.None(), outcome.into_object(py)?),
                Err(refused) => {
                    let error = exception(py, &refused)?;
                    (error.into_value(py).into_any(), py.None())
                }
            };
            list.append(PyTuple::new(py, [token, error, answer])?)?;
        }
        Ok(list)
    }
}
