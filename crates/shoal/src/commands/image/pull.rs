//! Fetches an image from a registry, and gives it another name here.

use crate::args::image::pull::Pull;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::image::{engines, logins, run as running};
use crate::say;
use serde_json::json;
use shoal_core::image::Reference;
use shoal_core::image::engine::Line;
use shoal_core::image::explain::{Doing, explain};
use shoal_core::image::reference::is_loopback;
use shoal_core::quote::join;
use std::process::ExitCode;

pub fn run(args: &Pull) -> Result<ExitCode, NotBegun> {
    let image = Reference::parse(&args.image).map_err(NotBegun::Wrong)?;
    let name = args.name.as_deref().map(|name| Reference::named(name, args.tag.as_deref()));
    let name = name.transpose().map_err(NotBegun::Wrong)?;
    let engine = engines::find(args.common.engine.map(Into::into), None, args.common.dry_run)?;
    let registry = image.registry.clone();
    let login = registry.as_deref().and_then(|registry| logins::find(registry, &image.path));
    let is_near = registry.as_deref().is_some_and(is_loopback);
    let line = Line { plain: args.common.insecure || is_near, login: login.clone() };
    engines::note_line(engine, registry.as_deref().unwrap_or_default(), &line, args.common.insecure);
    let commands = engine.pull(&image, name.as_ref(), &line);
    let known = name.as_ref().unwrap_or(&image);
    if args.common.dry_run {
        if args.common.json {
            let (image, known) = (image.to_string(), known.to_string());
            say::line(json!({ "image": known, "from": image, "engine": engine.program(), "commands": commands }));
        } else {
            commands.iter().for_each(|argv| say::line(join(argv)));
        }
        return Ok(Exit::Success.into());
    }
    for argv in &commands {
        let ran = running::run(argv, None).map_err(NotBegun::Here)?;
        if !ran.ok {
            let image = image.to_string();
            let doing = Doing::Pull { image: &image, registry: registry.as_deref(), login: login.as_deref() };
            return Err(NotBegun::Here(explain(engine, &doing, &ran.said)));
        }
    }
    let id = running::id(engine, known).unwrap_or_default();
    if args.common.json {
        let (image, known) = (image.to_string(), known.to_string());
        say::line(json!({ "image": known, "from": image, "id": id, "engine": engine.program() }));
    } else {
        say::line(known);
    }
    Ok(Exit::Success.into())
}
