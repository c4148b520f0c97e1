//! `relight._native`: the client of `relight-sdk` as Python objects. The package around it is Python.
//!
//! Every call that may wait has two forms. Without `via` it waits on this thread, detached from the
//! interpreter, and looks for signals meanwhile. With `via = (Completions, token)` it returns at once, and
//! the answer is found by `Completions.take` when its descriptor becomes readable.

mod agent;
mod call;
mod client;
mod completions;
mod error;
mod outcome;
mod strategy;
mod task;

use pyo3::prelude::*;

/// The native part of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::agent::PythonAgent;
    #[pymodule_export]
    use crate::client::{PythonClient, Stop, beat};
    #[pymodule_export]
    use crate::completions::Completions;
    #[pymodule_export]
    use crate::task::{PythonStep, PythonTask, PythonTurn};

    use super::{Bound, PyModule, PyModuleMethods as _, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let names: Vec<&str> = relight_sdk::operation_names().collect();
        module.add("OPERATIONS", names)
    }
}
