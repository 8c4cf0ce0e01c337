//! What does a plan say to a person (`--dry-run`)? Exactly what would run, without secrets.

use super::gang::{GangPlan, RankPlan};
use super::secret::REDACTED;
use super::template::{Address, Piece};
use crate::job::{Prepare, Program};
use crate::quote::{join, quote};
use std::fmt::Write;

/// Lines are folded after this many columns where a command can be continued.
const WIDTH: usize = 80;

/// The whole plan, one block per rank.
pub fn render(plan: &GangPlan) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (ranks, hosts) = (count(plan.ranks.len(), "rank"), count(plan.hosts.len(), "host"));
    let mut out = format!("run {}: {ranks} on {hosts}\n", plan.run);
    for (host, ports) in plan.ports_by_host() {
        let _ = writeln!(out, "reserves {} on {host}", count(ports as usize, "port"));
    }
    for rank in &plan.ranks {
        let _ = write!(out, "\n{}", block(rank));
    }
    out
}

/// The command of a rank as one line that a shell would understand, without secrets.
pub fn command_line(rank: &RankPlan) -> String {
    words(rank).join(" ")
}

fn block(rank: &RankPlan) -> String {
    let mut out = format!("{} on {}\n", rank.rank, rank.host);
    out.push_str(&folded("  run  ", &words(rank)));
    if let Some(cwd) = &rank.cwd {
        let _ = writeln!(out, "  cwd  {}", quote(cwd));
    }
    let _ = writeln!(out, "  log  {}", quote(&rank.log));
    for line in preparation(&rank.prepare) {
        let _ = writeln!(out, "  pre  {line}");
    }
    for (name, value) in &rank.env {
        // What is still a name, and what is hidden, is no word for a shell and is shown as it is.
        let literal = value.0.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Address(Address::Known(_))));
        let value = match literal {
            _ if sounds_secret(name) => REDACTED.into(),
            true => quote(&value.to_string()).into_owned(),
            false => value.to_string(),
        };
        let _ = writeln!(out, "  env  {name}={value}");
    }
    out
}

/// Users have secrets of their own, such as WANDB_API_KEY (SEC-2).
fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.ends_with("_KEY") || ["TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.contains(word))
}

fn words(rank: &RankPlan) -> Vec<String> {
    let arguments: Vec<String> = rank.arguments.iter().map(ToString::to_string).collect();
    match &rank.program {
        Program::Argv(own) => own.iter().map(|word| quote(word).into_owned()).chain(arguments).collect(),
        Program::Shell { line, append } => std::iter::once(line.clone())
            .chain(append.iter().map(|word| quote(word).into_owned()))
            .chain(arguments)
            .collect(),
        Program::Own { name, args } => std::iter::once(name.clone())
            .chain(args.iter().map(|word| quote(word).into_owned()))
            .chain(arguments)
            .collect(),
    }
}

fn preparation(prepare: &Prepare) -> Vec<String> {
    let mut lines = Vec::new();
    if !prepare.modules.is_empty() {
        lines.push(format!("module load {}", join(&prepare.modules)));
    }
    lines.extend(prepare.conda.iter().map(|name| format!("conda activate {}", quote(name))));
    lines.extend(prepare.virtualenv.iter().map(|root| format!("virtualenv {}", quote(root))));
    lines.extend(prepare.setup.iter().cloned());
    lines
}

/// Words over several lines, the way a shell takes them.
fn folded(label: &str, words: &[String]) -> String {
    let mut out = label.to_string();
    let mut column = label.len();
    for (index, word) in words.iter().enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > WIDTH - 2 {
            out.push_str(" \\\n           ");
            column = 11;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
    out
}
