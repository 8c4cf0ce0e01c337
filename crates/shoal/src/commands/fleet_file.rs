//! Reading a fleet file from disk, with its warnings said. The machines of a cluster file of a cloud are those that run there now.

use crate::cluster::{file, lock, provider};
use shoal_core::cluster::read::Given;
use shoal_core::cluster::{Cluster, Provider, machines, read as cluster_file};
use shoal_core::diagnostic::Diagnostic;
use shoal_core::fleet::detect::{self, Form};
use shoal_core::fleet::{self, Fleet, ray};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Larger files are not fleet files.
const LARGEST: u64 = 4 << 20;
/// How long a pipe may take to give its text.
const PIPE_WAIT: Duration = Duration::from_secs(10);

/// The fleet, or what to print.
pub fn read(path: &Path) -> Result<Fleet, String> {
    read_filled(path, &BTreeMap::new())
}

/// As `read`, with what fills the slots of a cluster file.
pub fn read_filled(path: &Path, values: &BTreeMap<String, String>) -> Result<Fleet, String> {
    let text = text_of(path)?;
    let name = path.display().to_string();
    let form = detect::form(&name, &text);
    if let Some(slot) = values.keys().next().filter(|_| form != Form::Ray) {
        let hint = "--set and --values are for cluster files, whose slots they fill";
        return Err(format!("{name} has no slot `{slot}`: it is no cluster file\n  hint: {hint}"));
    }
    if let Some(cluster) = of_a_cloud(&name, &text, values) {
        return running(&name, &cluster);
    }
    match fleet::read_filled(&name, &text, values) {
        Ok(reading) => {
            // Whoever has brought the cluster up from here has done what a run leaves out.
            let is_up = lock::folder(&reading.fleet.name).is_some_and(|folder| folder.join("lock").exists());
            let news = |warning: &&Diagnostic| !(is_up && warning.message.ends_with(ray::LEFT_OUT));
            reading.warnings.iter().filter(news).for_each(|warning| eprintln!("{warning}\n"));
            Ok(reading.fleet)
        }
        Err(errors) => Err(errors.to_string()),
    }
}

/// The cluster, if the file is one of a cloud's and this machine has brought it up. Otherwise there is nobody to ask, and the reader of fleets
/// says so, or what is wrong with the file, at its place.
fn of_a_cloud(name: &str, text: &str, values: &BTreeMap<String, String>) -> Option<Cluster> {
    if detect::form(name, text) != Form::Ray {
        return None;
    }
    let given = Given { values: values.clone(), ..file::of_environment() };
    let reading = cluster_file::read(name, text, &given).ok()?;
    let ledger = lock::folder(&reading.cluster.name)?.join("ledger.jsonl");
    (matches!(reading.cluster.provider, Provider::Aws(_)) && ledger.exists()).then_some(reading.cluster)
}

/// Its nodes, as the cloud knows them.
fn running(name: &str, cluster: &Cluster) -> Result<Fleet, String> {
    let nodes = provider::of(cluster).and_then(|provider| provider.nodes()).map_err(|trouble| trouble.to_string())?;
    if nodes.is_empty() {
        return Err(format!(
            "{name}: no machine of cluster `{}` runs\n  hint: `shoal up {name}` starts them",
            cluster.name
        ));
    }
    Ok(machines::plainly_named(machines::fleet(&cluster.name, &nodes)))
}

/// What a pipe (`<(...)`, /dev/stdin) holds; one that nobody writes to must not keep us for ever.
fn bytes_of_pipe(path: &Path) -> Result<Vec<u8>, String> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let owned = path.to_path_buf();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(owned).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        let _ = send.send(read.map(|_| bytes));
    });
    let name = path.display();
    match receive.recv_timeout(PIPE_WAIT) {
        Ok(Ok(bytes)) if bytes.len() as u64 > LARGEST => {
            Err(format!("{name} has more than {LARGEST} bytes; no fleet file is that large"))
        }
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(e)) => Err(format!("{name}: {e}")),
        Err(_) => Err(format!("{name} is a pipe, and its end did not come within {} s", PIPE_WAIT.as_secs())),
    }
}

pub fn text_of(path: &Path) -> Result<String, String> {
    let name = path.display();
    let why = |e: std::io::Error| {
        let text = e.to_string();
        format!("{name}: {}", text.split(" (os error").next().unwrap_or(&text))
    };
    let size = std::fs::metadata(path).map_err(why)?;
    if size.is_dir() {
        return Err(format!("{name} is a folder; a file was expected"));
    }
    if size.len() > LARGEST {
        return Err(format!("{name} has {} bytes; no fleet file is larger than {LARGEST}", size.len()));
    }
    let bytes = if size.is_file() { std::fs::read(path).map_err(why)? } else { bytes_of_pipe(path)? };
    String::from_utf8(bytes).map_err(|e| format!("{name}: not UTF-8 from byte {} on", e.utf8_error().valid_up_to()))
}
