//! How many workers, and do the numbers fit together? The command line's come before the file's.

use super::node_types::Types;
use super::{Given, TOP, old, take};
use crate::cluster::{Local, Provider};
use crate::document::reader::{Fields, Reader};

/// What Ray takes where the file says nothing.
const USUAL_MOST: u32 = 2;

/// Fills in the counts of the types; gives the most workers of all types together.
pub fn settle(
    reader: &mut Reader,
    fields: Fields,
    provider: &mut Provider,
    types: &mut Types,
    given: &Given,
) -> Option<u32> {
    let said = take::count(reader, fields, "max_workers");
    match provider {
        Provider::Local(local) => settle_local(reader, fields, local, types, given, said),
        Provider::Aws(_) => settle_types(reader, fields, types, given, said),
    }
}

/// Of a `local` cluster all machines are used unless fewer are asked for; then the first ones.
fn settle_local(
    reader: &mut Reader,
    fields: Fields,
    local: &mut Local,
    types: &mut Types,
    given: &Given,
    said: Option<u32>,
) -> Option<u32> {
    let there = u32::try_from(local.workers.len()).unwrap_or(u32::MAX);
    let most_at = fields.key("max_workers").unwrap_or(TOP);
    let least_at = fields.key("min_workers").or(fields.key("initial_workers")).unwrap_or(most_at);
    let most = given.max_workers.or(said).unwrap_or(there);
    let asked = given.min_workers.or(old::minimum(reader, fields));
    for (count, name, at) in [(Some(most), "max_workers", most_at), (asked, "min_workers", least_at)] {
        if count.is_some_and(|count| count > there) {
            let help = "add the others to `worker_ips`";
            reader.warn(at, format!("`{name}` is more than the {there} machines of `worker_ips`"), help);
        }
    }
    let most = most.min(there);
    let least = asked.map_or(most, |asked| asked.min(there));
    if least > most {
        let wrong = reader.at(least_at, format!("at least {least} workers are asked for, and at most {most}"));
        reader.report(wrong.help("`min_workers` is at most `max_workers`"));
        return None;
    }
    if least < there {
        let help = "set `min_workers`, or leave out both counts to use all of them";
        reader.warn(least_at, format!("only the first {least} of {there} machines of `worker_ips` are used"), help);
    }
    local.workers.truncate(least as usize);
    for worker in &mut types.workers {
        worker.kind.min_workers = least;
        worker.kind.max_workers = most;
    }
    Some(most)
}

fn settle_types(
    reader: &mut Reader,
    fields: Fields,
    types: &mut Types,
    given: &Given,
    said: Option<u32>,
) -> Option<u32> {
    let most_at = fields.key("max_workers").unwrap_or(TOP);
    let most = given.max_workers.or(said).unwrap_or(USUAL_MOST);
    if let Some(wanted) = given.min_workers {
        match types.workers.as_mut_slice() {
            [only] => only.kind.min_workers = wanted,
            several if total(several.iter().map(|worker| worker.kind.min_workers)) >= u64::from(wanted) => {}
            _ => {
                let at = fields.key("available_node_types").unwrap_or(TOP);
                let wrong = reader.at(at, "which type `--min-workers` means is not clear: the file has several");
                reader.report(wrong.help("set `min_workers` of a type"));
                return None;
            }
        }
    }
    let mut fits = true;
    for worker in &mut types.workers {
        worker.kind.max_workers = worker.own_max.unwrap_or(most);
        let (least, own) = (worker.kind.min_workers, worker.own_max);
        if own.is_some_and(|own| least > own) {
            let name = &worker.kind.name;
            let wrong = reader.at(worker.at, format!("`{name}` has more `min_workers` ({least}) than `max_workers`"));
            reader.report(wrong.help("raise its `max_workers`"));
            fits = false;
        }
    }
    let least = total(types.workers.iter().map(|worker| worker.kind.min_workers));
    if fits && least > u64::from(most) {
        let wrong = reader.at(most_at, format!("{least} workers are asked for, but `max_workers` is {most}"));
        let wrong = match said.or(given.max_workers) {
            Some(_) => wrong,
            None => wrong.found(format!("no `max_workers`, which is {USUAL_MOST} then, as in Ray")),
        };
        reader.report(wrong.help(format!("set `max_workers: {least}`, or give `--max-workers {least}`")));
        fits = false;
    }
    if fits && least < u64::from(most) && said.is_some() && given.max_workers.is_none() {
        let help = format!("`--min-workers {most}`, or `min_workers`, starts more");
        reader.warn(
            most_at,
            format!("{least} of at most {most} workers are started: nothing adds workers later"),
            &help,
        );
    }
    fits.then_some(most)
}

fn total(counts: impl Iterator<Item = u32>) -> u64 {
    counts.map(u64::from).sum()
}
