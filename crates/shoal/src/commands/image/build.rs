//! Makes a container image of a project.

use crate::args::image::build::Build;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::image::context::Context;
use crate::image::{engines, last, run as running};
use crate::launch::screen::size;
use crate::queue::snapshot::plainly;
use crate::say;
use serde_json::json;
use shoal_core::image::dockerfile::Dockerfile;
use shoal_core::image::engine::{self, Line};
use shoal_core::image::explain::{Doing, explain};
use shoal_core::image::reference::is_loopback;
use shoal_core::image::{Engine, Reference, generate};
use shoal_core::quote::join;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is built, and from what.
struct Source {
    dockerfile: Dockerfile,
    /// As the engine is told.
    file: String,
    folder: String,
    /// What is sent through stdin, where the Dockerfile is ours.
    context: Option<Context>,
}

pub fn run(args: &Build) -> Result<ExitCode, NotBegun> {
    let image = Reference::named(&args.name, args.tag.as_deref()).map_err(NotBegun::Wrong)?;
    let folder = args
        .folder
        .canonicalize()
        .map_err(|e| NotBegun::Wrong(format!("{}: {}", args.folder.display(), plainly(&e))))?;
    let source = source(args, &folder).map_err(NotBegun::Wrong)?;
    source.dockerfile.check().map_err(|wrong| NotBegun::Wrong(wrong.to_string()))?;
    let engine = engines::find(args.common.engine.map(Into::into), None, args.common.dry_run)?;
    let line = Line { plain: is_plain(&source.dockerfile, args.common.insecure), login: None };
    let argv = engine.build(&engine::Build {
        image: image.to_string(),
        dockerfile: source.file.clone(),
        context: if source.context.is_some() { "-".into() } else { source.folder.clone() },
        line,
    });
    if args.common.dry_run {
        show(args, &image, engine, &source, &argv);
        return Ok(Exit::Success.into());
    }
    let Source { dockerfile, context, .. } = source;
    let text = dockerfile.text.clone();
    let is_ours = context.is_some();
    let feed = context.map(|context| -> running::Feed { Box::new(move |to| context.write(&text, to)) });
    let ran = running::run(&argv, feed).map_err(NotBegun::Here)?;
    if !ran.ok {
        let doing = Doing::Build { image: &image.to_string(), dockerfile: &dockerfile };
        return Err(NotBegun::Here(explain(engine, &doing, &ran.said)));
    }
    let id = running::id(engine, &image).unwrap_or_default();
    last::remember(&folder, &image, engine);
    if args.common.json {
        let from = if is_ours { None } else { Some(&dockerfile.name) };
        say::line(json!({ "image": image.to_string(), "id": id, "engine": engine.program(), "dockerfile": from }));
    } else {
        say::line(&image);
        eprintln!("made by {}; `shoal image push REGISTRY` sends it", engine.program());
    }
    Ok(Exit::Success.into())
}

fn source(args: &Build, folder: &Path) -> Result<Source, String> {
    let own = match (&args.dockerfile, &args.base) {
        (Some(file), _) => Some(given(file, folder)?),
        (None, Some(_)) => None,
        (None, None) => {
            ["Dockerfile", "Containerfile"].iter().map(|name| folder.join(name)).find(|path| path.is_file())
        }
    };
    let folder_text = folder.to_str().ok_or_else(|| format!("{}: its name is not UTF-8", folder.display()))?;
    if let Some(path) = own {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {}", path.display(), plainly(&e)))?;
        let file = path.to_str().ok_or_else(|| format!("{}: its name is not UTF-8", path.display()))?.to_string();
        let dockerfile = Dockerfile::read(&name, &text);
        return Ok(Source { dockerfile, file, folder: folder_text.into(), context: None });
    }
    let context = Context::of(folder)?;
    let made = generate::generate(args.base.as_deref(), &|name| context.text(name));
    made.notes.iter().for_each(|note| eprintln!("{note}"));
    context.odd().iter().for_each(|note| eprintln!("{note}"));
    let dockerfile = Dockerfile::read("the Dockerfile made for it", &made.text);
    Ok(Source { dockerfile, file: generate::NAME.into(), folder: folder_text.into(), context: Some(context) })
}

/// Seen from here, or from the folder.
fn given(file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let found = [file.to_path_buf(), folder.join(file)].into_iter().find(|path| path.is_file());
    if let Some(path) = found {
        return path.canonicalize().map_err(|e| format!("{}: {}", path.display(), plainly(&e)));
    }
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.contains("Dockerfile") || name.contains("Containerfile"));
    names.sort();
    let hint = if names.is_empty() {
        "without -d one is made for you; --dry-run shows it".to_string()
    } else {
        format!("in {} are: {}", folder.display(), names.join(", "))
    };
    Err(format!("there is no Dockerfile {}\n  hint: {hint}", file.display()))
}

/// Engines know this for all registries of a build at once: so all have to be on loopback.
fn is_plain(dockerfile: &Dockerfile, insecure: bool) -> bool {
    let bases = dockerfile.bases().into_iter().filter_map(|base| Reference::parse(base).ok()?.registry);
    let bases: Vec<String> = bases.collect();
    insecure || (!bases.is_empty() && bases.iter().all(|registry| is_loopback(registry)))
}

fn show(args: &Build, image: &Reference, engine: Engine, source: &Source, argv: &[String]) {
    let (files, bytes) = source.context.as_ref().map_or((0, 0), Context::amount);
    if args.common.json {
        let text = source.context.as_ref().map(|_| &source.dockerfile.text);
        let name = if text.is_some() { None } else { Some(&source.dockerfile.name) };
        say::line(json!({
            "image": image.to_string(), "engine": engine.program(), "dockerfile": name, "generated": text, "commands": [argv],
            "files": files, "bytes": bytes,
        }));
        return;
    }
    if source.context.is_some() {
        say::line(source.dockerfile.text.trim_end());
        say::line("");
    }
    say::line(join(argv));
    if source.context.is_some() {
        let (many, bytes) =
            (if files == 1 { "" } else { "s" }, if bytes < 1 << 20 { format!("{bytes} bytes") } else { size(bytes) });
        eprintln!("on its stdin: a tar of {files} file{many} ({bytes}) of {}", source.folder);
    }
}
