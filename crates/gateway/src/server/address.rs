//! Network address to listen on, as users write it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A host and a port. No host and `localhost` both mean the loopback address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpAddress {
    host: Option<String>,
    port: u16,
}

impl FromStr for TcpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(format!("`{text}` has no port, as in 127.0.0.1:7070, localhost:7070 or :7070"));
        };
        let port =
            port.parse().map_err(|_| format!("`{port}` is not a valid port; one is 0 (any) to 65535"))?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(Some(host)) => host,
            Some(None) => return Err(format!("`{host}` has no closing bracket")),
            None if host.contains(':') => return Err(format!("write [{host}]:{port}")),
            None => host,
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if !host.chars().all(is_plain) {
            return Err(format!("`{}` is not a valid host", host.escape_debug()));
        }
        let host = Some(host).filter(|host| !host.is_empty() && !host.eq_ignore_ascii_case("localhost"));
        Ok(Self { host: host.map(str::to_owned), port })
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, "localhost:{}", self.port),
        }
    }
}

impl TcpAddress {
    /// Resolves the address. Of several addresses of a name the first is used, IPv4 before IPv6.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, String> {
        let Some(host) = &self.host else {
            return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port));
        };
        let found = (host.as_str(), self.port).to_socket_addrs();
        let mut found: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().ok_or_else(|| "the name has no address".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_any_usual_form_is_parsed() {
        let resolved = |text: &str| text.parse::<TcpAddress>().and_then(|address| address.resolve());
        let at = |text: &str| Ok(text.parse().expect("an address"));
        for text in ["127.0.0.1:7070", ":7070", "localhost:7070", "LOCALHOST:7070"] {
            assert_eq!(resolved(text), at("127.0.0.1:7070"), "{text}");
        }
        assert_eq!(resolved("[::1]:0"), at("[::1]:0"));
        assert_eq!(resolved("0.0.0.0:80"), at("0.0.0.0:80"));
        assert_eq!("[::1]:7".parse::<TcpAddress>().expect("an address").to_string(), "[::1]:7");
        for odd in [
            "",
            "7070",
            "localhost",
            "localhost:",
            "a:b",
            "127.0.0.1:70000",
            "::1:80",
            "[::1:80",
            "a b:1",
            "a/b:1",
        ] {
            assert!(odd.parse::<TcpAddress>().is_err(), "{odd}");
        }
    }
}
