//! Predicts a step from a list of layers.

use super::run::NotBegun;
use crate::args::plan::Args;
use crate::exit::Exit;
use crate::predict::model::Model;
use crate::predict::table::{Shown, render};
use crate::predict::{file, known, python};
use serde_json::json;
use shoal_core::suggest::closest;
use shoal_sync::scheme::{Conditions, Policy, Prediction, Scheme, UseFactors, predict};
use std::path::Path;
use std::process::ExitCode;

/// What is left of a link when Ethernet, IP and TCP have had theirs.
const GOODPUT: f64 = 0.95;
/// A few good cores. Without a better figure the answer says that it is a guess.
const GUESSED_FLOPS: f64 = 50e9;
/// Bytes a second that one core adds up.
const SUMMING: f64 = 4e9;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if args.per_host > args.workers {
        let why = format!("--per-host is {}, but there are {} workers", args.per_host, args.workers);
        return Err(NotBegun::Wrong(format!("{why}\n  hint: --workers counts those of all hosts")));
    }
    let model = model(args)?;
    let batch = args.batch.unwrap_or(model.batch);
    let (flops, speed_is) = speed(args, &model)?;
    let bandwidth = GOODPUT * args.bandwidth;
    let lab = Conditions {
        workers: args.workers,
        servers: args.servers,
        per_host: args.per_host,
        bandwidth,
        gather_bandwidth: bandwidth,
        round_trip: args.rtt,
        flops,
        summing: SUMMING,
    };
    lab.check().map_err(NotBegun::Wrong)?;
    let layers = model.layers(batch, flops);
    let planned = predict(&layers, &lab, &Policy { factors: args.use_sfb.into(), lossy: args.allow.clone() });
    let dense = predict(&layers, &lab, &Policy { factors: UseFactors::Never, lossy: Vec::new() });
    let shown = Shown {
        model: &model,
        batch,
        link: args.bandwidth,
        lab: &lab,
        speed_is,
        planned: &planned,
        dense: &dense,
        all: args.all,
    };
    if args.json {
        crate::say::line(as_json(&shown));
    } else {
        crate::say::out(render(&shown, super::doctor::look()));
    }
    Ok(Exit::Success.into())
}

fn model(args: &Args) -> Result<Model, NotBegun> {
    let name = args.model.as_str();
    if let Some(model) = known::model(name) {
        return Ok(model);
    }
    let path = Path::new(name);
    if name.ends_with(".json") || path.exists() {
        return read(name, &text_of(path)?);
    }
    if is_function(name) {
        let mut question = vec![name.to_string()];
        question.extend(args.batch.iter().flat_map(|batch| ["--batch".into(), batch.to_string()]));
        question.extend(args.input.iter().flat_map(|shape| ["--input".into(), shape.clone()]));
        question.extend(args.measure.then(|| "--measure".into()));
        let text = python::ask(&args.python, &question).map_err(NotBegun::Here)?;
        return read(&format!("the description of {name}"), &text);
    }
    let meant = closest(name, known::NAMES).map_or_else(String::new, |name| format!("; did you mean {name}?"));
    let known = known::NAMES.join(", ");
    let hint =
        format!("built-in models are {known}; others are given as model.json, module:function or file.py:function");
    Err(NotBegun::Wrong(format!("there is no model `{name}`{meant}\n  hint: {hint}")))
}

/// `train:make` and `dir/train.py:make`, not `C:\model`.
fn is_function(name: &str) -> bool {
    let identifier = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    name.rsplit_once(':').is_some_and(|(module, function)| !module.is_empty() && identifier(function))
}

fn read(file: &str, text: &str) -> Result<Model, NotBegun> {
    let (model, warnings) = file::read(file, text).map_err(|errors| NotBegun::Wrong(errors.to_string()))?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    Ok(model)
}

fn text_of(path: &Path) -> Result<String, NotBegun> {
    let bytes = std::fs::read(path).map_err(|e| {
        let text = e.to_string();
        let why = text.split(" (os error").next().unwrap_or(&text);
        let hint = "`--model vgg19` takes a built-in model; docs/reference/plan.md describes the file";
        NotBegun::Wrong(format!("{}: {why}\n  hint: {hint}", path.display()))
    })?;
    let not_text = |e: std::string::FromUtf8Error| {
        NotBegun::Wrong(format!("{}: not UTF-8 from byte {} on", path.display(), e.utf8_error().valid_up_to()))
    };
    String::from_utf8(bytes).map_err(not_text)
}

/// Operations a second, and how we know.
fn speed(args: &Args, model: &Model) -> Result<(f64, &'static str), NotBegun> {
    match (args.flops, model.matrix_flops) {
        (Some(flops), _) => Ok((flops, "as given")),
        (None, Some(flops)) => Ok((flops, "measured")),
        (None, None) if args.measure => {
            let text = python::ask(&args.python, &["--speed".into()]).map_err(NotBegun::Here)?;
            let flops = text.trim().parse().ok().filter(|flops: &f64| *flops > 0.0 && flops.is_finite());
            let why = || NotBegun::Here(format!("`{} -m shoal.describe --speed` said {:?}", args.python, text.trim()));
            Ok((flops.ok_or_else(why)?, "measured"))
        }
        (None, None) => Ok((GUESSED_FLOPS, "assumed")),
    }
}

fn as_json(shown: &Shown<'_>) -> serde_json::Value {
    let layers = shown.model.layers.iter().zip(&shown.planned.layers).map(|(of, layer)| {
        json!({
            "name": layer.name, "kind": of.kind, "shape": of.shape, "elements": of.elements(),
            "scheme": layer.choice.as_ref().map(|choice| choice.scheme),
            "bytes": layer.choice.as_ref().map(|choice| choice.bytes),
            "seconds": layer.choice.as_ref().map(|choice| choice.seconds),
            "why": layer.choice.as_ref().map(|choice| &choice.why),
            "costs": layer.choice.as_ref().map(|choice| &choice.costs),
            "forward": layer.forward, "backward": layer.backward, "ready": layer.ready, "arrived": layer.arrived,
        })
    });
    json!({
        "model": shown.model.name, "batch": shown.batch, "elements": shown.model.elements(),
        "conditions": shown.lab, "link": shown.link, "flops_are": shown.speed_is,
        "planned": totals(shown.planned), "dense": totals(shown.dense),
        "layers": layers.collect::<Vec<_>>(),
    })
}

fn totals(p: &Prediction) -> serde_json::Value {
    let schemes = |wanted: fn(Scheme) -> bool| {
        p.layers.iter().filter_map(|l| l.choice.as_ref()).filter(|choice| wanted(choice.scheme)).count()
    };
    json!({
        "seconds": p.seconds, "compute": p.compute, "rebuild": p.rebuild, "waiting": p.waiting, "wire": p.wire,
        "sent": p.sent, "received": p.received, "bound": p.bound,
        "dense_layers": schemes(|s| s == Scheme::Dense), "factor_layers": schemes(|s| s == Scheme::Factors),
    })
}
