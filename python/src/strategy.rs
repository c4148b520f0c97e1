//! Recovery strategies that are Python functions.

use pyo3::prelude::*;
use relight_sdk::StrategyCallback;

/// A function from JSON to JSON.
#[derive(Debug)]
pub(crate) struct PythonStrategy(pub(crate) Py<PyAny>);

impl StrategyCallback for PythonStrategy {
    fn decide(&self, failure: &str) -> Result<String, String> {
        // None when the interpreter ends: then the default decides.
        let answered = Python::try_attach(|py| {
            let answer = self.0.call1(py, (failure,))?;
            answer.extract::<String>(py)
        });
        match answered {
            Some(answer) => answer.map_err(|error: PyErr| error.to_string()),
            None => Err("the interpreter ends".to_owned()),
        }
    }
}
