//! An operation under way, as Python holds it. It keeps the array alive until the engine is done with it.

use crate::errors::exception;
use pyo3::prelude::*;
use shoal_sync::{Boundary, Engine, Pending};
use std::sync::Mutex;
use std::time::Duration;

/// How often a wait looks whether Ctrl-C was pressed.
const LOOK_UP: Duration = Duration::from_millis(200);

#[pyclass(module = "shoal._shoal", frozen)]
pub struct Handle {
    engine: Engine,
    pending: Mutex<Option<Pending>>,
    array: Py<PyAny>,
    /// Once it has been waited for.
    absent: Mutex<Vec<u32>>,
}

impl Handle {
    pub fn new(engine: Engine, pending: Pending, array: Py<PyAny>) -> Handle {
        Handle { engine, pending: Mutex::new(Some(pending)), array, absent: Mutex::default() }
    }
}

/// Waits without the GIL (PY-1), looking up for signals; an interrupted wait ends the run for all, because this rank's
/// part is lost to the others. Returns whose rows a partial gather did without.
pub fn wait(py: Python<'_>, engine: &Engine, mut pending: Pending) -> PyResult<Vec<u32>> {
    loop {
        match py.detach(|| pending.wait_timeout(LOOK_UP)) {
            Some(Ok(())) => return Ok(pending.absent()),
            Some(Err(error)) => return Err(exception(py, &error)),
            None => {
                if let Err(interrupt) = py.check_signals() {
                    py.detach(|| engine.abort(&format!("interrupted while it waited for `{}`", pending.name())));
                    return Err(interrupt);
                }
            }
        }
    }
}

/// The same for a step boundary.
pub fn wait_boundary(py: Python<'_>, engine: &Engine, mut boundary: Boundary) -> PyResult<Vec<u32>> {
    loop {
        match py.detach(|| boundary.wait_timeout(LOOK_UP)) {
            Some(outcome) => return outcome.map_err(|error| exception(py, &error)),
            None => {
                if let Err(interrupt) = py.check_signals() {
                    py.detach(|| engine.abort("interrupted while it waited for the others in admit()"));
                    return Err(interrupt);
                }
            }
        }
    }
}

#[pymethods]
impl Handle {
    /// Waits until the result is in the array, and returns the array.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pending = self.pending.lock().map_or(None, |mut p| p.take());
        if let Some(pending) = pending {
            let absent = wait(py, &self.engine, pending)?;
            if let Ok(mut place) = self.absent.lock() {
                *place = absent;
            }
        }
        Ok(self.array.clone_ref(py))
    }

    /// Ranks whose rows a partial gather did without; to be asked after `wait`.
    fn absent(&self) -> Vec<u32> {
        self.absent.lock().map_or_else(|_| Vec::new(), |absent| absent.clone())
    }

    /// Whether the result is there.
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.pending.lock().map_or(true, |p| p.as_ref().is_none_or(Pending::is_done)))
    }

    /// Ranks it waits for, as last heard.
    fn waiting_for(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| {
            self.pending.lock().map_or_else(|_| Vec::new(), |p| p.as_ref().map_or_else(Vec::new, Pending::waiting_for))
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let pending = self.pending.get_mut().map_or(None, Option::take);
        if let Some(pending) = pending {
            // The engine still works in the array: wait, but let other threads run meanwhile.
            Python::attach(|py| py.detach(|| drop(pending)));
        }
    }
}
