//! One worker's connection, as Python holds it.

use crate::array::view;
use crate::errors::exception;
use crate::handle::{self, Handle};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_sync::engine::timeline::Record;
use shoal_sync::{Op, Pending, Settings, SyncError, settings};
use std::sync::Mutex;
use std::time::Duration;

#[pyclass(module = "shoal._shoal", frozen)]
pub struct Engine {
    engine: shoal_sync::Engine,
}

#[pymethods]
impl Engine {
    /// Connects; arguments win over the environment.
    #[new]
    #[pyo3(signature = (*, master_address=None, client_id=None, num_workers=None, distributed=None, num_push_threads=None,
        num_pull_threads=None, block_size=None, shared_memory=None, deterministic=None, on_death=None, token=None,
        connect_timeout=None, listen_host=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        master_address: Option<String>,
        client_id: Option<i64>,
        num_workers: Option<u32>,
        distributed: Option<bool>,
        num_push_threads: Option<u32>,
        num_pull_threads: Option<u32>,
        block_size: Option<usize>,
        shared_memory: Option<bool>,
        deterministic: Option<bool>,
        on_death: Option<String>,
        token: Option<String>,
        connect_timeout: Option<f64>,
        listen_host: Option<String>,
    ) -> PyResult<Engine> {
        let fail = |e| exception(py, &e);
        let mut s = Settings::from_env(|name| std::env::var(name).ok()).map_err(fail)?;
        s.master_address = master_address.unwrap_or(s.master_address);
        s.client_id = client_id.unwrap_or(s.client_id);
        s.num_workers = num_workers.unwrap_or(s.num_workers);
        s.distributed = distributed.unwrap_or(s.distributed);
        s.num_push_threads = num_push_threads.unwrap_or(s.num_push_threads);
        s.num_pull_threads = num_pull_threads.unwrap_or(s.num_pull_threads);
        s.block_size = block_size.unwrap_or(s.block_size);
        s.shared_memory = shared_memory.unwrap_or(s.shared_memory);
        s.deterministic = deterministic.unwrap_or(s.deterministic);
        if let Some(text) = on_death {
            s.on_death = settings::on_death("on_death", &text).map_err(fail)?;
        }
        s.token = token.unwrap_or(s.token);
        if let Some(seconds) = connect_timeout {
            s.connect_timeout = Duration::try_from_secs_f64(seconds)
                .map_err(|e| PyValueError::new_err(format!("connect_timeout: {e}")))?;
        }
        s.listen_host = listen_host.or(s.listen_host);
        let engine = interruptible(py, |stop| shoal_sync::Engine::connect_unless(s, stop))?;
        Ok(Engine { engine })
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.engine.rank()
    }

    #[getter]
    fn size(&self) -> u32 {
        self.engine.size()
    }

    #[getter]
    fn servers(&self) -> u32 {
        self.engine.servers()
    }

    /// Starts a sum or mean in place and returns a handle.
    #[pyo3(signature = (array, name, op, weight, priority, dtype=None, members=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn push_pull(
        &self,
        py: Python<'_>,
        array: Bound<'_, PyAny>,
        name: &str,
        op: &str,
        weight: f64,
        priority: u16,
        dtype: Option<&str>,
        members: Option<Vec<u32>>,
    ) -> PyResult<Handle> {
        let pending = self.start_push_pull(py, &array, name, op, weight, priority, dtype, members)?;
        Ok(Handle::new(self.engine.clone(), pending, array.unbind()))
    }

    /// A sum or mean in place, waited for.
    #[pyo3(signature = (array, name, op, weight, priority, dtype=None, members=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn push_pull_wait(
        &self,
        py: Python<'_>,
        array: Bound<'_, PyAny>,
        name: &str,
        op: &str,
        weight: f64,
        priority: u16,
        dtype: Option<&str>,
        members: Option<Vec<u32>>,
    ) -> PyResult<()> {
        let pending = self.start_push_pull(py, &array, name, op, weight, priority, dtype, members)?;
        handle::wait(py, &self.engine, pending).map(drop)
    }

    fn broadcast(&self, py: Python<'_>, array: Bound<'_, PyAny>, name: &str, root: u32) -> PyResult<()> {
        let view = view(&array, 0, None)?;
        let key = self.engine.register(name, view.spec).map_err(|e| exception(py, &e))?;
        let at = SendPtr(view.at);
        // SAFETY: `array` is referenced until the wait below has ended, and its layout was just checked.
        let pending = py.detach(|| unsafe { self.engine.broadcast(&key, at.get(), root) });
        handle::wait(py, &self.engine, pending.map_err(|e| exception(py, &e))?).map(drop)
    }

    /// `array`'s first dimension is the number of workers; the own row must be filled in.
    fn all_gather(&self, py: Python<'_>, array: Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let view = view(&array, 0, None)?;
        let key = self.engine.register(name, view.spec).map_err(|e| exception(py, &e))?;
        let at = SendPtr(view.at);
        // SAFETY: as in `broadcast`.
        let pending = py.detach(|| unsafe { self.engine.all_gather(&key, at.get()) });
        handle::wait(py, &self.engine, pending.map_err(|e| exception(py, &e))?).map(drop)
    }

    /// The same, without waiting. `partial`: rows of workers that are gone stay as they are.
    #[pyo3(signature = (array, name, priority, partial, dtype=None, members=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn all_gather_async(
        &self,
        py: Python<'_>,
        array: Bound<'_, PyAny>,
        name: &str,
        priority: u16,
        partial: bool,
        dtype: Option<&str>,
        members: Option<Vec<u32>>,
    ) -> PyResult<Handle> {
        let view = view(&array, priority, dtype)?;
        let key = self.engine.register_among(name, view.spec, members.as_deref()).map_err(|e| exception(py, &e))?;
        let at = SendPtr(view.at);
        // SAFETY: the handle keeps `array` referenced until the operation is over.
        let pending = py.detach(|| unsafe {
            match partial {
                true => self.engine.all_gather_partial(&key, at.get()),
                false => self.engine.all_gather(&key, at.get()),
            }
        });
        Ok(Handle::new(self.engine.clone(), pending.map_err(|e| exception(py, &e))?, array.unbind()))
    }

    #[pyo3(signature = (array, name, root, priority, dtype=None, members=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn broadcast_async(
        &self,
        py: Python<'_>,
        array: Bound<'_, PyAny>,
        name: &str,
        root: u32,
        priority: u16,
        dtype: Option<&str>,
        members: Option<Vec<u32>>,
    ) -> PyResult<Handle> {
        let view = view(&array, priority, dtype)?;
        let key = self.engine.register_among(name, view.spec, members.as_deref()).map_err(|e| exception(py, &e))?;
        let at = SendPtr(view.at);
        // SAFETY: as in `all_gather_async`.
        let pending = py.detach(|| unsafe { self.engine.broadcast(&key, at.get(), root) });
        Ok(Handle::new(self.engine.clone(), pending.map_err(|e| exception(py, &e))?, array.unbind()))
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let pending = py.detach(|| self.engine.start_barrier()).map_err(|e| exception(py, &e))?;
        handle::wait(py, &self.engine, pending).map(drop)
    }

    /// A step boundary: the ranks that have just joined.
    fn admit(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let boundary = py.detach(|| self.engine.start_admit()).map_err(|e| exception(py, &e))?;
        handle::wait_boundary(py, &self.engine, boundary)
    }

    #[getter]
    fn joined_late(&self) -> bool {
        self.engine.joined_late()
    }

    fn members(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.engine.members())
    }

    fn root(&self, py: Python<'_>) -> u32 {
        py.detach(|| self.engine.root())
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.finish()).map_err(|e| exception(py, &e))
    }

    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |stop| self.engine.shutdown_unless(stop))
    }

    fn abort(&self, py: Python<'_>, why: &str) {
        py.detach(|| self.engine.abort(why));
    }

    /// File descriptors of the connections that tell the others that this process is alive.
    fn sockets(&self, py: Python<'_>) -> Vec<i32> {
        py.detach(|| self.engine.sockets())
    }

    /// Switches the timeline on or off.
    fn switch_timeline(&self, on: bool) {
        self.engine.timeline().switch(on);
    }

    /// What the timeline holds since the last call: rows of key, step, way, bytes, four times in nanoseconds of the monotonic clock
    /// (submitted, first and last byte sent, done; 0 where not known) and who came last; and how many rows were lost.
    #[allow(clippy::type_complexity, reason = "a plain table for Python")]
    fn take_timeline(&self) -> (Vec<(String, u64, &'static str, usize, [u64; 4], Option<u32>)>, u64) {
        let (records, dropped) = self.engine.timeline().take();
        let row = |r: Record| {
            let times = [r.submitted, r.first_sent, r.last_sent, r.done];
            (r.name.to_string(), r.step, r.way.name(), r.bytes, times, r.last)
        };
        (records.into_iter().map(row).collect(), dropped)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let traffic = py.detach(|| self.engine.traffic());
        let out = PyDict::new(py);
        out.set_item("bytes_sent", traffic.bytes_sent)?;
        out.set_item("bytes_received", traffic.bytes_received)?;
        out.set_item("frames_sent", traffic.frames_sent)?;
        out.set_item("frames_received", traffic.frames_received)?;
        out.set_item("chunks_summed", traffic.chunks_summed)?;
        out.set_item("operations", traffic.operations)?;
        out.set_item("buffer_bytes_peak", traffic.buffer_bytes_peak)?;
        let keys = PyDict::new(py);
        for (name, times) in &traffic.keys {
            let row = PyDict::new(py);
            row.set_item("count", times.count)?;
            row.set_item("queue_ms", times.queue as f64 / 1e6)?;
            row.set_item("wire_ms", times.wire as f64 / 1e6)?;
            row.set_item("wait_ms", times.wait as f64 / 1e6)?;
            keys.set_item(&**name, row)?;
        }
        out.set_item("keys", keys)?;
        Ok(out)
    }
}

impl Engine {
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn start_push_pull(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        name: &str,
        op: &str,
        weight: f64,
        priority: u16,
        dtype: Option<&str>,
        members: Option<Vec<u32>>,
    ) -> PyResult<Pending> {
        let op = match op {
            "sum" => Op::Sum,
            "mean" => Op::Mean,
            "weighted_mean" => Op::WeightedMean(weight),
            other => {
                let message = format!("op is {other:?}; expected \"sum\", \"mean\" or \"weighted_mean\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let view = view(array, priority, dtype)?;
        let key = self.engine.register_among(name, view.spec, members.as_deref()).map_err(|e| exception(py, &e))?;
        let at = SendPtr(view.at);
        // SAFETY: the caller keeps `array` referenced until the operation has been waited for.
        py.detach(|| unsafe { self.engine.push_pull(&key, at.get(), op) }).map_err(|e| exception(py, &e))
    }
}

/// A call without the interpreter's lock (PY-1) that looks up for signals: Ctrl-C ends it.
fn interruptible<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&dyn Fn() -> bool) -> Result<T, SyncError> + Send,
) -> PyResult<T> {
    let interrupt = Mutex::new(None);
    let stop = || {
        let signal = Python::attach(|py| py.check_signals()).err();
        let stop = signal.is_some();
        if stop && let Ok(mut interrupt) = interrupt.lock() {
            *interrupt = signal;
        }
        stop
    };
    let outcome = py.detach(|| call(&stop));
    match interrupt.into_inner() {
        Ok(Some(signal)) => Err(signal),
        _ => outcome.map_err(|e| exception(py, &e)),
    }
}

/// The place of an array whose owner is kept alive by the caller.
#[derive(Clone, Copy)]
struct SendPtr(*mut u8);

// SAFETY: only the address crosses; who may touch the memory is the engine's contract.
unsafe impl Send for SendPtr {}
// SAFETY: as above.
unsafe impl Sync for SendPtr {}

impl SendPtr {
    fn get(self) -> *mut u8 {
        self.0
    }
}
