//! From where does this machine come, as the nodes see it? Only that address may come in by ssh.
//!
//! 1. `provider.allow_from` of the file: addresses or networks, as many as one likes.
//! 2. With `use_internal_ips`: the address from which this machine would send to the nodes' subnet. Nothing is sent to find out.
//! 3. Otherwise https://checkip.amazonaws.com is asked, which is AWS's own and says from where one comes. SHOAL_CHECKIP_URL names another.

use crate::clients::TLS;
use crate::cloud::Cloud;
use crate::failure::{Outcome, failure, wrong};
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use shoal_core::cluster::cloud::protocol::Cause;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

const CHECKIP: &str = "https://checkip.amazonaws.com";
const BOUND: Duration = Duration::from_secs(15);

/// Networks in EC2's spelling, such as `203.0.113.7/32`.
pub async fn allowed(cloud: &Cloud, block: &str) -> Outcome<Vec<String>> {
    if !cloud.aws.allow_from.is_empty() {
        return cloud.aws.allow_from.iter().map(|said| network(said)).collect();
    }
    let address = if cloud.aws.use_internal_ips { by_route(block) } else { asked().await };
    Ok(vec![network(&address?.to_string())?])
}

fn network(said: &str) -> Outcome<String> {
    let (address, bits) = said.split_once('/').map_or((said, None), |(address, bits)| (address, Some(bits)));
    let bad =
        || wrong(format!("`allow_from: {said}` is no address and no network"), "such as 203.0.113.7 or 10.0.0.0/8");
    let parsed: IpAddr = address.trim().parse().map_err(|_| bad())?;
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| bad()))?;
    if bits > most { Err(bad()) } else { Ok(format!("{parsed}/{bits}")) }
}

fn by_route(block: &str) -> Outcome<IpAddr> {
    let target = block.split('/').next().unwrap_or_default().to_string();
    let found = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        // Connecting a datagram socket chooses the route and sends nothing.
        socket.connect((target.as_str(), 22))?;
        socket.local_addr()
    });
    found.map(|address| address.ip()).map_err(|e| {
        let text = format!("cannot tell from which address this machine reaches the nodes' network {block}: {e}");
        failure(Cause::Here, text, "say it with `allow_from:` under `provider`")
    })
}

async fn asked() -> Outcome<IpAddr> {
    let url = std::env::var("SHOAL_CHECKIP_URL").unwrap_or_else(|_| CHECKIP.into());
    let bad = |why: String| {
        let text = format!("cannot tell this machine's address: {url}: {why}");
        failure(Cause::Here, text, "say it with `allow_from:` under `provider`, such as `allow_from: [203.0.113.7]`")
    };
    let connector = Connector::builder().tls_provider(TLS).build();
    let request = HttpRequest::get(url.as_str()).map_err(|e| bad(e.to_string()))?;
    let answer = tokio::time::timeout(BOUND, async {
        let response = connector.call(request).await.map_err(|e| bad(format!("{e:?}")))?;
        let body = aws_smithy_types::byte_stream::ByteStream::new(response.into_body());
        body.collect().await.map(|bytes| bytes.to_vec()).map_err(|e| bad(e.to_string()))
    });
    let bytes = answer.await.map_err(|_| bad(format!("no answer within {} s", BOUND.as_secs())))??;
    let text = String::from_utf8_lossy(&bytes);
    text.trim().parse().map_err(|_| bad(format!("answered `{}`", text.trim().chars().take(60).collect::<String>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_networks() {
        for (said, wanted) in [
            ("203.0.113.7", Some("203.0.113.7/32")),
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("2001:db8::1", Some("2001:db8::1/128")),
            ("10.0.0.0/33", None),
            ("lab.example.org", None),
            ("", None),
        ] {
            assert_eq!(network(said).ok().as_deref(), wanted, "{said}");
        }
    }

    #[test]
    fn the_way_to_this_machine_begins_here() {
        assert_eq!(by_route("127.0.0.0/8").unwrap().to_string(), "127.0.0.1");
    }
}
