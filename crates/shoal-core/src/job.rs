//! What a host is asked to run: the part of a gang's plan that concerns it, complete, with nothing left to choose (PLAN-1).
//!
//! It travels by stdin of the program that keeps the ranks, never in argv: environments hold the run's token (SEC-2).

use crate::quote::{join, quote};
use crate::rank::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes whenever the meaning of a field does (WIRE-1).
pub const JOB_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostJob {
    pub version: u32,
    /// The run's id, which is a safe file name.
    pub run: String,
    /// The name this host has in the fleet.
    pub host: String,
    /// Whether the ranks outlive the connection to the launcher.
    pub detached: bool,
    /// Milliseconds between asking a rank to end (SIGTERM) and ending it (SIGKILL).
    pub grace_ms: u64,
    pub ranks: Vec<RankJob>,
    /// How the hosts of a detached run keep together. Without it the run is on this host alone, or its launcher stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangLine>,
}

impl HostJob {
    /// Whether one rank is all there is of the run: nobody has to hear of its end.
    pub fn is_all(&self) -> bool {
        self.ranks.len() == 1 && self.gang.is_none()
    }
}

/// The wardens of a detached run over several hosts talk to one of them, the head, which decides for all (GANG-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangLine {
    /// The host whose warden listens.
    pub head: String,
    /// Where the others reach it.
    pub address: String,
    pub port: u16,
    /// Proved before anything is said (SEC-1); empty in records (SEC-2).
    pub token: String,
    /// A host that has not been heard for so long is lost.
    pub silence_ms: u64,
    /// All ranks of the run and their hosts.
    pub ranks: BTreeMap<Rank, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankJob {
    pub rank: Rank,
    pub program: Program,
    /// Added to the environment the login gives. May hold secrets.
    pub env: BTreeMap<String, String>,
    /// Where it runs; `~` and `~/...` mean the user's home. Without it, the home.
    pub cwd: Option<String>,
    /// Its log file on this host; `~` as above. Folders are made.
    pub log: String,
    /// What comes before the program in its environment.
    pub prepare: Prepare,
}

/// What a rank executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Arguments as given, no shell in between.
    Argv(Vec<String>),
    /// A line for `/bin/sh -c`, to which `append` is added as separate, exact words (`"$@"`).
    Shell { line: String, append: Vec<String> },
    /// One of our own programs, from the same folder as the keeper's: `ps_master`, `ps_server`.
    Own { name: String, args: Vec<String> },
}

/// As one line that a shell would understand.
impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, rest) = match self {
            Program::Argv(words) => return f.write_str(&join(words)),
            Program::Shell { line, append } => (line, append),
            Program::Own { name, args } => (name, args),
        };
        let space = if rest.is_empty() { "" } else { " " };
        write!(f, "{first}{space}{}", join(rest))
    }
}

/// The environment a program wants to find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prepare {
    /// A virtualenv's root: its `bin` leads PATH, `VIRTUAL_ENV` is set, `PYTHONHOME` is not.
    pub virtualenv: Option<String>,
    /// A conda environment, by name or folder.
    pub conda: Option<String>,
    /// For `module load`.
    pub modules: Vec<String>,
    /// Shell lines that run before the program, in its shell; the first that fails ends the rank.
    pub setup: Vec<String>,
}

/// Makes sure that there is a `module` command: it is a function that only login shells have.
pub const FIND_MODULE: &str = r#"if ! command -v module >/dev/null 2>&1; then
  for shoal_f in "${MODULESHOME:-/nowhere}/init/sh" /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/sh /usr/share/Modules/init/sh /usr/share/modules/init/sh; do
    if [ -r "$shoal_f" ]; then . "$shoal_f"; break; fi
  done
fi
command -v module >/dev/null 2>&1 || { echo "shoal: this host has no 'module' command" >&2; exit 127; }"#;

/// Makes sure that conda can activate: what its installer adds to a shell's files is for people's shells alone.
pub const FIND_CONDA: &str = r#"shoal_c=$(command -v conda 2>/dev/null) || shoal_c=${CONDA_EXE:-}
for shoal_f in "${shoal_c%/*/conda}" "$HOME/miniconda3" "$HOME/miniforge3" "$HOME/mambaforge" "$HOME/anaconda3" /opt/conda /opt/miniconda3 /opt/miniforge3 /opt/anaconda3; do
  if [ -r "$shoal_f/etc/profile.d/conda.sh" ]; then . "$shoal_f/etc/profile.d/conda.sh"; shoal_c=found; break; fi
done
[ "$shoal_c" = found ] || { echo "shoal: no conda on this host: not in PATH, CONDA_EXE, ~/miniconda3, ~/miniforge3, ~/anaconda3 or /opt" >&2; exit 127; }"#;

impl Prepare {
    /// All of it but the virtualenv as shell lines, for those who know nothing else. What a line is for stands in its first words.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.modules.is_empty() {
            lines.push(format!("# find the module command\n{FIND_MODULE}"));
        }
        lines.extend(self.modules.iter().map(|module| format!("module load {}", quote(module))));
        if let Some(name) = &self.conda {
            lines.push(format!("# find conda\n{FIND_CONDA}"));
            lines.push(format!("conda activate {}", quote(name)));
        }
        lines.extend(self.setup.iter().cloned());
        lines
    }
}
