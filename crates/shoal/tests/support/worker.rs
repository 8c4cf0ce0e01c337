//! What a worker process does: a list of instructions in JSON, carried out in order, each reported as a line on stdout.

use serde_json::{Value, json};
use shoal_sync::{DType, Engine, Op, Settings, SyncError, TensorSpec};
use std::io::Write;
use std::time::{Duration, Instant};

/// The variable that turns the test binary into a worker process.
pub const WORK: &str = "SHOAL_TEST_WORK";

/// A line for the harness.
fn report(event: &str, mut fields: Value) {
    fields["event"] = event.into();
    let mut out = std::io::stdout().lock();
    // A harness that has gone kills this process anyway.
    let _ = writeln!(out, "@ {fields}");
    let _ = out.flush();
}

/// The whole life of a worker; gives the exit code.
pub fn live(work: &str) -> i32 {
    shoal::logging::start(false);
    // The test harness has begun a line.
    println!();
    let work: Value = serde_json::from_str(work).expect("instructions");
    match follow(work.as_array().expect("a list of instructions")) {
        Ok(code) => code,
        Err(error) => {
            report("error", json!({ "text": error.to_string(), "fields": error }));
            1
        }
    }
}

fn follow(work: &[Value]) -> Result<i32, SyncError> {
    let settings = Settings::from_env(|name| std::env::var(name).ok())?;
    let engine = Engine::connect(settings)?;
    report("joined", json!({ "rank": engine.rank(), "size": engine.size(), "late": engine.joined_late() }));
    for step in work {
        match step["do"].as_str().unwrap_or_default() {
            "train" => train(&engine, step)?,
            "train_on" => train_on(&engine, step)?,
            "admit_early" => admit_early(&engine)?,
            "push" => push(&engine, step)?,
            "gather" => gather(&engine, step["key"].as_str().unwrap_or("g"))?,
            "sleep" => std::thread::sleep(Duration::from_millis(step["ms"].as_u64().unwrap_or(0))),
            "barrier" => engine.barrier()?,
            "finish" => engine.finish()?,
            "shutdown" => engine.shutdown()?,
            "abort" => {
                engine.abort(step["why"].as_str().unwrap_or("no reason"));
                return Ok(4);
            }
            // In the middle of a run, with everything still open.
            "exit" => std::process::exit(step["code"].as_i64().unwrap_or(0) as i32),
            other => panic!("unknown instruction {other}"),
        }
        report("did", json!({ "did": step["do"] }));
    }
    Ok(0)
}

/// Place `i` of worker `rank`: the mean over any set of workers differs from that over any other.
fn value(rank: u32, i: usize) -> f32 {
    (1u32 << (2 * rank)) as f32 + (i % 7) as f32
}

/// Steps like a training loop's: all tensors under way at once, then waited for. `means` are the least and the greatest mean of the
/// ranks' part of the values; `hash` is over all bits, to compare workers by.
fn train(engine: &Engine, step: &Value) -> Result<(), SyncError> {
    let lens: Vec<usize> =
        step["lens"].as_array().into_iter().flatten().filter_map(Value::as_u64).map(|n| n as usize).collect();
    let pause = Duration::from_millis(step["pause_ms"].as_u64().unwrap_or(0));
    let check = step["check"].as_bool().unwrap_or(false);
    for number in 0..step["steps"].as_u64().unwrap_or(u64::MAX) {
        let mut data: Vec<Vec<f32>> =
            lens.iter().map(|len| (0..*len).map(|i| value(engine.rank(), i)).collect()).collect();
        let mut pending = Vec::new();
        for (i, tensor) in data.iter_mut().enumerate() {
            let spec = TensorSpec { dtype: DType::F32, shape: vec![tensor.len()], priority: i as u16 };
            let key = engine.register(&format!("layer {i}"), spec)?;
            // SAFETY: `data` lives until `pending`, declared after it, is dropped or waited for.
            pending.push(unsafe { engine.push_pull(&key, tensor.as_mut_ptr().cast(), Op::Mean) }?);
        }
        for p in pending {
            p.wait()?;
        }
        let mut line = json!({ "step": number });
        if check {
            let parts = data.iter().flat_map(|t| t.iter().enumerate().map(|(i, x)| x - (i % 7) as f32));
            let (low, high) = parts.fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(x), h.max(x)));
            let bits = data.iter().flatten().map(|x| u64::from(x.to_bits()));
            let hash = bits.fold(0xcbf2_9ce4_8422_2325u64, |h, x| (h ^ x).wrapping_mul(0x0100_0000_01b3));
            line["means"] = json!([low, high]);
            line["hash"] = format!("{hash:016x}").into();
        }
        report("step", line);
        std::thread::sleep(pause);
    }
    Ok(())
}

/// A training loop that lets newcomers in, and into which they come: weights and the number of the step from the root, at the start and
/// whenever somebody has joined; after each step a boundary. `ends` are the ranks whose parts are in the step's mean.
fn train_on(engine: &Engine, step: &Value) -> Result<(), SyncError> {
    let (len, steps) = (step["len"].as_u64().unwrap_or(1000) as usize, step["steps"].as_u64().unwrap_or(u64::MAX));
    let pause = Duration::from_millis(step["pause_ms"].as_u64().unwrap_or(0));
    // The first place counts the steps; f64, so that sums of small numbers are exact.
    let mut weights = vec![0f64; 1 + len];
    let spec = |n: usize| TensorSpec { dtype: DType::F64, shape: vec![n], priority: 0 };
    let (state, gradient) = (engine.register("state", spec(1 + len))?, engine.register("gradient", spec(len))?);
    let fetch = |weights: &mut Vec<f64>| {
        // SAFETY: `weights` is borrowed until the wait has ended.
        unsafe { engine.broadcast(&state, weights.as_mut_ptr().cast(), engine.root()) }?.wait()
    };
    fetch(&mut weights)?;
    while weights[0] < steps as f64 {
        let mut parts = vec![f64::from(1u32 << (4 * engine.rank())); len];
        // SAFETY: `parts` lives until the wait has ended.
        unsafe { engine.push_pull(&gradient, parts.as_mut_ptr().cast(), Op::Sum) }?.wait()?;
        weights[1..].iter_mut().zip(&parts).for_each(|(w, p)| *w += p);
        weights[0] += 1.0;
        let bits = weights.iter().map(|x| x.to_bits());
        let hash = bits.fold(0xcbf2_9ce4_8422_2325u64, |h, x| (h ^ x).wrapping_mul(0x0100_0000_01b3));
        let ends: Vec<String> = [parts[0], parts[len - 1]].iter().map(|p| format!("{:x}", *p as u64)).collect();
        report("step", json!({ "step": weights[0] as u64, "hash": format!("{hash:016x}"), "ends": ends }));
        engine.barrier()?;
        let joined = engine.admit()?;
        if !joined.is_empty() {
            report("let in", json!({ "ranks": joined, "members": engine.members(), "root": engine.root() }));
            fetch(&mut weights)?;
        }
        std::thread::sleep(pause);
    }
    Ok(())
}

/// The first worker tries a boundary while a sum is under way, to which the others come only then; all go through a proper one.
fn admit_early(engine: &Engine) -> Result<(), SyncError> {
    let key = engine.register("x", TensorSpec { dtype: DType::F32, shape: vec![1], priority: 0 })?;
    let mut data = [1f32];
    if engine.rank() > 0 {
        engine.barrier()?;
    }
    // SAFETY: `data` lives until `pending`, declared after it, has been waited for.
    let pending = unsafe { engine.push_pull(&key, data.as_mut_ptr().cast(), Op::Sum) }?;
    if engine.rank() == 0 {
        if let Err(error) = engine.admit() {
            report("refused", json!({ "text": error.to_string() }));
        }
        engine.barrier()?;
    }
    pending.wait()?;
    report("let in", json!({ "ranks": engine.admit()? }));
    Ok(())
}

/// One tensor of `len` ones; what it waits for is reported once a second.
fn push(engine: &Engine, step: &Value) -> Result<(), SyncError> {
    let len = step["len"].as_u64().unwrap_or(1000) as usize;
    let dtype = if step["dtype"] == "f64" { DType::F64 } else { DType::F32 };
    let op = if step["op"] == "mean" { Op::Mean } else { Op::Sum };
    let name = step["key"].as_str().unwrap_or("x");
    // As f64, for the alignment; both types fit.
    let mut data = vec![0f64; len];
    match dtype {
        DType::F64 => data.fill(1.0),
        _ => data.fill(f64::from_bits(u64::from(1f32.to_bits()) << 32 | u64::from(1f32.to_bits()))),
    }
    let key = engine.register(name, TensorSpec { dtype, shape: vec![len], priority: 0 })?;
    // SAFETY: `data` lives until `pending`, declared after it, is dropped or waited for.
    let mut pending = unsafe { engine.push_pull(&key, data.as_mut_ptr().cast(), op) }?;
    let started = Instant::now();
    loop {
        if let Some(outcome) = pending.wait_timeout(Duration::from_secs(1)) {
            outcome?;
            break;
        }
        report("waiting", json!({ "key": name, "for": pending.waiting_for(), "s": started.elapsed().as_secs_f32() }));
    }
    drop(pending);
    let first = if dtype == DType::F64 { data[0] } else { f64::from(f32::from_bits(data[0].to_bits() as u32)) };
    report("pushed", json!({ "key": name, "value": first }));
    Ok(())
}

fn gather(engine: &Engine, name: &str) -> Result<(), SyncError> {
    let (size, rank) = (engine.size() as usize, engine.rank() as usize);
    let mut data = vec![0f32; size * 4];
    data[rank * 4..][..4].fill(rank as f32);
    let key = engine.register(name, TensorSpec { dtype: DType::F32, shape: vec![size, 4], priority: 0 })?;
    // SAFETY: `data` lives until the wait has ended.
    unsafe { engine.all_gather(&key, data.as_mut_ptr().cast()) }?.wait()?;
    report("gathered", json!({ "key": name, "rows": data.chunks(4).map(|r| r[0]).collect::<Vec<_>>() }));
    Ok(())
}
