//! What a node may be told, under Poseidon's names, from arguments or from the environment.

use crate::error::SyncError;
use std::time::Duration;

/// What the death of a worker does to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// Every rank ends with an error that names the dead one.
    Fail,
    /// The step completes with the survivors, their weights renormalised.
    Continue,
}

/// Settings of one worker. Defaults are Poseidon's where Poseidon has the setting.
#[derive(Clone)]
pub struct Settings {
    /// Where `ps_master` listens, as `tcp://HOST:PORT`.
    pub master_address: String,
    /// This worker's number; negative lets the master choose.
    pub client_id: i64,
    /// How many workers there will be; 0 leaves it to the master.
    pub num_workers: u32,
    /// Off: a world of one, without network.
    pub distributed: bool,
    /// How much a worker may have under way to one server, in steps of a block or 256 KiB.
    pub num_push_threads: u32,
    /// Blocks a server may have announced ahead of what it has summed.
    pub num_pull_threads: u32,
    /// Tensors are split above this many bytes.
    pub block_size: usize,
    /// Workers of one host meet in memory instead of going through sockets.
    pub shared_memory: bool,
    /// Sum in worker order whatever the order of arrival.
    pub deterministic: bool,
    pub on_death: OnDeath,
    /// The run's secret. Never printed: `Debug` leaves it out (SEC-2).
    pub token: String,
    /// How long to wait for the others to appear.
    pub connect_timeout: Duration,
    /// Where to listen for peers; the port is chosen by the system.
    pub listen_host: Option<String>,
    /// For tests: only workers that say the same word here are taken to share a host's memory.
    #[doc(hidden)]
    pub pretend_host: Option<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("master_address", &self.master_address)
            .field("client_id", &self.client_id)
            .field("num_workers", &self.num_workers)
            .field("block_size", &self.block_size)
            .finish_non_exhaustive()
    }
}

pub const DEFAULT_MASTER_ADDRESS: &str = "tcp://0.0.0.0:5555";
pub const DEFAULT_BLOCK_SIZE: usize = 4 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            master_address: DEFAULT_MASTER_ADDRESS.into(),
            client_id: -1,
            num_workers: 0,
            distributed: true,
            num_push_threads: 4,
            num_pull_threads: 8,
            block_size: DEFAULT_BLOCK_SIZE,
            shared_memory: true,
            deterministic: false,
            on_death: OnDeath::Fail,
            token: String::new(),
            connect_timeout: Duration::from_secs(60),
            listen_host: None,
            pretend_host: None,
        }
    }
}

impl Settings {
    /// Reads `SHOAL_*`, and `RANK` and `WORLD_SIZE` where those are missing, through `get`.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Settings, SyncError> {
        let mut s = Settings::default();
        let text = |name: &str| get(name).map(|v| v.trim().to_string()).filter(|v| !v.is_empty());
        if let Some(v) = text("SHOAL_MASTER_ADDRESS") {
            s.master_address = v;
        }
        if let Some((name, v)) = first(&text, &["SHOAL_CLIENT_ID", "RANK"]) {
            s.client_id = number(name, &v, -1, i64::from(u16::MAX) - 1)?;
        }
        if let Some((name, v)) = first(&text, &["SHOAL_NUM_WORKERS", "WORLD_SIZE"]) {
            s.num_workers = number(name, &v, 0, i64::from(u16::MAX) - 1)? as u32;
        }
        if let Some(v) = text("SHOAL_NUM_PUSH_THREADS") {
            s.num_push_threads = number("SHOAL_NUM_PUSH_THREADS", &v, 1, 1024)? as u32;
        }
        if let Some(v) = text("SHOAL_NUM_PULL_THREADS") {
            s.num_pull_threads = number("SHOAL_NUM_PULL_THREADS", &v, 1, 1024)? as u32;
        }
        if let Some(v) = text("SHOAL_BLOCK_SIZE") {
            s.block_size = number("SHOAL_BLOCK_SIZE", &v, 1024, 1 << 30)? as usize;
        }
        if let Some(v) = text("SHOAL_CONNECT_TIMEOUT") {
            s.connect_timeout = Duration::from_secs(number("SHOAL_CONNECT_TIMEOUT", &v, 1, 86_400)? as u64);
        }
        if let Some(v) = text("SHOAL_DISTRIBUTED") {
            s.distributed = switch("SHOAL_DISTRIBUTED", &v)?;
        }
        if let Some(v) = text("SHOAL_SHARED_MEMORY") {
            s.shared_memory = switch("SHOAL_SHARED_MEMORY", &v)?;
        }
        if let Some(v) = text("SHOAL_DETERMINISTIC") {
            s.deterministic = switch("SHOAL_DETERMINISTIC", &v)?;
        }
        if let Some(v) = text("SHOAL_ON_DEATH") {
            s.on_death = on_death("SHOAL_ON_DEATH", &v)?;
        }
        s.listen_host = text("SHOAL_LISTEN_HOST");
        s.token = get("SHOAL_TOKEN").unwrap_or_default();
        Ok(s)
    }

    /// Bounds that hold however the settings came about.
    pub fn check(&self) -> Result<(), SyncError> {
        let bad = |name: &str, value: String, expected: &str| {
            Err(SyncError::Setting { name: name.into(), value, expected: expected.into() })
        };
        if !(1024..=1 << 30).contains(&self.block_size) {
            return bad("block_size", self.block_size.to_string(), "bytes from 1024 to 1073741824");
        }
        if self.num_push_threads == 0 || self.num_pull_threads == 0 {
            return bad("num_push_threads / num_pull_threads", "0".into(), "1 or more");
        }
        if self.distributed && self.token.is_empty() {
            return bad(
                "SHOAL_TOKEN",
                String::new(),
                "the run's secret, the same for all its nodes (try: export SHOAL_TOKEN=$(openssl rand -hex 16))",
            );
        }
        address(&self.master_address).map(|_| ())
    }
}

/// `tcp://HOST:PORT` (or just `HOST:PORT`) as something that can be dialled or listened on.
pub fn address(text: &str) -> Result<String, SyncError> {
    let rest = text.strip_prefix("tcp://").unwrap_or(text);
    let ok = rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if ok && !rest.contains('/') {
        return Ok(rest.to_string());
    }
    Err(SyncError::Setting { name: "master_address".into(), value: text.into(), expected: "tcp://HOST:PORT".into() })
}

pub fn on_death(name: &str, value: &str) -> Result<OnDeath, SyncError> {
    match value {
        "fail" => Ok(OnDeath::Fail),
        "continue" => Ok(OnDeath::Continue),
        _ => {
            Err(SyncError::Setting { name: name.into(), value: value.into(), expected: "`fail` or `continue`".into() })
        }
    }
}

fn first<'n>(text: &impl Fn(&str) -> Option<String>, names: &[&'n str]) -> Option<(&'n str, String)> {
    names.iter().find_map(|n| text(n).map(|v| (*n, v)))
}

fn number(name: &str, value: &str, low: i64, high: i64) -> Result<i64, SyncError> {
    value.parse::<i64>().ok().filter(|n| (low..=high).contains(n)).ok_or_else(|| SyncError::Setting {
        name: name.into(),
        value: value.into(),
        expected: format!("a whole number from {low} to {high}"),
    })
}

fn switch(name: &str, value: &str) -> Result<bool, SyncError> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(SyncError::Setting {
            name: name.into(),
            value: value.into(),
            expected: "true or false (1 or 0)".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, SyncError> {
        Settings::from_env(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn defaults_are_poseidons() {
        let s = read(&[]).expect("defaults");
        assert_eq!(s.master_address, "tcp://0.0.0.0:5555");
        assert_eq!((s.num_push_threads, s.num_pull_threads, s.block_size), (4, 8, 4 << 20));
        assert_eq!(s.client_id, -1);
    }

    #[test]
    fn torchrun_names_are_understood_and_ours_win() {
        let s = read(&[("RANK", "2"), ("WORLD_SIZE", "4"), ("SHOAL_CLIENT_ID", "1")]).expect("valid");
        assert_eq!((s.client_id, s.num_workers), (1, 4));
    }

    #[test]
    fn bad_values_name_the_setting_and_what_was_expected() {
        let e = read(&[("SHOAL_BLOCK_SIZE", "12")]).expect_err("too small").to_string();
        assert!(e.contains("SHOAL_BLOCK_SIZE") && e.contains("1024"), "{e}");
        let e = read(&[("SHOAL_ON_DEATH", "shrug")]).expect_err("unknown").to_string();
        assert!(e.contains("`fail` or `continue`"), "{e}");
        assert!(address("tcp://host").is_err());
        assert!(address("http://host:1").is_err());
        assert_eq!(address("tcp://10.0.0.1:5555").expect("valid"), "10.0.0.1:5555");
    }

    #[test]
    fn the_token_is_never_printed() {
        let s = Settings { token: "hush".into(), ..Settings::default() };
        assert!(!format!("{s:?}").contains("hush"));
    }
}
