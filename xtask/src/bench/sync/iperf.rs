//! The bound of a link: how long the least possible bytes take at the rate that iperf3 reaches at the same moment.

use super::group::{Measure, WORKERS};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use shoal_testkit::hosts::Hosts;
use std::process::{Child, Command, Stdio};

/// Long enough to leave slow start behind, short enough to be repeated in every round.
const SECONDS: &str = "2";

/// Servers on the hosts with odd numbers; each is the partner of the host before it.
pub struct Iperf<'a> {
    hosts: &'a Hosts,
    servers: Vec<Child>,
}

impl<'a> Iperf<'a> {
    pub fn start(hosts: &'a Hosts) -> Result<Self> {
        let mut this = Self { hosts, servers: Vec::new() };
        for i in (1..WORKERS).step_by(2) {
            let mut server = hosts.host(i).command("iperf3");
            server.args(["--server"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            this.servers.push(server.spawn().context("cannot start iperf3")?);
        }
        // iperf3 cannot say when it listens: the first run is repeated until one works.
        match shoal_testkit::wait::until(std::time::Duration::from_secs(10), || this.rate("1").ok()) {
            Some(_) => Ok(this),
            None => Err(this.rate("1").err().unwrap_or_else(|| anyhow::anyhow!("it works only now")))
                .context("iperf3 does not run"),
        }
    }

    /// Both pairs at the same time, both directions at the same time: the load of an all-reduce. Bytes a second, mean of the four.
    fn rate(&self, seconds: &str) -> Result<f64> {
        let clients: Result<Vec<Child>> = (0..WORKERS)
            .step_by(2)
            .map(|i| {
                let partner = self.hosts.host(i + 1).address.to_string();
                let mut client: Command = self.hosts.host(i).command("iperf3");
                client.args([
                    "--client",
                    &partner,
                    "--bidir",
                    "--json",
                    "--time",
                    seconds,
                    "--connect-timeout",
                    "2000",
                ]);
                client.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start iperf3")
            })
            .collect();
        let mut rates = Vec::new();
        for client in clients? {
            let said: Value =
                serde_json::from_slice(&client.wait_with_output()?.stdout).context("iperf3 printed no JSON")?;
            if let Some(error) = said["error"].as_str() {
                bail!("iperf3: {error}");
            }
            for way in ["sum_received", "sum_received_bidir_reverse"] {
                let bits = said["end"][way]["bits_per_second"].as_f64();
                rates.push(bits.with_context(|| format!("iperf3 gave no end.{way}"))? / 8.0);
            }
        }
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }

    /// Every worker must send 2 S (P-1) / P bytes, whatever the algorithm.
    pub fn bound(&self, tensor_bytes: f64) -> Result<Measure> {
        let bytes_sent = 2.0 * tensor_bytes * (WORKERS - 1) as f64 / WORKERS as f64;
        let seconds = bytes_sent / self.rate(SECONDS)?;
        Ok(Measure { seconds, cpu_per_gb: f64::NAN, peak_bytes: f64::NAN, bytes_sent, tensor_bytes })
    }
}

impl Drop for Iperf<'_> {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
