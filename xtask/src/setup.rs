//! What the tests need from the system: found, or installed where that is allowed.

use anyhow::{Context, Result, bail};
use shoal_testkit::hosts::find_program;
use std::process::{Command, Stdio};

/// A thing the tests call, and the Debian packages that bring it.
struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    is_there: fn(&Need) -> bool,
}

const NEEDS: [Need; 17] = [
    Need { what: "sshd", packages: &["openssh-server"], is_there: on_path },
    Need { what: "ssh", packages: &["openssh-client"], is_there: on_path },
    Need { what: "ip", packages: &["iproute2"], is_there: on_path },
    Need { what: "iperf3", packages: &["iperf3"], is_there: on_path },
    Need { what: "rsync", packages: &["rsync"], is_there: on_path },
    Need { what: "tmux", packages: &["tmux"], is_there: on_path },
    Need { what: "screen", packages: &["screen"], is_there: on_path },
    Need { what: "podman", packages: &["podman"], is_there: on_path },
    Need { what: "buildah", packages: &["buildah"], is_there: on_path },
    Need { what: "docker-registry", packages: &["docker-registry"], is_there: on_path },
    Need { what: "runc", packages: &["runc"], is_there: on_path },
    Need { what: "busybox", packages: &["busybox-static"], is_there: on_path },
    Need { what: "cc", packages: &["gcc", "libc6-dev"], is_there: on_path },
    Need { what: "etcd", packages: &["etcd-server"], is_there: on_path },
    Need { what: "go", packages: &["golang-go"], is_there: on_path },
    Need { what: "python3", packages: &["python3"], is_there: on_path },
    Need { what: "Python's venv module", packages: &["python3-venv"], is_there: venv_module },
];

fn on_path(need: &Need) -> bool {
    find_program(need.what).is_some()
}

/// Debian's Python comes without `ensurepip`, and `python3 -m venv` finds out only half way through.
fn venv_module(_: &Need) -> bool {
    succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// Leaves the system able to run every test, or says exactly what is missing. Quick when nothing is.
pub fn run() -> Result<()> {
    rust_components()?;
    let needs: Vec<&Need> = NEEDS.iter().collect();
    satisfy("the tests", &needs)
}

/// The same for programs that only `who` needs: each with its Debian package.
pub fn programs(who: &str, wanted: &[(&'static str, &'static [&'static str])]) -> Result<()> {
    let needs: Vec<Need> = wanted.iter().map(|(what, packages)| Need { what, packages, is_there: on_path }).collect();
    satisfy(who, &needs.iter().collect::<Vec<_>>())
}

fn satisfy(who: &str, needs: &[&Need]) -> Result<()> {
    let missing: Vec<&&Need> = needs.iter().filter(|need| !(need.is_there)(need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.iter().map(|need| need.what).collect::<Vec<_>>().join(", ");
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let by_hand = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    if find_program("apt-get").is_none() {
        bail!("{who} need {what}\nhint: install what Debian has in these packages: {}", packages.join(" "));
    }
    if !rustix::process::geteuid().is_root() {
        bail!("{who} need {what}\nhint: sudo {by_hand}");
    }
    eprintln!("{who} need {what}; installing Debian packages: {}", packages.join(" "));
    install(&packages).with_context(|| {
        format!(
            "{who} need {what}, and installing it failed\n\
             hint: check that this machine reaches its package mirror (/etc/apt/sources.list*), or install by hand: {by_hand}"
        )
    })?;
    match missing.iter().find(|need| !(need.is_there)(need)) {
        Some(need) => bail!("{} is still not there after installing {}", need.what, need.packages.join(", ")),
        None => Ok(()),
    }
}

fn install(packages: &[&str]) -> Result<()> {
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn apt(args: &[&str]) -> Result<()> {
    // Quiet in the good case, and everything apt said in the bad one.
    let output = Command::new("apt-get")
        .arg("--quiet")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("apt-get did not start")?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n  ");
        bail!("`apt-get {}` ended with {}:\n  {last}", args.join(" "), output.status);
    }
    Ok(())
}

fn rust_components() -> Result<()> {
    for component in ["fmt", "clippy"] {
        if !succeeds(&mut crate::cargo::cargo(&[component, "--version"])) {
            bail!("`cargo {component}` does not run\nhint: rustup component add rustfmt clippy");
        }
    }
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
