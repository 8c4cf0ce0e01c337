//! What the verbs that go to one node share: which node, which ports, which kind of session.

use shoal_core::cluster::shell::Multiplexer;
use shoal_hosts::ssh::options::Forward;

#[derive(Debug, Clone, clap::Args)]
pub struct Reaching {
    /// Bring the cluster up first (`shoal up CLUSTER --yes`).
    #[arg(long)]
    pub start: bool,

    /// In a tmux session on the node.
    #[arg(long)]
    pub tmux: bool,

    /// In a screen session on the node.
    #[arg(long, conflicts_with = "tmux")]
    pub screen: bool,

    /// Let a port of this machine lead to one of the node's, as long as this command lives. May be given several times.
    #[arg(short = 'p', long = "port-forward", value_name = "LOCAL[:REMOTE]", value_parser = forward)]
    pub forwards: Vec<Forward>,

    /// Accepted for Ray's sake: nothing that could be out of date is kept.
    #[arg(long, hide = true)]
    pub no_config_cache: bool,
}

impl Reaching {
    /// What keeps the command on the node, if anything does. Ports do not go with that: they would close at once.
    pub fn detaching(&self) -> Result<Option<Multiplexer>, String> {
        match self.multiplexer() {
            Some(by) if !self.forwards.is_empty() => {
                let hint = format!("give --port-forward to `shoal attach --{}`", by.name());
                Err(format!("a command that is left behind has no use for ports\n  hint: {hint}"))
            }
            by => Ok(by),
        }
    }

    pub fn multiplexer(&self) -> Option<Multiplexer> {
        match (self.tmux, self.screen) {
            (true, _) => Some(Multiplexer::Tmux),
            (_, true) => Some(Multiplexer::Screen),
            _ => None,
        }
    }
}

fn forward(text: &str) -> Result<Forward, String> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("`{text}` is no port"));
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    Ok(Forward { local: port(local)?, remote: port(remote)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_both_sides() {
        assert_eq!(forward("8265"), Ok(Forward { local: 8265, remote: 8265 }));
        assert_eq!(forward("9000:80"), Ok(Forward { local: 9000, remote: 80 }));
        for wrong in ["", "0", "80:", ":80", "x", "70000", "1:2:3"] {
            assert!(forward(wrong).is_err(), "{wrong}");
        }
    }
}
