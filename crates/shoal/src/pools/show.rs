//! `shoal status` of a fleet with pools: what Shoal has in their namespaces, and whose it is.

use super::inventory::{self, Looked};
use crate::args::status::Args;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::queue::table::{self, left, right};
use serde_json::json;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::inventory::{Count, What};
use std::collections::BTreeMap;
use std::process::ExitCode;

const PROGRAM: &str = "shoal status";
/// Of several pools, some could not be asked.
const PARTIAL: u8 = 4;

type Things = BTreeMap<(What, bool), Count>;

pub fn run(args: &Args, pools: &[Pool]) -> Result<ExitCode, NotBegun> {
    let queue = inventory::queue()?;
    let (mut said, mut failed) = (Vec::new(), None);
    for pool in pools {
        let looked = Looked::at(pool, queue.as_ref()).and_then(|looked| Ok((looked.things()?, looked)));
        match looked {
            Ok((things, looked)) => {
                let (server, namespace) = (&looked.connection.server, &looked.connection.namespace);
                match args.json {
                    true => said.push(json!({
                        "pool": pool.name, "server": server, "namespace": namespace, "things": list(&things),
                    })),
                    false => crate::say::out(text(
                        &format!("{}: namespace {namespace} of {server}", pool.name),
                        &things,
                        table::width(),
                    )),
                }
            }
            Err(why) => {
                if pools.len() == 1 {
                    return Err(why);
                }
                let why = why.why();
                eprintln!("{PROGRAM}: {}: {why}", pool.name);
                said.push(json!({"pool": pool.name, "trouble": why}));
                failed = Some(failed.unwrap_or(0) + 1);
            }
        }
    }
    if args.json {
        crate::say::line(json!({ "version": 1, "pools": said }));
    }
    Ok(match failed {
        None => Exit::Success.into(),
        Some(count) if count == pools.len() => Exit::CannotStart.into(),
        Some(_) => ExitCode::from(PARTIAL),
    })
}

fn list(things: &Things) -> Vec<serde_json::Value> {
    let one = |((what, ours), count): (&(What, bool), &Count)| {
        let mut value = serde_json::to_value(what).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.extend([("ours".into(), json!(ours)), ("jobs".into(), json!(count.jobs))]);
            map.insert(
                "pods".into(),
                json!({"running": count.running, "waiting": count.waiting, "ended": count.ended}),
            );
        }
        value
    };
    things.iter().map(one).collect()
}

/// (pure)
fn text(head: &str, things: &Things, width: usize) -> String {
    if things.is_empty() {
        return format!("{head}\n  nothing of Shoal is there\n");
    }
    let columns = [left("WHAT", 0, 60), right("JOBS", 2), left("PODS", 1, 60), left("WHOSE", 0, 40)];
    let whose = |what: &What, ours: bool| match (what, ours) {
        (_, true) => "ours",
        (What::Launch(_), _) => "`shoal k8s destroy` removes it",
        (What::Sweep(_), _) => "another queue's, or another pool's",
        _ => "another's, or another pool's",
    };
    let row = |((what, ours), count): (&(What, bool), &Count)| {
        vec![what.words(), count.jobs.to_string(), count.words(), whose(what, *ours).into()]
    };
    let table = table::render(&columns, &things.iter().map(row).collect::<Vec<_>>(), width.saturating_sub(2));
    let indented: String = table.lines().map(|line| format!("  {line}\n")).collect();
    format!("{head}\n{indented}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_whose_it_is() {
        assert_eq!(text("cloud: x", &Things::new(), 80), "cloud: x\n  nothing of Shoal is there\n");
        let things = Things::from([
            ((What::Sweep("six".into()), true), Count { jobs: 1, running: 5, waiting: 1, ended: 0 }),
            ((What::Launch("workers".into()), false), Count { jobs: 12, running: 12, waiting: 0, ended: 0 }),
        ]);
        let shown = text("cloud: x", &things, 120);
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "cloud: x",
                "WHAT JOBS PODS WHOSE",
                "sweep six 1 5 running, 1 waiting ours",
                "launch workers 12 12 running `shoal k8s destroy` removes it"
            ]
        );
        assert_eq!(
            list(&things)[0],
            json!({"what": "sweep", "name": "six", "ours": true, "jobs": 1, "pods": {"running": 5, "waiting": 1, "ended": 0}})
        );
    }
}
