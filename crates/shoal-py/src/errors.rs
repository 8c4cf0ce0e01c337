//! Errors of the engine become the exceptions of `shoal.errors`, with their fields as attributes.

use pyo3::prelude::*;
use pyo3::types::PyModule;
use shoal_sync::SyncError;

/// The exception for an error; falls back to `RuntimeError` if the package is broken.
pub fn exception(py: Python<'_>, error: &SyncError) -> PyErr {
    let built = (|| {
        let fields = serde_json::to_string(error).unwrap_or_default();
        PyModule::import(py, "shoal.errors")?.getattr("from_engine")?.call1((error.to_string(), fields))
    })();
    match built {
        Ok(exception) => PyErr::from_value(exception),
        // Ctrl-C pressed just now is what the user wants to hear of.
        Err(interrupt) if interrupt.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => interrupt,
        Err(_) => pyo3::exceptions::PyRuntimeError::new_err(error.to_string()),
    }
}
