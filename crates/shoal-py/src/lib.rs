//! `shoal._shoal`: the engine for Python. Thin: arrays are borrowed where they lie, and the interpreter's lock is
//! released for every call that may wait (PY-1). What users see is in `python/shoal`.

mod array;
mod engine;
mod errors;
mod handle;

use pyo3::prelude::*;

#[pymodule]
fn _shoal(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<engine::Engine>()?;
    module.add_class::<handle::Handle>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
