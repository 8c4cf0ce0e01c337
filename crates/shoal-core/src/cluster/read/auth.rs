//! How are nodes reached unless they say otherwise? Ray's `auth`, and two fields its users have asked for since 2019:
//! a port and a jump host.

use super::{local, take};
use crate::cluster::{Auth, Provider};
use crate::document::reader::{Fields, Reader};
use crate::fleet::native;

pub const FIELDS: [&str; 7] = [
    "ssh_user",
    "ssh_private_key",
    "ssh_public_key",
    "ssh_proxy_command",
    "ssh_proxy_use_node_id",
    // Ours.
    "ssh_port",
    "ssh_jump_host",
];

pub fn read(reader: &mut Reader, fields: Fields, provider: Option<&Provider>) -> Option<Auth> {
    // Ray's images are Ubuntu's; on machines that are there already, ~/.ssh/config knows better.
    let usual = matches!(provider, Some(Provider::Aws(_))).then(|| "ubuntu".to_string());
    let Some(node) = take::present(fields, "auth") else { return Some(Auth { user: usual, ..Auth::default() }) };
    let auth = reader.fields(node, "`auth`", &FIELDS)?;
    if take::boolean(reader, auth, "ssh_proxy_use_node_id") == Some(true) {
        let at = auth.key("ssh_proxy_use_node_id").unwrap_or(auth.at);
        let wrong = reader.at(at, "`ssh_proxy_use_node_id` is not supported");
        reader.report(wrong.help("use `ssh_jump_host`, or `ssh_proxy_command` with %h and %p"));
    }
    let key = |reader: &mut Reader, name: &str| {
        take::present(auth, name).and_then(|node| native::text(reader, node, &format!("`{name}`")))
    };
    let read = Auth {
        user: take::present(auth, "ssh_user").map_or(usual, |node| local::user(reader, node, "`ssh_user`")),
        key: key(reader, "ssh_private_key"),
        public_key: key(reader, "ssh_public_key"),
        proxy_command: take::text(reader, auth, "ssh_proxy_command"),
        port: take::present(auth, "ssh_port")
            .and_then(|node| reader.integer(node, "`ssh_port`", 1..=65535))
            .and_then(|port| u16::try_from(port).ok()),
        jump: take::present(auth, "ssh_jump_host").and_then(|node| local::jump_host(reader, node, "`ssh_jump_host`")),
    };
    if let (Some(_), Some(_), Some(at)) = (&read.proxy_command, &read.jump, auth.key("ssh_jump_host")) {
        reader.report(reader.at(at, "both `ssh_proxy_command` and `ssh_jump_host` are given").help("keep one of them"));
    }
    Some(read)
}
