//! `shoal._shoal`: the engine for Python. Thin: arrays are borrowed where they lie, and the interpreter's lock is
//! released for every call that may wait (PY-1). What users see is in `python/shoal`.

mod array;
mod engine;
mod errors;
mod handle;
mod scheme;

use pyo3::prelude::*;

/// Warnings ("waiting for worker 3 on node9") go to the script's stderr; `SHOAL_LOG` chooses what is shown.
fn start_logging() {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_from_env("SHOAL_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // A second import in one process keeps the first logger.
    let _ = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).with_ansi(false).try_init();
}

#[pymodule]
fn _shoal(module: &Bound<'_, PyModule>) -> PyResult<()> {
    start_logging();
    module.add_class::<engine::Engine>()?;
    module.add_class::<handle::Handle>()?;
    module.add_function(wrap_pyfunction!(scheme::choose, module)?)?;
    module.add_function(wrap_pyfunction!(scheme::conditions_in_words, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
