//! Which engine is here and works?

use crate::commands::run::NotBegun;
use crate::on_host::bounded;
use shoal_core::image::Engine;
use shoal_core::image::engine::{ALL, Line};
use shoal_core::image::login::is_dockers;
use shoal_core::image::reference::is_loopback;
use std::process::Command;
use std::time::Duration;

/// An engine that is asked for its version and does not answer for so long is of no use.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// `None`: it is not here. An error: why it cannot work.
fn probe(engine: Engine) -> Option<Result<(), String>> {
    let argv = engine.probe();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    match bounded::program(command, ANSWERS_WITHIN) {
        Ok(None) => None,
        Ok(Some(said)) if said.code == Some(0) => Some(Ok(())),
        Ok(Some(said)) => Some(Err(said.complaint())),
        Err(why) => Some(Err(why)),
    }
}

/// The one that was asked for, else the one that made the image, else the first that works. Who is passed over is named.
pub fn find(asked: Option<Engine>, before: Option<Engine>, dry_run: bool) -> Result<Engine, NotBegun> {
    if let Some(engine) = asked {
        let program = engine.program();
        // What would be done can be said without it.
        return match if dry_run { Some(Ok(())) } else { probe(engine) } {
            Some(Ok(())) => Ok(engine),
            Some(Err(why)) => {
                let hint = match engine {
                    Engine::Docker => "start docker's engine (`systemctl start docker`), or leave out --engine",
                    Engine::Podman | Engine::Buildah => "leave out --engine to take another one",
                };
                Err(NotBegun::CannotStart(format!("{program} is here, but cannot work: {why}\n  hint: {hint}")))
            }
            None => Err(NotBegun::CannotStart(format!(
                "{program} is not installed here\n  hint: install {program}, or leave out --engine to take another one"
            ))),
        };
    }
    let mut idle = Vec::new();
    let order = before.into_iter().chain(ALL.into_iter().filter(|engine| Some(*engine) != before));
    for engine in order {
        match probe(engine) {
            None => {}
            Some(Ok(())) => {
                if !idle.is_empty() {
                    eprintln!("{}; {} does it (--engine chooses)", idle.join("; "), engine.program());
                }
                return Ok(engine);
            }
            Some(Err(why)) => idle.push(format!("{} is here, but cannot work ({why})", engine.program())),
        }
    }
    let hint = "install one of them: podman needs no service (Debian, Ubuntu: `apt install podman`; Fedora: `dnf install podman`)";
    Err(NotBegun::CannotStart(if idle.is_empty() {
        format!("no engine for images is here: neither docker nor podman nor buildah\n  hint: {hint}")
    } else {
        format!("no engine for images works: {}\n  hint: start it, or {hint}", idle.join("; "))
    }))
}

/// What docker decides by itself, said before it fails.
pub fn note_line(engine: Engine, registry: &str, line: &Line, insecure: bool) {
    if engine != Engine::Docker {
        return;
    }
    if insecure && !is_loopback(registry) {
        eprintln!("docker takes --insecure from its engine's settings alone: `insecure-registries` in daemon.json");
    }
    if let Some(file) = line.login.as_ref().filter(|file| !is_dockers(file)) {
        eprintln!(
            "the login for {registry} is in {file}, which docker does not read: `docker login {registry}`, or --engine podman"
        );
    }
}
