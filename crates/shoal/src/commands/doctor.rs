//! Examines a fleet and says what was found.

use super::fleet_file;
use super::run::{NotBegun, new_token};
use crate::args::doctor::Args;
use crate::doctor::{Doctor, examine};
use crate::exit::Exit;
use crate::signals;
use shoal_core::checkup::Level;
use shoal_core::checkup::table::{Look, render};
use shoal_core::fleet::{Fleet, Reach};
use shoal_core::outcome::STOPPED;
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Where there is no terminal to ask.
const USUAL_WIDTH: usize = 80;
/// Narrower, and tables would have a word a line.
const NARROWEST: usize = 40;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let fleet = match &args.fleet {
        Some(file) => fleet_file::read(file).map_err(NotBegun::Wrong)?,
        None => Fleet::local(),
    };
    let me =
        std::env::current_exe().map_err(|e| NotBegun::Here(format!("cannot find this program's own file: {e}")))?;
    let parcel = if fleet.hosts.iter().all(|host| host.reach == Reach::Local) {
        Parcel { path: me, digest: String::new() }
    } else {
        Parcel::of(&me).map_err(|e| NotBegun::Here(format!("cannot read {}: {e}", me.display())))?
    };
    let asked = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let patience = Duration::from_secs(args.timeout);
    let doctor = Doctor { fleet, ssh: Settings::from_env(), parcel, token: new_token()?, patience, pods: args.pods };
    let Some(report) = examine(doctor, &|| asked() > 0) else {
        eprintln!("shoal doctor: stopped");
        return Ok(ExitCode::from(STOPPED));
    };
    let text = if args.json {
        format!("{}\n", serde_json::to_string(&report).unwrap_or_default())
    } else {
        render(&report, look())
    };
    // A reader that has seen enough (`| head`) is no failure of the fleet.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(if report.count(Level::Red) > 0 { Exit::RunFailed } else { Exit::Success }.into())
}

/// As wide as the terminal, in colour if it has some.
pub fn look() -> Look {
    let out = std::io::stdout();
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col)).filter(|w| *w > 0);
    let width: usize = said.or_else(asked).unwrap_or(USUAL_WIDTH);
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Look { width: width.max(NARROWEST), colour }
}
