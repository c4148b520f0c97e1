//! Refusals as exceptions of the package.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use relight_sdk::Refused;

/// A refusal, or what Python itself raised.
pub(crate) enum PythonFailure {
    Refused(Refused),
    Python(PyErr),
}

impl From<Refused> for PythonFailure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<PyErr> for PythonFailure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<PythonFailure> for PyErr {
    fn from(failure: PythonFailure) -> Self {
        match failure {
            PythonFailure::Python(error) => error,
            PythonFailure::Refused(refused) => {
                Python::attach(|py| exception(py, &refused).unwrap_or_else(|error| error))
            }
        }
    }
}

/// The exception of a refusal; the package chooses its class by the code.
pub(crate) fn exception(py: Python<'_>, refused: &Refused) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "relight._errors", "from_refused")?;
    let code = &refused.code;
    let given = (
        code.name,
        code.exit,
        code.status,
        &refused.message,
        &refused.hint,
    );
    Ok(PyErr::from_value(make.call1(given)?))
}

pub(crate) fn ended(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("this {what} has ended"))
}
