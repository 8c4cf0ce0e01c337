//! How is a fleet written in the native form? Readable, and so that reading it gives the same fleet.

use super::target::is_this_machine;
use super::{Fleet, Host, Reach, Slots, range, size};
use crate::document::node::{Plain, plain_meaning};
use std::fmt::Write;

pub fn to_native_yaml(fleet: &Fleet) -> String {
    let mut out = format!("name: {}\n", word(&fleet.name));
    let defaults = Defaults::of(fleet);
    out.push_str(&defaults.written());
    if !fleet.hosts.is_empty() {
        out.push_str("hosts:\n");
    }
    let mut hosts = fleet.hosts.as_slice();
    while let Some(first) = hosts.first() {
        let alike = hosts.iter().take_while(|host| differs_by_name_only(first, host)).count();
        let (block, rest) = hosts.split_at(alike);
        for names in range::fold(block.iter().map(|host| host.name.as_str())) {
            write_host(&mut out, &names, first, &defaults);
        }
        hosts = rest;
    }
    write_pools(&mut out, fleet);
    write_environment(&mut out, fleet);
    if let Some(shared) = &fleet.shared {
        let _ = writeln!(out, "shared: {}", word(shared));
    }
    let placement = &fleet.placement;
    if let Some(master) = &placement.master {
        let _ = writeln!(out, "master: {}", word(master));
    }
    for (field, hosts) in [("servers", &placement.servers), ("workers", &placement.workers)] {
        let names = range::fold(hosts.iter().map(String::as_str));
        if !names.is_empty() {
            let _ = writeln!(out, "{field}: {}", flow_list(&names));
        }
    }
    out
}

/// Their fields are those of the file, but for sizes.
fn write_pools(out: &mut String, fleet: &Fleet) {
    let written = fleet.pools.iter().map(|pool| {
        let mut value = serde_json::to_value(pool).unwrap_or_default();
        if let Some(fields) = value.as_object_mut()
            && let Some(bytes) = fields.remove("memory_bytes")
        {
            fields.insert("memory".into(), bytes);
        }
        value
    });
    let pools: Vec<serde_json::Value> = written.collect();
    if !pools.is_empty() {
        out.push_str(&crate::kubernetes::emit::yaml(&serde_json::json!({ "pools": pools })));
    }
}

/// Whether two hosts can share an entry. One with an address of its own always stands alone.
fn differs_by_name_only(a: &Host, b: &Host) -> bool {
    std::ptr::eq(a, b)
        || (a.name == a.address
            && b.name == b.address
            && a.reach == b.reach
            && a.groups == b.groups
            && a.slots == b.slots)
}

/// What all hosts that are reached by ssh have in common, said once.
#[derive(Default)]
struct Defaults<'f> {
    user: Option<&'f String>,
    port: Option<u16>,
    key: Option<&'f String>,
}

impl<'f> Defaults<'f> {
    fn of(fleet: &'f Fleet) -> Defaults<'f> {
        let mut hosts = fleet.hosts.iter().filter_map(|host| match &host.reach {
            Reach::Ssh { user, port, key, .. } => {
                Some(Defaults { user: user.as_ref(), port: *port, key: key.as_ref() })
            }
            Reach::Local => None,
        });
        let first = hosts.next().unwrap_or_default();
        hosts.fold(first, |common, host| Defaults {
            user: common.user.filter(|user| host.user == Some(*user)),
            port: common.port.filter(|port| host.port == Some(*port)),
            key: common.key.filter(|key| host.key == Some(*key)),
        })
    }

    fn written(&self) -> String {
        let mut out = String::new();
        for (field, text) in [("user", self.user), ("key", self.key)] {
            if let Some(text) = text {
                let _ = writeln!(out, "  {field}: {}", word(text));
            }
        }
        if let Some(port) = self.port {
            let _ = writeln!(out, "  port: {port}");
        }
        if out.is_empty() { out } else { format!("defaults:\n{out}") }
    }
}

fn write_host(out: &mut String, names: &str, host: &Host, defaults: &Defaults) {
    let mut fields = Vec::new();
    if host.name != host.address {
        fields.push(format!("address: {}", word(&host.address)));
    }
    // The native form has no word for it.
    fields.extend(host.internal.as_ref().map(|internal| format!("# the other hosts call it {internal}")));
    if let Reach::Ssh { user, port, key, jump, proxy, .. } = &host.reach {
        // Defaults do not make ssh reach this machine; only settings of its own do.
        let none = Defaults::default();
        let said = if is_this_machine(&host.address) { &none } else { defaults };
        let text = |field: &str, own: &Option<String>, said: Option<&String>| {
            own.as_ref().filter(|own| said != Some(*own)).map(|own| format!("{field}: {}", word(own)))
        };
        fields.extend(text("user", user, said.user));
        fields.extend(port.filter(|port| said.port != Some(*port)).map(|port| format!("port: {port}")));
        fields.extend(text("key", key, said.key));
        fields.extend(text("jump", jump, None));
        // The native form has no word for it, and must not lose it without one.
        let remark = |proxy: &String| format!("# goes into ~/.ssh/config: ProxyCommand {}", proxy.replace('\n', " "));
        fields.extend(proxy.as_ref().map(remark));
    }
    if !host.groups.is_empty() {
        fields.push(format!("groups: {}", flow_list(&host.groups)));
    }
    fields.extend(slots(&host.slots));
    if fields.is_empty() {
        let _ = writeln!(out, "  - {}", word(names));
        return;
    }
    let _ = writeln!(out, "  - name: {}", word(names));
    for field in fields {
        let _ = writeln!(out, "    {field}");
    }
}

fn slots(slots: &Slots) -> Option<String> {
    let plain = Slots { ranks: slots.ranks, ..Slots::default() };
    if *slots == Slots::default() {
        return None;
    }
    if *slots == plain {
        return Some(format!("slots: {}", slots.ranks));
    }
    let mut fields = vec![format!("ranks: {}", slots.ranks)];
    fields.extend(slots.cpus.map(|n| format!("cpus: {n}")));
    fields.extend(slots.memory_bytes.map(|n| format!("memory: {}", size::format(n))));
    fields.extend(slots.gpus.map(|n| format!("gpus: {n}")));
    Some(format!("slots: {{{}}}", fields.join(", ")))
}

fn write_environment(out: &mut String, fleet: &Fleet) {
    let environment = &fleet.environment;
    if *environment == super::Environment::default() {
        return;
    }
    let prepare = &environment.prepare;
    out.push_str("environment:\n");
    for (field, text) in [("virtualenv", &prepare.virtualenv), ("conda", &prepare.conda)] {
        if let Some(text) = text {
            let _ = writeln!(out, "  {field}: {}", word(text));
        }
    }
    if !prepare.modules.is_empty() {
        let _ = writeln!(out, "  modules: {}", flow_list(&prepare.modules));
    }
    if !prepare.setup.is_empty() {
        out.push_str("  setup:\n");
        for line in &prepare.setup {
            let _ = writeln!(out, "    - {}", word(line));
        }
    }
    if !environment.env.is_empty() {
        out.push_str("  env:\n");
        for (name, value) in &environment.env {
            let _ = writeln!(out, "    {}: {}", word(name), word(value));
        }
    }
}

fn flow_list(texts: &[String]) -> String {
    // Within brackets, brackets need quotes.
    let written = |text: &String| if text.contains(['[', ']']) { quoted(text) } else { word(text) };
    format!("[{}]", texts.iter().map(written).collect::<Vec<_>>().join(", "))
}

/// Text as a YAML scalar: bare where no reader, old or new, could take it for anything else.
fn word(text: &str) -> String {
    const TAKEN_FOR_BOOLEANS: [&str; 8] = ["yes", "no", "on", "off", "y", "n", "true", "false"];
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/') || text.starts_with("~/");
    let body = text.chars().all(|c| c.is_ascii_alphanumeric() || "._/~[]-".contains(c));
    let other = plain_meaning(text) != Plain::Text || TAKEN_FOR_BOOLEANS.iter().any(|b| b.eq_ignore_ascii_case(text));
    if starts && body && !other { text.into() } else { quoted(text) }
}

/// JSON's strings are YAML's double-quoted ones.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn a_poseidon_file_becomes_a_native_one() {
        let text = r#"{
            "username": "lab", "virtualenv": "/opt/venv", "pem_file": "~/lab key.pem",
            "worker_nodes": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3"], "server_nodes": ["10.0.0.9"]
        }"#;
        let fleet = read("config.json", text).expect("valid").fleet;
        let written = to_native_yaml(&fleet);
        let wanted = r#"name: config
defaults:
  user: lab
  key: "~/lab key.pem"
hosts:
  - 10.0.0.[1-2]
  - name: 10.0.0.3
    slots: 2
  - name: 10.0.0.9
    slots: 0
  - name: localhost
    slots: 0
environment:
  virtualenv: /opt/venv
master: localhost
servers: [10.0.0.9]
workers: ["10.0.0.[1-3]", 10.0.0.3]
"#;
        assert_eq!(written, wanted);
        assert_eq!(read("shoal.yaml", &written).expect("valid").fleet, fleet);
    }

    #[test]
    fn words_that_could_be_taken_for_something_else_are_quoted() {
        for (text, written) in [
            ("node01", "node01"),
            ("~/venv", "~/venv"),
            ("10.0.0.1", "10.0.0.1"),
            ("3.10", "\"3.10\""),
            ("No", "\"No\""),
            ("", "\"\""),
            ("~", "\"~\""),
            ("a: b", "\"a: b\""),
            ("a\nb", "\"a\\nb\""),
            ("-x", "\"-x\""),
        ] {
            assert_eq!(word(text), written);
        }
    }
}
