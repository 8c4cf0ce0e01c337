//! Is a pool of a fleet file meant, and which?

use crate::args::cluster::Common;
use crate::commands::fleet_file;
use crate::commands::run::NotBegun;
use shoal_core::fleet::Fleet;
use shoal_core::fleet::detect::{self, Form};
use shoal_core::fleet::pool::Pool;
use shoal_core::suggest::closest;

/// The pool, if the file is a native one; `None`: it is a cluster's.
pub fn of(common: &Common, name: Option<&str>) -> Result<Option<Pool>, NotBegun> {
    let Some((fleet, file)) = native(common, name)? else { return Ok(None) };
    pick(fleet, name, &file).map(Some).map_err(NotBegun::Wrong)
}

/// The same of all its pools; with a name, of that one.
pub fn all(common: &Common, name: Option<&str>) -> Result<Option<Vec<Pool>>, NotBegun> {
    let Some((fleet, file)) = native(common, name)? else { return Ok(None) };
    if name.is_some() || fleet.pools.is_empty() {
        return pick(fleet, name, &file).map(|pool| Some(vec![pool])).map_err(NotBegun::Wrong);
    }
    Ok(Some(fleet.pools))
}

/// The fleet, and what its file is called.
fn native(common: &Common, name: Option<&str>) -> Result<Option<(Fleet, String)>, NotBegun> {
    // What is not a file can be read once, and is for those who read cluster files.
    if name.is_none() && std::fs::metadata(&common.file).is_ok_and(|meta| !meta.is_file()) {
        return Ok(None);
    }
    let text = fleet_file::text_of(&common.file).map_err(NotBegun::Wrong)?;
    let file = common.file.display().to_string();
    if detect::form(&file, &text) != Form::Native {
        return match name {
            Some(_) => {
                Err(NotBegun::Wrong(format!("--pool is for fleet files with `pools`, and {file} is a cluster file")))
            }
            None => Ok(None),
        };
    }
    if common.cluster_name.is_some() || !common.set.is_empty() || common.values.is_some() {
        return Err(NotBegun::Wrong(format!(
            "{file} is no cluster file: it has no name to change and no slots to fill"
        )));
    }
    let fleet = fleet_file::read(&common.file).map_err(NotBegun::Wrong)?;
    Ok(Some((fleet, file)))
}

/// The one of that name, or the only one (pure).
fn pick(mut fleet: Fleet, name: Option<&str>, file: &str) -> Result<Pool, String> {
    let names: Vec<String> = fleet.pools.iter().map(|pool| pool.name.clone()).collect();
    let at = match name {
        _ if names.is_empty() => {
            let hint = "this works on cluster files of `shoal up`, and on fleet files with `pools`; hosts are reached by ssh and rsync";
            return Err(format!("{file} has no pools\n  hint: {hint}"));
        }
        Some(name) => names.iter().position(|known| known == name).ok_or_else(|| {
            let meant = closest(name, names.iter().map(String::as_str));
            let hint = meant.map_or_else(|| format!("it has {}", names.join(", ")), |m| format!("did you mean `{m}`?"));
            format!("{file} has no pool `{name}`\n  hint: {hint}")
        })?,
        None if names.len() == 1 => 0,
        None => return Err(format!("{file} has several pools\n  hint: say which with --pool: {}", names.join(", "))),
    };
    Ok(fleet.pools.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(names: &str) -> Fleet {
        let pool = |name: &str| {
            format!(
                "  - name: {name}\n    slots: 1\n    kubernetes: {{image: i, volumes: [{{claim: c, at: /mnt, here: /hot}}]}}\n"
            )
        };
        let pools: String = names.split_whitespace().map(pool).collect();
        let text = if pools.is_empty() { "hosts: [a]\n".into() } else { format!("pools:\n{pools}") };
        shoal_core::fleet::read("lab.yaml", &text).expect("a fleet").fleet
    }

    #[test]
    fn the_one_that_is_named_or_the_only_one() {
        for (names, asked, wanted) in [
            ("a", None, Ok("a")),
            ("a b", Some("b"), Ok("b")),
            ("a b", None, Err("--pool: a, b")),
            ("phoebe", Some("phebe"), Err("did you mean `phoebe`?")),
            ("", None, Err("has no pools")),
        ] {
            match (pick(fleet(names), asked, "lab.yaml"), wanted) {
                (Ok(pool), Ok(name)) => assert_eq!(pool.name, name),
                (Err(why), Err(says)) => assert!(why.contains(says), "{why}"),
                (got, _) => panic!("{got:?}, not {wanted:?}"),
            }
        }
    }
}
