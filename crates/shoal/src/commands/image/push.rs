//! Sends an image to a registry.

use crate::args::image::push::Push;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::image::{engines, last, logins, run as running};
use crate::say;
use serde_json::json;
use shoal_core::image::engine::{Line, pushed_digest};
use shoal_core::image::explain::{Doing, explain};
use shoal_core::image::reference::is_loopback;
use shoal_core::image::{Engine, Reference};
use shoal_core::quote::join;
use std::process::ExitCode;

pub fn run(args: &Push) -> Result<ExitCode, NotBegun> {
    let (image, before) = which(args).map_err(NotBegun::Wrong)?;
    let target = image.in_registry(&args.registry).map_err(NotBegun::Wrong)?;
    let registry = target.registry.clone().unwrap_or_default();
    let engine = engines::find(args.common.engine.map(Into::into), before, args.common.dry_run)?;
    let login = logins::find(&registry, &target.path);
    let line = Line { plain: args.common.insecure || is_loopback(&registry), login: login.clone() };
    engines::note_line(engine, &registry, &line, args.common.insecure);
    let commands = engine.push(&image, &target, &line);
    if args.common.dry_run {
        if args.common.json {
            let (image, target) = (image.to_string(), target.to_string());
            say::line(json!({ "image": image, "target": target, "engine": engine.program(), "commands": commands }));
        } else {
            commands.iter().for_each(|argv| say::line(join(argv)));
        }
        return Ok(Exit::Success.into());
    }
    if running::id(engine, &image).is_none() {
        let (name, tag) = (&image.path, image.tag.as_deref().unwrap_or_default());
        return Err(NotBegun::Here(format!(
            "{} has no image `{image}`\n  hint: `shoal image build -n {name} -t {tag}` makes it; --engine asks another engine",
            engine.program()
        )));
    }
    let mut output = String::new();
    for argv in &commands {
        let ran = running::run(argv, None).map_err(NotBegun::Here)?;
        if !ran.ok {
            let target = target.to_string();
            let doing = Doing::Push { target: &target, registry: &registry, login: login.as_deref() };
            return Err(NotBegun::Here(explain(engine, &doing, &ran.said)));
        }
        output = ran.output;
    }
    let digest = pushed_digest(&output);
    let pinned = digest.as_ref().map_or_else(|| target.to_string(), |digest| format!("{target}@{digest}"));
    if args.common.json {
        let (image, target) = (image.to_string(), target.to_string());
        say::line(json!({ "image": image, "target": target, "digest": digest, "engine": engine.program() }));
    } else {
        say::line(pinned);
    }
    Ok(Exit::Success.into())
}

/// The image, and the engine that made it.
fn which(args: &Push) -> Result<(Reference, Option<Engine>), String> {
    let here = std::env::current_dir().map_err(|e| format!("this folder is gone: {e}"))?;
    let known = last::recall(&here);
    let Some(name) = &args.name else {
        let (mut image, engine) = known.ok_or_else(|| {
            let hint = "name one with -n, or make one with `shoal image build -n NAME`";
            format!("no image was built from {} yet\n  hint: {hint}", here.display())
        })?;
        if args.tag.is_some() {
            image = Reference::named(&Reference { tag: None, ..image }.to_string(), args.tag.as_deref())?;
        }
        return Ok((image, Some(engine)));
    };
    let image = Reference::named(name, args.tag.as_deref())?;
    let engine = known.filter(|(other, _)| other.path == image.path).map(|(_, engine)| engine);
    Ok((image, engine))
}
