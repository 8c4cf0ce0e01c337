//! Reading a cluster file from disk: with this process's environment, and with what fills its slots. Its warnings are said by the verbs that look
//! at the file as a whole; to repeat them at every `exec` would only teach people not to read them.

use crate::args::cluster::Common;
use crate::commands::fleet_file::text_of;
use shoal_core::cluster::Cluster;
use shoal_core::cluster::read::{self, Given, Reading, values};
use std::collections::BTreeMap;
use std::path::Path;

/// The cluster, or what to print.
pub fn read(path: &Path, options: &Common) -> Result<Cluster, String> {
    reading(path, &given(options)?).map(|reading| reading.cluster)
}

/// As `read`, with the file's warnings said.
pub fn read_aloud(path: &Path, options: &Common) -> Result<Cluster, String> {
    read_with(path, &given(options)?).map(|reading| reading.cluster)
}

fn reading(path: &Path, given: &Given) -> Result<Reading, String> {
    let text = text_of(path)?;
    read::read(&path.display().to_string(), &text, given).map_err(|errors| errors.to_string())
}

/// As `read_aloud`, with all that is given; for verbs that change the counts.
pub fn read_with(path: &Path, given: &Given) -> Result<Reading, String> {
    let reading = reading(path, given)?;
    reading.warnings.iter().for_each(|warning| eprintln!("{warning}\n"));
    Ok(reading)
}

/// What is known beside the file.
pub fn given(options: &Common) -> Result<Given, String> {
    let values = filling(&options.set, options.values.as_deref())?;
    Ok(Given { values, name: options.cluster_name.clone(), ..of_environment() })
}

/// What fills slots: of a file, and single ones over it.
pub fn filling(set: &[(String, String)], file: Option<&Path>) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    if let Some(path) = file {
        let text = text_of(path)?;
        all = values::of_file(&path.display().to_string(), &text).map_err(|errors| errors.to_string())?;
    }
    all.extend(set.iter().cloned());
    Ok(all)
}

/// The environment alone. What is not UTF-8 there cannot be named in a file either.
pub fn of_environment() -> Given {
    let text = |text: std::ffi::OsString| text.into_string().ok();
    let env = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
    Given { env: env.collect(), home, ..Given::default() }
}
