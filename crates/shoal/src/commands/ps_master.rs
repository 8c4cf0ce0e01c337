//! Runs a master, or asks one for its state.

use crate::args::ps_master::Args;
use crate::{logging, metrics, signals};
use serde_json::Value;
use shoal_sync::SyncError;
use shoal_sync::control::{self, FromMaster, ToMaster};
use shoal_sync::master::serve::{Master, Options};
use shoal_sync::master::status;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub fn run(args: &Args) -> Result<(), SyncError> {
    let token = std::env::var("SHOAL_TOKEN").unwrap_or_default();
    if args.status {
        return show_status(args, &token);
    }
    logging::start(args.log_json);
    let system = |what: &str, why: String| SyncError::System { what: what.into(), why };
    let stop = signals::stop_flag().map_err(|e| system("cannot listen for signals", e.to_string()))?;
    let master =
        Master::bind(&Options { address: args.address.clone(), workers: args.workers, servers: args.servers, token })?;
    if let Some(address) = &args.metrics {
        let (shared, started) = (master.shared(), Instant::now());
        let render = move || status::prometheus(&shared.table(), started.elapsed().as_secs());
        let at = metrics::serve(address, render)?;
        tracing::info!("metrics at http://{at}/metrics");
    }
    if let Some(at) = master.local_addr() {
        tracing::info!(servers = args.servers, "listening on tcp://{at}");
    }
    master.run(&stop)
}

fn show_status(args: &Args, token: &str) -> Result<(), SyncError> {
    let address = shoal_sync::settings::address(&args.address)?;
    let unreachable = |why: String| SyncError::Unreachable { what: "the master".into(), address: address.clone(), why };
    let mut stream = TcpStream::connect(&address).map_err(|e| unreachable(e.to_string()))?;
    shoal_sync::handshake::dial(&mut stream, token, "the master")?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|e| unreachable(e.to_string()))?;
    control::send(&mut stream, &ToMaster::Status).map_err(|e| unreachable(e.to_string()))?;
    let answer: FromMaster = control::receive(&mut stream).map_err(|e| unreachable(e.to_string()))?;
    let FromMaster::Status(value) = answer else { return Err(unreachable("it answered something else".into())) };
    if args.json {
        crate::say::line(value);
    } else {
        crate::say::out(table(&value));
    }
    Ok(())
}

/// The status as a small table.
fn table(status: &Value) -> String {
    let mut out = String::new();
    let missing = status["missing"].as_str();
    let failure = status["failure"].as_str();
    out.push_str(&match (failure, missing) {
        (Some(why), _) => format!("failed: {why}\n"),
        (None, Some(who)) => format!("gathering: still missing {who}\n"),
        (None, None) => "complete\n".to_string(),
    });
    out.push_str(&format!("{:<10} {:<16} {:>8}  {:<22} {}\n", "NODE", "HOST", "PID", "ADDRESS", "STATE"));
    for node in status["nodes"].as_array().into_iter().flatten() {
        let text = |key: &str| node[key].as_str().unwrap_or("?").to_string();
        let waits = node["waits_for_key"].as_str().map_or_else(String::new, |key| {
            let from: Vec<String> =
                node["waits_for_workers"].as_array().into_iter().flatten().map(ToString::to_string).collect();
            let from = if from.is_empty() { String::new() } else { format!(" from worker {}", from.join(", ")) };
            format!(", waits for `{key}`{from}")
        });
        out.push_str(&format!(
            "{:<10} {:<16} {:>8}  {:<22} {}{waits}\n",
            format!("{} {}", text("role"), node["id"]),
            text("host"),
            node["pid"],
            text("address"),
            text("state"),
        ));
    }
    out
}
