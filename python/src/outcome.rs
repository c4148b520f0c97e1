//! What a call answers, before it is a Python object.

use std::fmt;

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// An answer.
#[derive(Debug)]
pub(crate) enum Outcome {
    Nothing,
    /// JSON, for the package to read.
    Json(String),
    Value(Vec<u8>),
    Object(NewObject),
}

type MakeObject = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Makes an object of the package once the interpreter is there.
pub(crate) struct NewObject(MakeObject);

impl fmt::Debug for NewObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewObject")
    }
}

impl Outcome {
    pub(crate) fn object<T>(object: T) -> Self
    where
        T: PyClass + Into<PyClassInitializer<T>> + Send + 'static,
    {
        let make = |py: Python<'_>| Ok(Py::new(py, object)?.into_any());
        Self::Object(NewObject(Box::new(make)))
    }

    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Nothing => py.None(),
            Self::Json(text) => PyString::new(py, &text).into_any().unbind(),
            Self::Value(value) => PyBytes::new(py, &value).into_any().unbind(),
            Self::Object(NewObject(make)) => make(py)?,
        })
    }
}
