//! Addresses of a gateway for browsers, and login links.

use std::fs;
use std::os::unix::net::UnixStream;

use berth_api::Problem;
use berth_host::disk;
use berth_store::StateDir;

/// File in the state directory with the addresses of the running gateway.
const URLS: &str = "gateway.urls";
/// File name of its socket, as in `berth_gateway`.
const SOCKET: &str = "gateway.sock";

/// Records the addresses of a gateway that was just started.
pub fn write_urls(home: &StateDir, urls: &[String]) -> Result<(), Problem> {
    let text: String = urls.iter().map(|url| format!("{url}\n")).collect();
    disk::write_atomically(home.root(), URLS, text.as_bytes(), false)
        .map_err(|error| Problem::refused(format!("cannot record the gateway's address: {error}")))
}

/// The addresses of the running gateway for a browser, the best one first.
pub fn gateway_urls(home: &StateDir) -> Result<Vec<String>, Problem> {
    if UnixStream::connect(home.root().join(SOCKET)).is_err() {
        return Err(Problem::unreachable("no gateway runs here that a browser could log in to").hint(
            "start one with `berth serve --listen 127.0.0.1:7070`, or say where it is with --base URL",
        ));
    }
    let text = fs::read_to_string(home.root().join(URLS)).unwrap_or_default();
    let bases: Vec<String> = text.lines().map(str::to_owned).collect();
    if bases.is_empty() {
        return Err(Problem::refused(
            "the running gateway listens on its socket only, and browsers need an address",
        )
        .hint("start it with `berth serve --listen 127.0.0.1:7070`"));
    }
    Ok(bases)
}

/// A name that browsers resolve to loopback and that no other server on this machine uses: browsers keep the data of its
/// pages apart.
const OWN_NAME: &str = "berth.localhost";

/// The addresses at which browsers reach a gateway, the best one first: its names, then, if it listens on all
/// interfaces, this machine's address on the network, then loopback by a name of its own, then by its address, since
/// not every browser resolves that name. With TLS the name of its own is left out: no certificate has it.
pub fn reachable_urls(url: &str, names: &[String]) -> Vec<String> {
    let port = url.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
    let scheme = url.split_once("://").map_or("http", |(scheme, _)| scheme);
    let named = |name: &String| {
        if name.contains(':') { format!("{scheme}://{name}") } else { format!("{scheme}://{name}:{port}") }
    };
    let mut urls: Vec<String> = names.iter().map(named).collect();
    let loopback = url.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:");
    if loopback != url {
        urls.extend(outgoing_address().map(|address| format!("{scheme}://{address}:{port}")));
    }
    if is_loopback(&loopback) && scheme == "http" {
        urls.push(format!("{scheme}://{OWN_NAME}:{port}"));
    }
    urls.push(loopback);
    urls
}

/// This machine's address on the network. Nothing is sent to find it.
fn outgoing_address() -> Option<std::net::Ipv4Addr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address reserved for documentation: every machine with a route to any host has one to it.
    socket.connect("192.0.2.1:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(address) if !address.is_loopback() && !address.is_unspecified() => Some(address),
        std::net::IpAddr::V4(_) | std::net::IpAddr::V6(_) => None,
    }
}

/// The login link for a browser.
pub fn login_url(base: &str, secret: &str) -> String {
    format!("{}/login?link={secret}", base.trim_end_matches('/'))
}

/// Rows of the QR code of a text, a letter for each module: `#` is dark, `.` is light. Without the light border that a camera
/// needs. `None` if the text is too long for one.
pub fn qr_code(text: &str) -> Option<Vec<String>> {
    let code = qrcode::QrCode::with_error_correction_level(text, qrcode::EcLevel::L).ok()?;
    let letter = |colour: &qrcode::Color| if *colour == qrcode::Color::Dark { '#' } else { '.' };
    let rows = code.to_colors();
    Some(rows.chunks(code.width()).map(|row| row.iter().map(letter).collect()).collect())
}

/// True if only this machine reaches the address.
pub fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "[::1]", "localhost", OWN_NAME].iter().any(|sign| host.starts_with(sign))
}

/// Checks an address that a user gave.
pub fn parse_base(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or(text.strip_prefix("https://"));
    let is_origin = rest.map(|rest| rest.trim_end_matches('/')).is_some_and(|rest| {
        !rest.is_empty()
            && !rest.contains(['/', '?', '#', '@', ' '])
            && rest.parse::<http::uri::Authority>().is_ok()
    });
    if is_origin {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err("an address is http:// or https:// and a host, as in https://berth.example.com".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_nothing_else() {
        assert_eq!(parse_base("https://berth.example.com/").as_deref(), Ok("https://berth.example.com"));
        assert_eq!(parse_base("http://[::1]:7070").as_deref(), Ok("http://[::1]:7070"));
        for odd in [
            "",
            "localhost:7070",
            "ftp://x",
            "http://",
            "http://a/b",
            "http://u@a",
            "http://a b",
            "http://a?x",
        ] {
            assert!(parse_base(odd).is_err(), "{odd}");
        }
        let everywhere = reachable_urls("http://0.0.0.0:7070", &["berth.example.org".to_owned()]);
        assert_eq!(everywhere.first().map(String::as_str), Some("http://berth.example.org:7070"));
        assert_eq!(everywhere.last().map(String::as_str), Some("http://127.0.0.1:7070"));
        assert_eq!(reachable_urls("https://127.0.0.1:1", &[]), ["https://127.0.0.1:1"]);
        assert_eq!(
            reachable_urls("http://127.0.0.1:1", &[]),
            ["http://berth.localhost:1", "http://127.0.0.1:1"]
        );
        assert_eq!(reachable_urls("http://192.0.2.7:1", &[]), ["http://192.0.2.7:1"]);
    }
}
