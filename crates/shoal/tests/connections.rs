//! The connection that is kept open to a host: when it is told to end, it has ended.

use shoal_core::fleet::{Fleet, Host, Reach, Slots};
use shoal_hosts::ssh::{Connection, Settings};
use shoal_testkit::{Hosts, HostsSpec};

/// `shoal down x && shoal up x` must not find the connection that is about to go.
#[test]
fn a_connection_that_was_closed_is_gone() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("closed", 1)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { folder: folder.path().join("s"), config: Some(hosts.ssh_config()), persist_s: 60 };
    let name = hosts.host(0).name.clone();
    let reach = Reach::Ssh { user: None, port: None, key: None, jump: None, proxy: None, host_key: None };
    let (internal, groups, slots) = (None, Vec::new(), Slots::default());
    let host = Host { name: name.clone(), address: name, internal, reach, groups, slots };
    let fleet = Fleet { hosts: vec![host.clone()], ..Fleet::local() };
    for round in 0..20 {
        let connection = Connection::open(&fleet, &host, &settings).unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        let control = connection.control().to_path_buf();
        assert!(control.exists());
        Connection::close(&fleet, &host, &settings);
        assert!(!control.exists(), "round {round}: it is still there");
    }
}
