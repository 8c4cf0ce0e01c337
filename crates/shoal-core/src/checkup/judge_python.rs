//! Is there a Python, the one that the fleet wants, and does it fit?

use super::facts::{Item, Python};
use super::judge::Wants;
use super::{Check, Finding};
use crate::job::Prepare;

/// What the Python package needs.
const OLDEST: (u32, u32) = (3, 9);

pub fn python(python: &Item<Python>, wants: &Wants) -> Finding {
    let python = match python {
        Ok(python) => python,
        Err(why) => return missing(why, &wants.prepare),
    };
    let version = &python.version;
    let text = match &python.shoal {
        Some(shoal) => format!("{version} in {}, with shoal {shoal}", python.path),
        None => format!("{version} in {}", python.path),
    };
    if minor(version).is_some_and(|version| version < OLDEST) {
        let (major, minor) = OLDEST;
        return Finding::yellow(
            Check::Python,
            version,
            text,
            format!("`import shoal` needs {major}.{minor} or newer; other programs may do without"),
        );
    }
    if python.shoal.as_ref().is_some_and(|there| *there != wants.shoal) {
        return Finding::yellow(
            Check::Python,
            version,
            format!("{text}, which is not this one's {}", wants.shoal),
            "runs refuse to mix versions; install the same release of the package there",
        );
    }
    Finding::green(Check::Python, version, text)
}

fn missing(why: &str, prepare: &Prepare) -> Finding {
    if let Some(venv) = &prepare.virtualenv {
        return Finding::red(
            Check::Python,
            "no venv",
            format!("the virtualenv {venv} cannot be used: {why}"),
            format!("make it there: `python3 -m venv {venv}`, or put it on a drive that all hosts share"),
        );
    }
    if let Some(conda) = &prepare.conda {
        let hint = "make the environment there (`conda env create`), or mend `conda:` in the fleet file";
        let text = format!("the conda environment {conda} cannot be used: {why}");
        return Finding::red(Check::Python, "no conda", text, hint);
    }
    if !prepare.modules.is_empty() {
        let text = format!("the modules {} cannot be used: {why}", prepare.modules.join(" "));
        return Finding::red(Check::Python, "no module", text, "`module avail` there lists what there is");
    }
    Finding::yellow(
        Check::Python,
        "none",
        format!("no Python: {why}"),
        "if your programs need it, install it there (apt install python3), or name a `virtualenv:` in the fleet file",
    )
}

/// Major and minor version.
pub fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}
