//! The peers: what is measured beside ours, brought onto this machine when missing.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs and their Debian packages. `mpicc` stands for the headers and libraries that mpi4py may be built against.
const PROGRAMS: [(&str, &[&str]); 4] =
    [("mpirun", &["openmpi-bin"]), ("mpicc", &["libopenmpi-dev"]), ("iperf3", &["iperf3"]), ("cc", &["gcc"])];

/// Without dependencies, because PyTorch's on Linux are 2.5 GB of CUDA libraries that Gloo on CPUs never calls: the package index has no
/// CPU build. `cuda-runtime` and `cuda-cupti` are real (10 MB; PyTorch calls them while it loads), the rest is made by `light_torch.py`.
/// Versions are pinned where a new one would change what is compared.
const PACKAGES: [&str; 15] = [
    "--no-deps",
    "torch==2.15.0",
    "nvidia-cuda-runtime==13.*",
    "nvidia-cuda-cupti==13.*",
    "filelock",
    "typing_extensions",
    "setuptools",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "MarkupSafe",
    "fsspec",
    "numpy",
    "mpi4py==4.1.*",
];

/// Installs what is missing, or says what is; gives the interpreter that has PyTorch and mpi4py.
pub fn ensure() -> Result<PathBuf> {
    crate::setup::programs("the peers", &PROGRAMS)?;
    let python = crate::venv::ensure("bench", &PACKAGES)?;
    torch(&python)?;
    Ok(python)
}

/// Makes `import torch` work, once for each environment.
fn torch(python: &Path) -> Result<()> {
    let environment = python.ancestors().nth(2).context("the interpreter lies in no environment")?;
    let stamp = environment.join("torch-works");
    if stamp.exists() {
        return Ok(());
    }
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = said(Command::new(python).args(["-c", ask]))?;
    let script = crate::root().join("bench/sync/light_torch.py");
    let import = "import torch.distributed as d; assert d.is_gloo_available()";
    let light = said(Command::new(python).arg(script).arg(site.trim()))
        .and_then(|_| said(Command::new(python).args(["-c", import])));
    if let Err(error) = light {
        eprintln!("PyTorch without CUDA does not load ({error:#}); installing it with all of CUDA (3 GB)");
        crate::venv::pip(python, &["install", "--quiet", "--force-reinstall", PACKAGES[1], "numpy"])?;
        said(Command::new(python).args(["-c", import])).context("cannot import PyTorch with Gloo")?;
    }
    std::fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))
}

/// What a command prints; its own message when it fails.
pub fn said(command: &mut Command) -> Result<String> {
    let told = crate::cargo::told(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{told}` did not start"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n  ");
        bail!("`{told}` ended with {}:\n  {last}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
