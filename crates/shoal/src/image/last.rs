//! What was built from this folder before? So that `push` needs no name. Nothing depends on it: what cannot be written is asked for again.

use serde_json::{Map, Value, json};
use shoal_core::image::{Engine, Reference};
use std::path::{Path, PathBuf};

/// Older folders are forgotten.
const MOST: usize = 500;

fn file() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    Some(state.join("shoal/images.json"))
}

fn read() -> Map<String, Value> {
    let text = file().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

pub fn remember(folder: &Path, image: &Reference, engine: Engine) {
    let Some(file) = file() else { return };
    let mut all = read();
    if all.len() >= MOST {
        all.retain(|folder, _| Path::new(folder).exists());
    }
    let about = json!({ "image": image.to_string(), "engine": engine.program() });
    all.insert(folder.to_string_lossy().into_owned(), about);
    // Beside it, then renamed: whoever reads meanwhile sees one or the other.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    let written = std::fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))
        .and_then(|()| std::fs::write(&beside, Value::Object(all).to_string()))
        .and_then(|()| std::fs::rename(&beside, &file));
    if let Err(e) = written {
        eprintln!("{}: {e}; `shoal image push` will need -n", file.display());
    }
}

pub fn recall(folder: &Path) -> Option<(Reference, Engine)> {
    let folder = folder.canonicalize().ok()?;
    let all = read();
    let about = all.get(folder.to_str()?)?;
    let image = Reference::parse(about["image"].as_str()?).ok()?;
    Some((image, Engine::of_program(about["engine"].as_str()?)?))
}
