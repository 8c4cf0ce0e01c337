//! Which objects make a launch? One per run: a name with a seed, on a GPU of a node.
//!
//! A set's pods are all alike, and one with four replicas cannot tell them four seeds. So every replica becomes an object of its own.

use super::manifest;
use super::names;
use super::runs::{Entry, Runs, Seeds};
use super::save_path;
use super::template::{Kind, Template};
use super::variables::{self, Fault};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::reader::Reader;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One run of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub name: String,
    pub seed: u64,
    pub node: Option<String>,
    pub gpu: Option<String>,
    pub save_path: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    pub kind: Kind,
    pub name: String,
    pub run: Run,
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub launch: String,
    pub kind: Kind,
    pub per_gpu: Option<u64>,
    pub share_save_path: bool,
    pub objects: Vec<Object>,
}

#[derive(Debug, Clone, Default)]
pub struct Options<'o> {
    /// The launch's name, if it is not the template's.
    pub name: Option<&'o str>,
    pub keep_kind: bool,
}

/// Where the runs were read from, for what is said of them.
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    pub file: &'s str,
    pub text: &'s str,
}

/// `environment` says what a variable of a save path is, beside those of the run.
pub fn plan(
    template: &Template,
    runs: &Runs,
    options: &Options,
    source: Source,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(Plan, Vec<Diagnostic>), Diagnostics> {
    let mut reader = Reader::new(source.file, source.text);
    let launch = options.name.unwrap_or(&template.name);
    let kind = if options.keep_kind { template.kind } else { Kind::Job };
    let mut objects: Vec<Object> = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    let taken = seeds_of(template, runs, &mut reader);
    for (entry, seeds) in runs.entries.iter().zip(&taken) {
        if entry.gpu.is_some() && template.asks_gpus.is_some() {
            let message = "the template asks the device plugin for a GPU, which then chooses it: `gpu` cannot";
            let help = "leave out either `gpu` here or `nvidia.com/gpu` in the template";
            reader.report(reader.at(entry.at, message).help(help));
        }
        for seed in seeds {
            let save_path = save_path_of(&mut reader, template, runs, entry, launch, *seed, environment);
            let run = Run {
                name: entry.name.clone(),
                seed: *seed,
                node: entry.node.clone(),
                gpu: entry.gpu.clone(),
                save_path,
            };
            let name = names::object(launch, &run.name, run.gpu.as_deref(), run.node.as_deref(), *seed);
            if name.len() > names::LONGEST {
                let over = name.len() - names::LONGEST;
                let message = format!("its object would be called `{name}`, which is {over} characters too long");
                reader.report(reader.at(entry.at, message).help("shorten the run's name, or the launch's with --name"));
                break;
            }
            let manifest = manifest::of(template, runs, entry, &run, &manifest::Naming { launch, name: &name, kind });
            objects.push(Object { kind, name, run, manifest });
            places.push(entry.at);
        }
        if reader.is_full() {
            break;
        }
    }
    check(&mut reader, runs, &places, &objects);
    let plan =
        Plan { launch: launch.into(), kind, per_gpu: runs.per_gpu, share_save_path: runs.share_save_path, objects };
    reader.finish(Some(plan))
}

/// Seeds that are only counted go on from the entry above of the same name, past those that are given.
fn seeds_of(template: &Template, runs: &Runs, reader: &mut Reader) -> Vec<Vec<u64>> {
    let mut given: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for entry in &runs.entries {
        let Seeds::These(these) = &entry.seeds else { continue };
        let known = given.entry(&entry.name).or_default();
        for seed in these {
            if !known.insert(*seed) {
                let message = format!("run `{}` has seed {seed} twice", entry.name);
                let help = "two runs of one name and one seed are the same run: change the seed or the name";
                reader.report(reader.at(entry.at, message).help(help));
            }
        }
    }
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let of = |entry: &Entry| {
        let count = match &entry.seeds {
            Seeds::These(these) => return these.clone(),
            Seeds::Count(count) => *count,
            Seeds::AsTemplate => template.replicas,
        };
        let from = *next.get(entry.name.as_str()).unwrap_or(&runs.first_seed);
        let is_free = |seed: &u64| !given.get(entry.name.as_str()).is_some_and(|known| known.contains(seed));
        let seeds: Vec<u64> = (from..).filter(is_free).take(count as usize).collect();
        next.insert(entry.name.clone(), seeds.last().map_or(from, |last| last + 1));
        seeds
    };
    runs.entries.iter().map(of).collect()
}

fn save_path_of(
    reader: &mut Reader,
    template: &Template,
    runs: &Runs,
    entry: &Entry,
    launch: &str,
    seed: u64,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let Some((at, text)) = entry.save_path.as_ref().or(runs.save_path.as_ref()) else {
        return save_path::usual(&template.mounts, launch, &entry.name, seed);
    };
    let of_run = |name: &str| match name {
        "NAME" => Some(entry.name.clone()),
        "SEED" => Some(seed.to_string()),
        "LAUNCH" => Some(launch.to_string()),
        "GPU" => entry.gpu.clone(),
        "NODE" => entry.node.clone(),
        _ => environment(name),
    };
    let filled = match variables::fill(text, &of_run) {
        Ok(filled) => filled,
        Err(fault) => {
            once(reader, *at, variable_fault(&fault));
            return None;
        }
    };
    let Some(path) = save_path::tidy(&filled) else {
        once(reader, *at, (format!("`{filled}` is no path to save to"), "it begins with `/` and has no `..`".into()));
        return None;
    };
    if !save_path::is_kept(&path, &template.mounts) {
        let mounts: Vec<String> = template.mounts.iter().map(|mount| format!("`{}`", mount.path)).collect();
        let help = match mounts.is_empty() {
            true => "the template mounts no volume at all".into(),
            false => format!("the template mounts {}", mounts.join(", ")),
        };
        once(reader, *at, (format!("`{path}` is on no volume: it would go with the pod"), help));
        return None;
    }
    Some(path)
}

fn variable_fault(fault: &Fault) -> (String, String) {
    match fault {
        Fault::Unknown(name) => (
            format!("nothing says what `${{{name}}}` is"),
            format!(
                "export {name}, or use NAME, SEED, LAUNCH, GPU and NODE, which every run has as far as it is given them"
            ),
        ),
        Fault::Open => ("a `$` that begins no variable".into(), "write `${NAME}`; a `$` alone is `$$`".into()),
    }
}

/// What is wrong with one line is wrong for each of its seeds; it is said once.
fn once(reader: &mut Reader, at: Place, (message, help): (String, String)) {
    if !reader.has_error_at(at) {
        reader.report(reader.at(at, message).help(help));
    }
}

fn check(reader: &mut Reader, runs: &Runs, places: &[Place], objects: &[Object]) {
    let mut names = BTreeSet::new();
    let mut paths: BTreeMap<&str, &Object> = BTreeMap::new();
    let mut per_gpu: BTreeMap<(&Option<String>, &String), u64> = BTreeMap::new();
    for (object, at) in objects.iter().zip(places.iter().copied()) {
        if !names.insert(&object.name) {
            let message = format!("two runs would both be called `{}`", object.name);
            once(reader, at, (message, "change the name of one".into()));
        }
        if let Some(path) = object.run.save_path.as_deref().filter(|_| !runs.share_save_path)
            && let Some(other) = paths.insert(path, object)
        {
            let entry = runs.entries.iter().find(|entry| entry.at == at);
            let given = entry.and_then(|entry| entry.save_path.as_ref()).or(runs.save_path.as_ref());
            let at = given.map_or(at, |(at, _)| *at);
            let message = format!("`{}` and `{}` would both save to {path}", other.name, object.name);
            let help = "put `${NAME}` and `${SEED}` into it, or say `share_save_path: true`";
            once(reader, at, (message, help.into()));
        }
        if let Some(gpu) = &object.run.gpu {
            let held = per_gpu.entry((&object.run.node, gpu)).or_default();
            *held += 1;
            if runs.per_gpu.is_some_and(|most| *held > most) {
                let most = runs.per_gpu.unwrap_or_default();
                let node = object.run.node.as_deref().unwrap_or("any node");
                let message = format!("GPU {gpu} of {node} would hold more than the {most} runs that `per_gpu` allows");
                once(reader, at, (message, "move runs to another GPU, or raise `per_gpu`".into()));
            }
        }
    }
}
