//! Python environments with the frameworks that users train with.

use crate::bench::peers::said;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Without dependencies, because PyTorch's on Linux are 2.5 GB of CUDA libraries that CPUs never call: the package index has no
/// CPU build. `cuda-runtime` and `cuda-cupti` are real (10 MB; PyTorch calls them while it loads), the rest is made by `light_torch.py`.
const TORCH: [&str; 12] = [
    "--no-deps",
    "torch==2.15.0",
    "nvidia-cuda-runtime==13.*",
    "nvidia-cuda-cupti==13.*",
    "filelock",
    "typing_extensions",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "MarkupSafe",
    "fsspec",
];

/// Beside PyTorch, with what the tests need. Versions are pinned where a new one would change what is tested.
const OTHERS: [&str; 9] = [
    "setuptools",
    "tensorflow-cpu==2.21.*",
    "jax==0.10.*",
    "optax==0.2.*",
    "numpy",
    "pytest",
    "scikit-learn",
    "pandas",
    "PyYAML",
];

/// The interpreter that has PyTorch, TensorFlow, JAX and pytest: for the tests and for `bench train`.
pub fn all() -> Result<PathBuf> {
    with_torch("frameworks", &OTHERS)
}

/// An environment with PyTorch and `more`.
pub fn with_torch(name: &str, more: &[&str]) -> Result<PathBuf> {
    let python = crate::venv::ensure(name, &TORCH)?;
    let environment = python.ancestors().nth(2).context("the interpreter lies in no environment")?;
    let stamp = environment.join("more-packages.txt");
    let wanted = more.join("\n");
    if !std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        crate::venv::pip(&python, &[&["install", "--quiet", "--disable-pip-version-check"], more].concat())?;
        torch(&python)?;
        std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    Ok(python)
}

/// Makes `import torch` work.
fn torch(python: &Path) -> Result<()> {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = said(Command::new(python).args(["-c", ask]))?;
    let script = crate::root().join("xtask/light_torch.py");
    let import = "import torch.distributed as d; assert d.is_gloo_available()";
    let light = said(Command::new(python).arg(script).arg(site.trim()))
        .and_then(|_| said(Command::new(python).args(["-c", import])));
    if let Err(error) = light {
        eprintln!("PyTorch without CUDA does not load ({error:#}); installing it with all of CUDA (3 GB)");
        crate::venv::pip(python, &["install", "--quiet", "--force-reinstall", TORCH[1]])?;
        said(Command::new(python).args(["-c", import])).context("cannot import PyTorch")?;
    }
    Ok(())
}
