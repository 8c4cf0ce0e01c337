//! Which nodes does a command mean, and how are they reached?

use super::{file, provider};
use crate::args::cluster::Common;
use crate::commands::run::NotBegun;
use shoal_core::cluster::{Cluster, Node, Role};
use shoal_core::fleet::Fleet;
use shoal_core::suggest;

/// A cluster whose nodes are known.
pub struct Nodes {
    pub cluster: Cluster,
    /// The head first.
    pub list: Vec<Node>,
    /// Under this name there are machines that nothing here knows of.
    strange: Option<provider::Trouble>,
    /// With the machines in between.
    pub fleet: Fleet,
}

impl Nodes {
    pub fn of(options: &Common) -> Result<Nodes, NotBegun> {
        let cluster = file::read(&options.file, options).map_err(NotBegun::Wrong)?;
        let trouble = |trouble: provider::Trouble| NotBegun::Here(trouble.to_string());
        let provider = provider::of(&cluster).map_err(trouble)?;
        let list = provider.nodes().map_err(trouble)?;
        let strange = if list.is_empty() { provider.not_from_here() } else { None };
        let fleet = shoal_core::cluster::machines::fleet(&cluster.name, &list);
        Ok(Nodes { cluster, list, strange, fleet })
    }

    /// The node of that name or address; without one, the head.
    pub fn pick(&self, wanted: Option<&str>, file: &std::path::Path) -> Result<&Node, NotBegun> {
        let Some(wanted) = wanted else {
            let head = self.list.iter().find(|node| node.role == Role::Head);
            let hint = format!("`shoal up {}` starts it", file.display());
            return head.ok_or_else(|| match &self.strange {
                Some(trouble) => NotBegun::Here(trouble.to_string()),
                None => {
                    NotBegun::Here(format!("the cluster `{}` has no head that runs\n  hint: {hint}", self.cluster.name))
                }
            });
        };
        let is_it =
            |node: &&Node| [&node.host.name, &node.host.address, &node.internal].into_iter().any(|n| n == wanted);
        self.list.iter().find(is_it).ok_or_else(|| {
            let names = || self.list.iter().map(|node| node.host.name.as_str());
            let meant = suggest::closest(wanted, names()).map(|name| format!("; did you mean `{name}`?"));
            let some: Vec<&str> = names().take(MOST_NAMED).collect();
            let more = if self.list.len() > MOST_NAMED { ", ..." } else { "" };
            NotBegun::Wrong(format!(
                "no node `{wanted}` in the cluster `{}`{}\n  hint: it has {}{more}",
                self.cluster.name,
                meant.unwrap_or_default(),
                some.join(", ")
            ))
        })
    }
}

/// Nodes that an error lists.
const MOST_NAMED: usize = 8;
