//! Which names this gateway answers to.
//!
//! A page of somebody else can point a name of its own at our address (DNS rebinding); then its browser takes us for
//! that page's server, and no rule of the browser protects us. But the name is in `Host`, and we know our names.
//! Start with [`Hosts::check`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use berth_api::{Code, Problem};

use crate::fault::Fault;

/// Names that browsers resolve to this machine without asking anybody.
const LOOPBACK_NAMES: [&str; 2] = ["localhost", "berth.localhost"];

/// A host as a client wrote it: the name in lower case, and the port if there was one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Host {
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

    /// The port that is meant when none is said.
    pub(crate) fn port_or(&self, secure: bool) -> u16 {
        self.port.unwrap_or(if secure { 443 } else { 80 })
    }

    /// Whether browsers keep what they are told about it apart from everything else on this machine.
    pub(crate) fn is_a_name_of_its_own(&self) -> bool {
        self.address().is_none() && !LOOPBACK_NAMES.contains(&self.name.as_str())
    }
}

/// The names and addresses that are ours.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    allowed: Vec<Host>,
    addresses: Vec<IpAddr>,
    /// It listens on all addresses there are. An address cannot be pointed elsewhere, as a name can.
    any_address: bool,
}

impl Hosts {
    /// Those of a gateway that listens on these addresses, and what somebody allowed besides.
    pub(crate) fn new(listen: &[IpAddr], allow: &[String]) -> Result<Self, Problem> {
        let mut hosts = Self {
            allowed: vec![],
            addresses: listen.to_vec(),
            any_address: listen.iter().any(IpAddr::is_unspecified),
        };
        for text in allow {
            let host = Host::parse(text).filter(|host| !host.name.contains('*')).ok_or_else(|| {
                Problem::new(Code::Usage, format!("`{}` is not a valid host name", text.escape_debug())).hint(
                    "a host is a name or an address, with a port or without: --allow-host berth.example.com",
                )
            })?;
            hosts.allowed.push(host);
        }
        Ok(hosts)
    }

    /// The host a request is for, if it is one of ours.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap, is_local: bool) -> Result<Host, Fault> {
        let mut said = headers.get_all(header::HOST).iter();
        let text = match (said.next(), said.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            (None, _) => return Err(Fault::usage("there is no `Host` in the request")),
            (Some(_), Some(_)) => return Err(Fault::usage("there is more than one `Host` in the request")),
        };
        let host =
            Host::parse(text).ok_or_else(|| Fault::usage("the `Host` header is not a valid host name"))?;
        // Somebody may write the host into the first line as well; proxies differ in which of them counts.
        let line = uri.authority().map(|authority| Host::parse(authority.as_str()));
        if line.is_some_and(|line| line.as_ref() != Some(&host)) {
            return Err(Fault::usage("the request is for two hosts"));
        }
        if self.is_ours(&host, is_local) {
            return Ok(host);
        }
        let what = format!("this gateway is not called `{}`", host.name.escape_debug());
        let hint =
            format!("its owner can allow it with `berth serve --allow-host {}`", host.name.escape_debug());
        Err(Fault::from(Problem::new(Code::NotAllowed, what).hint(hint))
            .status(StatusCode::MISDIRECTED_REQUEST))
    }

    fn is_ours(&self, host: &Host, is_local: bool) -> bool {
        let is_allowed =
            |it: &Host| it.name == host.name && it.port.is_none_or(|port| Some(port) == host.port);
        if LOOPBACK_NAMES.contains(&host.name.as_str()) || self.allowed.iter().any(is_allowed) {
            return true;
        }
        match host.address() {
            Some(address) => address.is_loopback() || self.any_address || self.addresses.contains(&address),
            // No browser speaks to a socket by itself, but one may come through `ssh -L`. A name without a dot is
            // none that a stranger could have registered; programs write what they like there.
            None => is_local && !host.name.contains('.'),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(hosts: &Hosts, text: &'static str, is_local: bool) -> Option<u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(text));
        let fault = hosts.check(&Uri::from_static("/v1/sessions"), &headers, is_local).err()?;
        Some(fault.status.map_or(400, |status| status.as_u16()))
    }

    #[test]
    fn it_answers_to_its_own_names_and_to_no_other() {
        let listen = ["127.0.0.1".parse().expect("an address")];
        let hosts =
            Hosts::new(&listen, &["Berth.Example.com".to_owned(), "box:9".to_owned()]).expect("hosts");
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
        assert_eq!(check(&hosts, "berth", true), None, "programs at the socket write what they like");
        assert_eq!(check(&hosts, "evil.example", true), Some(421), "a browser through a forwarded port");
    }

    #[test]
    fn one_that_listens_everywhere_answers_to_every_address_and_to_no_stranger_name() {
        let listen = ["0.0.0.0".parse().expect("an address")];
        let hosts = Hosts::new(&listen, &[]).expect("hosts");
        assert_eq!(check(&hosts, "192.168.1.5:7070", false), None);
        assert_eq!(check(&hosts, "evil.example:7070", false), Some(421));
        for bad in ["*.example.com", "http://x", "", "a b"] {
            assert!(Hosts::new(&listen, &[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_for_two_hosts_is_for_none() {
        let hosts = Hosts::new(&[], &[]).expect("hosts");
        let mut headers = HeaderMap::new();
        assert!(hosts.check(&Uri::from_static("/"), &headers, false).is_err(), "none at all");
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check(&Uri::from_static("http://localhost/"), &headers, false).is_ok());
        assert!(hosts.check(&Uri::from_static("http://evil.example/"), &headers, false).is_err());
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check(&Uri::from_static("/"), &headers, false).is_err());
    }
}
