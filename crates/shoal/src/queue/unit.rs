//! What does systemd have to know to run the daemon, or an agent that calls it?

use crate::args::serve::Args;
use crate::commands::run::NotBegun;
use shoal_core::quote::join;

pub fn text(args: &Args) -> Result<String, NotBegun> {
    let me =
        std::env::current_exe().map_err(|e| NotBegun::Here(format!("cannot find this program's own file: {e}")))?;
    let me = me.display().to_string();
    Ok(match &args.agent {
        Some(address) => agent(&me, address),
        None => daemon(&me, args),
    })
}

/// What systemd would take for a variable or a specifier is doubled.
fn line(words: &[String]) -> String {
    join(words).replace('%', "%%").replace('$', "$$")
}

fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

fn daemon(me: &str, args: &Args) -> String {
    let mut words = vec![me.to_string(), "serve".into()];
    if let Some(fleet) = &args.fleet {
        words.extend(["-f".into(), absolute(fleet)]);
    }
    if let Some(store) = &args.store {
        words.extend(["--store".into(), absolute(store)]);
    }
    if let Some(listen) = &args.listen {
        words.extend(["--listen".into(), listen.clone()]);
    }
    if let Some(name) = &args.name {
        words.extend(["--name".into(), name.clone()]);
    }
    format!(
        "\
# Shoal's queue. As a user's own service (needs `loginctl enable-linger`):
#   shoal serve --unit ... > ~/.config/systemd/user/shoal-queue.service
#   systemctl --user enable --now shoal-queue
# For the whole machine: into /etc/systemd/system/, with a line `User=` below [Service].
[Unit]
Description=Shoal's queue of sweeps
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={}
Restart=on-failure
RestartSec=2
# Runs on this machine belong to keepers that outlive the daemon: only the daemon is to be ended with it.
KillMode=process
LimitNOFILE=65536

[Install]
WantedBy=default.target
",
        line(&words)
    )
}

fn agent(me: &str, address: &str) -> String {
    let words = [me, "host", "agent", "--connect", address].map(String::from);
    format!(
        "\
# Shoal's agent on a host that calls {address}: users need no shell here. Into /etc/systemd/system/shoal-agent.service;
# a token for it (`shoal token add HOST --role host`, where the queue is) into /etc/shoal/agent.env, for root alone:
#   SHOAL_QUEUE_TOKEN=...
#   systemctl enable --now shoal-agent
[Unit]
Description=Shoal's agent
After=network-online.target
Wants=network-online.target

[Service]
# Whose rights runs have here.
User=shoal
EnvironmentFile=/etc/shoal/agent.env
ExecStart={}
Restart=always
RestartSec=5
# Runs belong to a keeper that outlives the agent.
KillMode=process

[Install]
WantedBy=multi-user.target
",
        line(&words)
    )
}
