//! What do template and runs say?

use crate::commands::fleet_file::text_of;
use crate::commands::run::NotBegun;
use shoal_core::diagnostic::{Diagnostic, Diagnostics};
use shoal_core::kubernetes::names;
use shoal_core::kubernetes::plan::{self, Options, Plan, Source};
use shoal_core::kubernetes::template::{self, Template};
use shoal_core::kubernetes::{complaint, runs};
use shoal_hosts::kubernetes::Failure;
use std::path::Path;

/// A template as it was read, to point into it later.
#[derive(Debug)]
pub struct Read {
    pub file: String,
    pub text: String,
    pub template: Template,
}

pub fn template(path: &Path, namespace: Option<&str>) -> Result<Read, NotBegun> {
    let (file, text) = (path.display().to_string(), text_of(path).map_err(NotBegun::Wrong)?);
    let mut template = told(template::read(&file, &text))?;
    if let Some(namespace) = namespace {
        template.object["metadata"]["namespace"] = namespace.into();
        template.namespace = Some(namespace.into());
    }
    Ok(Read { file, text, template })
}

pub fn plan(read: &Read, path: &Path, options: &Options) -> Result<Plan, NotBegun> {
    let (file, text) = (path.display().to_string(), text_of(path).map_err(NotBegun::Wrong)?);
    let runs = told(runs::read(&file, &text))?;
    if let Some(fault) = options.name.and_then(names::label_fault) {
        return Err(NotBegun::Wrong(format!("--name cannot be the name of a launch: {fault}")));
    }
    let environment = |name: &str| std::env::var(name).ok();
    told(plan::plan(&read.template, &runs, options, Source { file: &file, text: &text }, &environment))
}

/// The launch's name and namespace, from the template or without one.
pub fn launch(
    file: Option<&Path>,
    name: Option<&str>,
    namespace: Option<&str>,
) -> Result<(String, Option<String>), NotBegun> {
    let read = file.map(|file| template(file, namespace)).transpose()?;
    let of_template = read.as_ref().map(|read| &read.template);
    let called = name.or(of_template.map(|template| template.name.as_str())).unwrap_or_default().to_string();
    if let Some(fault) = names::label_fault(&called) {
        return Err(NotBegun::Wrong(format!("`{called}` cannot be the name of a launch: {fault}")));
    }
    let namespace = namespace.map(String::from).or_else(|| of_template?.namespace.clone());
    Ok((called, namespace))
}

/// What the server refuses, at its place in the template where it has one.
pub fn refused(read: &Read, plan: &Plan, failure: &Failure) -> String {
    let complaints = complaint::of(&failure.status);
    match complaint::in_template(&complaints, &read.template, plan.kind, &read.file, &read.text) {
        Some(diagnostics) => diagnostics.to_string(),
        None => failure.to_string(),
    }
}

fn told<T>(outcome: Result<(T, Vec<Diagnostic>), Diagnostics>) -> Result<T, NotBegun> {
    let (value, warnings) = outcome.map_err(|errors| NotBegun::Wrong(format!("\n{errors}")))?;
    warnings.iter().for_each(|warning| eprintln!("{warning}\n"));
    Ok(value)
}
