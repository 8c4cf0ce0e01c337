//! The cost model for the planner in Python: one tensor, what is known, and what it should do.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_sync::scheme::{self, Conditions, Policy, Scheme, Tensor, UseFactors, words};

/// A dict of `scheme`, `bytes`, `seconds`, `why`, and `costs`: for each scheme that was compared its bytes and seconds.
#[pyfunction]
#[pyo3(signature = (*, elements, workers, bandwidth, round_trip, flops, rows=0, outputs=0, inputs=0, servers=0, per_host=1,
    gather_bandwidth=None, summing=f64::INFINITY, use_sfb="auto", lossy=Vec::new(), current=None))]
#[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
pub fn choose<'py>(
    py: Python<'py>,
    elements: u64,
    workers: u32,
    bandwidth: f64,
    round_trip: f64,
    flops: f64,
    rows: u64,
    outputs: u64,
    inputs: u64,
    servers: u32,
    per_host: u32,
    gather_bandwidth: Option<f64>,
    summing: f64,
    use_sfb: &str,
    lossy: Vec<String>,
    current: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let gather_bandwidth = gather_bandwidth.unwrap_or(bandwidth);
    let lab = Conditions { workers, servers, per_host, bandwidth, gather_bandwidth, round_trip, flops, summing };
    lab.check().map_err(PyValueError::new_err)?;
    let factors = match use_sfb {
        "auto" => UseFactors::Auto,
        "true" => UseFactors::Always,
        "false" => UseFactors::Never,
        other => return Err(PyValueError::new_err(format!("use_sfb is {other:?}; expected auto, true or false"))),
    };
    let scheme = |text: &str| text.parse::<Scheme>().map_err(PyValueError::new_err);
    let lossy = lossy.iter().map(|text| scheme(text)).collect::<PyResult<Vec<Scheme>>>()?;
    let current = current.map(scheme).transpose()?;
    let tensor = Tensor { elements, bias: 0, rows, outputs, inputs };
    let choice = scheme::choose(&tensor, &lab, &Policy { factors, lossy }, current);
    let costs = PyDict::new(py);
    for cost in &choice.costs {
        costs.set_item(cost.scheme.to_string(), (cost.sent, cost.seconds))?;
    }
    let out = PyDict::new(py);
    out.set_item("scheme", choice.scheme.to_string())?;
    out.set_item("bytes", choice.bytes)?;
    out.set_item("seconds", choice.seconds)?;
    out.set_item("why", choice.why)?;
    out.set_item("costs", costs)?;
    Ok(out)
}

/// A link and a processor in words, for the log: `940 Mbit/s, round trip 180 us, 48.2 GFLOP/s`.
#[pyfunction]
pub fn conditions_in_words(bandwidth: f64, round_trip: f64, flops: f64) -> String {
    format!("{}, round trip {}, {}", words::rate(bandwidth), words::seconds(round_trip), words::flops(flops))
}
