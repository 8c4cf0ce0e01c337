//! Text of a plan in which a few things are still names: ports are reserved on the hosts when the run starts, and which of
//! this machine's addresses the others can reach is known once they are reached.

use super::secret::Secret;
use std::fmt;

/// A port that will be reserved: the `index`-th of those this run needs on `host`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    pub host: String,
    pub index: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Known(String),
    /// The address of the machine this program runs on, as the other hosts see it.
    OfThisMachine,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Address(Address),
    /// An address within `tcp://HOST:PORT`, where IPv6 stands in brackets.
    UrlHost(Address),
    Port(Port),
    Secret(Secret),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template(pub Vec<Piece>);

impl Template {
    pub fn text(text: impl Into<String>) -> Template {
        Template(vec![Piece::Text(text.into())])
    }

    /// `<before>tcp://HOST:PORT`
    pub fn url(before: &str, address: &Address, port: &Port) -> Template {
        let start = Piece::Text(format!("{before}tcp://"));
        let colon = Piece::Text(":".into());
        Template(vec![start, Piece::UrlHost(address.clone()), colon, Piece::Port(port.clone())])
    }

    /// Everything filled in, or the first thing that cannot be.
    pub fn fill<E>(
        &self,
        port: impl Fn(&Port) -> Result<u16, E>,
        known: impl Fn(&Address) -> Result<String, E>,
    ) -> Result<String, E> {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Address(address) => known(address),
            Piece::UrlHost(address) => known(address).map(bracketed),
            Piece::Port(wanted) => port(wanted).map(|port| port.to_string()),
            Piece::Secret(secret) => Ok(secret.expose().into()),
        });
        pieces.collect()
    }
}

fn bracketed(address: String) -> String {
    if address.contains(':') { format!("[{address}]") } else { address }
}

/// With names in angle brackets for what is not known yet, and no secrets.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Address(Address::Known(text)) => f.write_str(text),
            Piece::UrlHost(Address::Known(text)) => f.write_str(&bracketed(text.clone())),
            Piece::Address(Address::OfThisMachine) | Piece::UrlHost(Address::OfThisMachine) => {
                f.write_str("<this-machine>")
            }
            Piece::Port(port) => write!(f, "<port-{}@{}>", port.index, port.host),
            Piece::Secret(secret) => write!(f, "{secret}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_until_they_are_filled_in() {
        let port = Port { host: "n1".into(), index: 0 };
        for (address, shown, filled) in [
            (Address::Known("10.0.0.1".into()), "--a=tcp://10.0.0.1:<port-0@n1>", "--a=tcp://10.0.0.1:5555"),
            (Address::Known("fe80::1".into()), "--a=tcp://[fe80::1]:<port-0@n1>", "--a=tcp://[fe80::1]:5555"),
            (Address::OfThisMachine, "--a=tcp://<this-machine>:<port-0@n1>", "--a=tcp://192.168.0.7:5555"),
        ] {
            let template = Template::url("--a=", &address, &port);
            assert_eq!(template.to_string(), shown);
            let known = |address: &Address| match address {
                Address::Known(text) => Ok(text.clone()),
                Address::OfThisMachine => Ok("192.168.0.7".into()),
            };
            assert_eq!(template.fill::<()>(|_| Ok(5555), known), Ok(filled.into()));
            assert_eq!(template.fill(|_| Err("none"), |_| Ok("x".into())), Err("none"));
        }
    }
}
