//! Proxies in front of the gateway that are trusted to name the address of a client (`serve.trusted_proxies`).
//!
//! Promise: `X-Forwarded-For` counts only on a connection from a trusted proxy, and only its rightmost address that is not
//! a trusted proxy counts: the client itself may have written what stands left of that.
//! Start with [`TrustedProxies::client`].

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use berth_api::Problem;

use super::ConnectionPeer;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The addresses and networks of proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<IpNetwork>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IpNetwork {
    address: IpAddr,
    /// Length of the prefix, in bits.
    bits: u32,
}

impl IpNetwork {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let apart = ours.to_bits() ^ other.to_bits();
                apart.leading_zeros() >= self.bits
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let apart = ours.to_bits() ^ other.to_bits();
                apart.leading_zeros() >= self.bits
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl TrustedProxies {
    pub(crate) fn parse(texts: &[String]) -> Result<Self, Problem> {
        let network = |text: &String| {
            IpNetwork::parse(text.trim()).ok_or_else(|| {
                let what =
                    format!("`{}` in trusted_proxies is not an address or a network", text.escape_debug());
                Problem::usage(what).hint("write it like 10.0.0.7, 10.0.0.0/8 or fd00::/8")
            })
        };
        texts.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address of the client that a trusted proxy forwards for; `None` if the peer is not a trusted proxy or does not
    /// name the client.
    pub(crate) fn client(&self, peer: &ConnectionPeer, headers: &HeaderMap) -> Option<IpAddr> {
        let ConnectionPeer::Network(address) = peer else { return None };
        if !self.is_trusted(address.ip()) {
            return None;
        }
        let lines: Vec<&str> =
            headers.get_all(FORWARDED_FOR).iter().map(|line| line.to_str().unwrap_or_default()).collect();
        let hops = lines.iter().flat_map(|line| line.split(',')).map(str::trim).filter(|hop| !hop.is_empty());
        let mut client = None;
        for hop in hops.collect::<Vec<_>>().into_iter().rev() {
            // Addresses left of an invalid one cannot be trusted.
            let Some(address) = address_in(hop) else { break };
            client = Some(address);
            if !self.is_trusted(address) {
                break;
            }
        }
        client
    }
}

/// An address as proxies write it: some add the port.
fn address_in(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    address
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &[&str], peer: &str, lines: &[&str]) -> Option<String> {
        let trusted: Vec<String> = trusted.iter().map(|text| (*text).to_owned()).collect();
        let proxies = TrustedProxies::parse(&trusted).expect("addresses");
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().expect("a header"));
        }
        let peer = ConnectionPeer::Network(SocketAddr::new(peer.parse().expect("an address"), 1));
        proxies.client(&peer, &headers).map(|address| address.to_string())
    }

    #[test]
    fn the_rightmost_untrusted_address_is_the_clients_and_only_a_trusted_proxy_is_believed() {
        let trusted = ["10.0.0.0/8", "fd00::1"];
        assert_eq!(client(&trusted, "192.0.2.1", &["198.51.100.7"]), None);
        assert_eq!(client(&[], "10.0.0.1", &["198.51.100.7"]), None);
        assert_eq!(client(&trusted, "10.0.0.1", &[]), None);
        let forged = ["9.9.9.9, 198.51.100.7", "10.1.2.3"];
        assert_eq!(client(&trusted, "10.0.0.1", &forged).as_deref(), Some("198.51.100.7"));
        assert_eq!(client(&trusted, "fd00::1", &["[2001:db8::5]:443"]).as_deref(), Some("2001:db8::5"));
        assert_eq!(
            client(&trusted, "::ffff:10.0.0.1", &["198.51.100.7:80"]).as_deref(),
            Some("198.51.100.7")
        );
        assert_eq!(
            client(&trusted, "10.0.0.1", &["9.9.9.9, unknown, 10.0.0.2"]).as_deref(),
            Some("10.0.0.2")
        );
    }

    #[test]
    fn a_text_that_is_not_an_address_or_a_network_is_refused() {
        for text in ["proxy", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", ""] {
            assert!(TrustedProxies::parse(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
