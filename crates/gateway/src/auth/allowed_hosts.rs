//! Host names that this gateway answers to.
//!
//! A foreign page can point its own host name at the address of this gateway (DNS rebinding). Its browser then treats
//! the gateway as that page's server, and no rule of the browser helps. But the name is in the `HostAndPort` header, and the
//! gateway knows its own names.
//! Start with [`AllowedHosts::check`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use berth_api::Problem;

use crate::http_problem::HttpProblem;

/// Names that browsers resolve to this machine without DNS.
const LOOPBACK_NAMES: [&str; 2] = ["localhost", "berth.localhost"];

/// A host as a client wrote it: the name in lower case, and the port if there was one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostAndPort {
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

impl std::fmt::Display for HostAndPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl HostAndPort {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok().filter(|_| !text.contains('@'))?;
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" => None,
            port => Some(port.strip_prefix(':')?.parse().ok()?),
        };
        let name = authority.host().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        (!name.is_empty()).then_some(Self { name, port })
    }

    fn address(&self) -> Option<IpAddr> {
        let inner = self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => self.name.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        }
    }

    /// The port; without one, the default of the scheme.
    pub(crate) fn port_or(&self, secure: bool) -> u16 {
        self.port.unwrap_or(if secure { 443 } else { 80 })
    }

    /// True if browsers keep settings for this name apart from those of other servers on this machine.
    pub(crate) fn is_a_name_of_its_own(&self) -> bool {
        self.address().is_none() && !LOOPBACK_NAMES.contains(&self.name.as_str())
    }
}

/// Host names and addresses of this gateway.
#[derive(Debug, Default)]
pub(crate) struct AllowedHosts {
    allowed: Vec<HostAndPort>,
    addresses: Vec<IpAddr>,
    /// True if the gateway listens on all addresses. Unlike a name, an address cannot be pointed elsewhere.
    any_address: bool,
}

impl AllowedHosts {
    /// The names of a gateway that listens on these addresses, and the names that its owner allowed.
    pub(crate) fn new(listen: &[IpAddr], allow: &[String]) -> Result<Self, Problem> {
        let mut hosts = Self {
            allowed: vec![],
            addresses: listen.to_vec(),
            any_address: listen.iter().any(IpAddr::is_unspecified),
        };
        for text in allow {
            let host = HostAndPort::parse(text).filter(|host| !host.name.contains('*')).ok_or_else(|| {
                Problem::usage(format!("`{}` is not a valid host name", text.escape_debug())).hint(
                    "a host is a name or an address, with a port or without: --allow-host berth.example.com",
                )
            })?;
            hosts.allowed.push(host);
        }
        Ok(hosts)
    }

    /// The host that a request is for; fails if it is not one of ours.
    pub(crate) fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        is_local: bool,
    ) -> Result<HostAndPort, HttpProblem> {
        let mut said = headers.get_all(header::HOST).iter();
        let text = match (said.next(), said.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            (None, _) => return Err(HttpProblem::usage("the request has no `Host` header")),
            (Some(_), Some(_)) => {
                return Err(HttpProblem::usage("the request has more than one `Host` header"));
            }
        };
        let host = HostAndPort::parse(text)
            .ok_or_else(|| HttpProblem::usage("the `Host` header is not a valid host name"))?;
        // The request line may name a host as well, and proxies differ in which one they use.
        let line = uri.authority().map(|authority| HostAndPort::parse(authority.as_str()));
        if line.is_some_and(|line| line.as_ref() != Some(&host)) {
            return Err(HttpProblem::usage("the request names two hosts"));
        }
        if self.is_ours(&host, is_local) {
            return Ok(host);
        }
        let what = format!("this gateway does not answer to the host name `{}`", host.name.escape_debug());
        let hint =
            format!("its owner can allow it with `berth serve --allow-host {}`", host.name.escape_debug());
        Err(HttpProblem::from(Problem::not_allowed(what).hint(hint)).status(StatusCode::MISDIRECTED_REQUEST))
    }

    fn is_ours(&self, host: &HostAndPort, is_local: bool) -> bool {
        let is_allowed =
            |it: &HostAndPort| it.name == host.name && it.port.is_none_or(|port| Some(port) == host.port);
        if LOOPBACK_NAMES.contains(&host.name.as_str()) || self.allowed.iter().any(is_allowed) {
            return true;
        }
        match host.address() {
            Some(address) => address.is_loopback() || self.any_address || self.addresses.contains(&address),
            // Browsers do not connect to a socket, but a request may come through `ssh -L`. An attacker cannot register
            // a name without a dot, and programs may use any such name.
            None => is_local && !host.name.contains('.'),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(hosts: &AllowedHosts, text: &'static str, is_local: bool) -> Option<u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(text));
        let fault = hosts.check(&Uri::from_static("/v1/sessions"), &headers, is_local).err()?;
        Some(fault.status.map_or(400, |status| status.as_u16()))
    }

    #[test]
    fn the_gateway_answers_to_its_own_names_and_to_no_other() {
        let listen = ["127.0.0.1".parse().expect("an address")];
        let hosts =
            AllowedHosts::new(&listen, &["Berth.Example.com".to_owned(), "box:9".to_owned()]).expect("hosts");
        for ours in ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:7070", "127.9.9.9", "[::1]:7070"] {
            assert_eq!(check(&hosts, ours, false), None, "{ours}");
        }
        for ours in ["berth.example.com", "berth.example.com:443", "box:9", "berth.localhost:7070"] {
            assert_eq!(check(&hosts, ours, false), None, "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "evil.localhost.example",
            "10.0.0.1",
            "box",
            "x.berth.example.com",
            "127.0.0.1.evil.example",
            "127.1",
            "2130706433",
            "[::2]",
        ] {
            assert_eq!(check(&hosts, foreign, false), Some(421), "{foreign}");
        }
        for odd in ["", "user@localhost", "localhost:port", "localhost:99999", "local host", "localhost/x"] {
            assert_eq!(check(&hosts, odd, false), Some(400), "{odd}");
        }
        assert_eq!(check(&hosts, "berth", true), None, "programs at the socket may use any name");
        assert_eq!(check(&hosts, "evil.example", true), Some(421), "a browser through a forwarded port");
    }

    #[test]
    fn a_gateway_on_all_addresses_answers_to_every_address_and_to_no_foreign_name() {
        let listen = ["0.0.0.0".parse().expect("an address")];
        let hosts = AllowedHosts::new(&listen, &[]).expect("hosts");
        assert_eq!(check(&hosts, "192.168.1.5:7070", false), None);
        assert_eq!(check(&hosts, "evil.example:7070", false), Some(421));
        for bad in ["*.example.com", "http://x", "", "a b"] {
            assert!(AllowedHosts::new(&listen, &[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_that_names_two_hosts_is_refused() {
        let hosts = AllowedHosts::new(&[], &[]).expect("hosts");
        let mut headers = HeaderMap::new();
        assert!(hosts.check(&Uri::from_static("/"), &headers, false).is_err(), "none at all");
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check(&Uri::from_static("http://localhost/"), &headers, false).is_ok());
        assert!(hosts.check(&Uri::from_static("http://evil.example/"), &headers, false).is_err());
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check(&Uri::from_static("/"), &headers, false).is_err());
    }
}
