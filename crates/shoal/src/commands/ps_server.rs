//! Runs a server until its run is over.

use crate::args::ps_server::Args;
use crate::{logging, metrics, signals};
use shoal_sync::net::reactor::Traffic;
use shoal_sync::server::{self, View};
use shoal_sync::{Settings, SyncError};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

pub fn run(args: &Args) -> Result<(), SyncError> {
    logging::start(args.log_json);
    let system = |what: &str, why: String| SyncError::System { what: what.into(), why };
    let stop = signals::stop_flag().map_err(|e| system("cannot listen for signals", e.to_string()))?;
    let settings = Settings {
        master_address: args.master_address.clone(),
        num_pull_threads: args.num_pull_threads,
        listen_host: args.listen_host.clone(),
        connect_timeout: Duration::from_secs(args.connect_timeout),
        token: std::env::var("SHOAL_TOKEN").unwrap_or_default(),
        ..Settings::default()
    };
    let view = Arc::new(View::default());
    if let Some(address) = &args.metrics {
        let view = view.clone();
        let at = metrics::serve(address, move || prometheus(&view.traffic()))?;
        tracing::info!("metrics at http://{at}/metrics");
    }
    let outcome = server::serve(&settings, args.id, &stop, &view);
    if args.json {
        let t = view.traffic();
        println!(
            "{}",
            serde_json::json!({
                "version": 1, "bytes_sent": t.bytes_sent, "bytes_received": t.bytes_received,
                "chunks_summed": t.chunks_summed, "buffer_bytes_peak": t.buffer_bytes_peak,
            })
        );
    }
    outcome
}

fn prometheus(t: &Traffic) -> String {
    let mut out = String::new();
    for (name, help, value) in [
        ("shoal_bytes_sent_total", "Bytes sent to workers.", t.bytes_sent),
        ("shoal_bytes_received_total", "Bytes received from workers.", t.bytes_received),
        ("shoal_frames_sent_total", "Frames sent.", t.frames_sent),
        ("shoal_frames_received_total", "Frames received.", t.frames_received),
        ("shoal_chunks_summed_total", "Chunks summed.", t.chunks_summed),
    ] {
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
    }
    let name = "shoal_buffer_bytes_peak";
    let _ = write!(
        out,
        "# HELP {name} Most memory in chunk buffers so far.\n# TYPE {name} gauge\n{name} {}\n",
        t.buffer_bytes_peak
    );
    out
}
