//! Poseidon's spelling of a run.

use super::fleet_file;
use super::run::{self, NotBegun, absolute, begin, new_run_id, new_token, this_folder, timestamp};
use crate::args::psd_run::Args;
use crate::launch::record::Record;
use shoal_core::plan::command_list;
use shoal_core::plan::{Logs, RunSpec};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let (config, command) = config_and_command(args)?;
    let fleet = fleet_file::read(&config).map_err(NotBegun::Wrong)?;
    let programs = command_list::programs(&command);
    let root = absolute(&args.out)?;
    let time = timestamp(&root);
    let logs = Logs::poseidon(root, &time);
    let mut spec = RunSpec::new(new_run_id(), programs, logs, new_token()?);
    spec.flags = !args.no_flags;
    spec.env = args.env.iter().cloned().collect();
    spec.cwd = match &args.cwd {
        Some(cwd) => Some(cwd.clone()),
        None if fleet.shared.is_some() => None,
        None => Some(this_folder(&fleet)?),
    };
    spec.detached = args.detach;
    spec.silence_ms = run::silence_ms();
    // The file lists its nodes; that is how many there are.
    spec.oversubscribe = true;
    let style = run::style(args.json, args.verbose);
    let record = if args.dry_run {
        Record::none()
    } else {
        let path = Path::new("poseidon_run.log");
        Record::append(path).map_err(|e| NotBegun::Here(format!("{} cannot be written: {e}", path.display())))?
    };
    begin(fleet, &spec, args.dry_run, style, record, "psd_run", Some(&config))
}

/// `-c CONFIG CMD`, `CONFIG CMD`, or `CMD` beside a config.json.
fn config_and_command(args: &Args) -> Result<(PathBuf, String), NotBegun> {
    match (&args.cluster_config, args.cmd.as_slice()) {
        (Some(config), [command]) => Ok((config.clone(), command.clone())),
        (None, [config, command]) => Ok((config.into(), command.clone())),
        (None, [command]) if Path::new("config.json").exists() => Ok(("config.json".into(), command.clone())),
        (None, [_]) => Err(NotBegun::Wrong("no cluster configuration: give -c CLUSTER_CONFIG".into())),
        (_, words) => {
            let hint = "put the command in quotes: psd_run -c config.json \"python train.py --max_steps 1000\"";
            let count = words.len();
            Err(NotBegun::Wrong(format!("{count} arguments where one command was expected\n  hint: {hint}")))
        }
    }
}
