//! Which page a request comes from.
//!
//! Promise: a page of another origin causes nothing and reads nothing, not even one on another port of the same
//! machine. There are no CORS headers, ever.
//! Start with [`check`].

use axum::http::{HeaderMap, Method, header};
use berth_api::{Code, Problem};

use super::hosts::Host;
use crate::fault::Fault;

/// Where the API begins. Everything else is pages, which one may follow a link to.
const API: &str = "/v1";

/// A request, as far as this is concerned.
#[derive(Debug)]
pub(crate) struct From<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// What we were called, checked before.
    pub(crate) host: &'a Host,
    /// Whether it came through TLS of ours.
    pub(crate) secure: bool,
}

impl From<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap_or("?"))
    }

    /// Whether it changes nothing.
    fn is_look(&self) -> bool {
        matches!(*self.method, Method::GET | Method::HEAD) && !self.headers.contains_key(header::UPGRADE)
    }

    /// Whether the browser says that the page is ours.
    fn says_own(&self) -> bool {
        self.header("sec-fetch-site") == Some("same-origin")
    }

    /// Whether this origin is ours: what we were called, by HTTP or by HTTPS. A proxy may do TLS for us, so HTTPS is
    /// ours as well; but what came through TLS of our own did not come from a page without.
    fn is_own(&self, origin: &str) -> bool {
        let (secure, host) = match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
            (Some(host), _) => (true, host),
            (_, Some(host)) if !self.secure => (false, host),
            _ => return false,
        };
        let Some(host) = Host::parse(host) else { return false };
        host.name == self.host.name && host.port_or(secure) == self.host.port_or(secure)
    }

    /// Whether the page that sent it has HTTPS in its address: by us, or by a proxy that does it for us.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure || self.header("origin").is_some_and(|origin| origin.starts_with("https://"))
    }
}

/// Refuses what a page of another origin sends.
pub(crate) fn check(from: &From<'_>) -> Result<(), Fault> {
    let mut origins = from.headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().map(|origin| origin.to_str().unwrap_or("?"));
    if origins.next().is_some() {
        return Err(Fault::usage("there is more than one `Origin` in the request"));
    }
    match origin {
        None => {}
        Some(origin) if from.is_own(origin) => {}
        // A form of a page that tells nobody where it is: the browser says in another way whose it is.
        Some("null") if from.says_own() => {}
        Some(origin) => return Err(foreign(&format!("a page of `{}`", origin.escape_debug()))),
    }
    match from.header("sec-fetch-site") {
        None | Some("same-origin") => Ok(()),
        // Somebody typed the address, or came from another program.
        Some("none") if from.is_look() => Ok(()),
        // A link on another page may lead to ours. What is behind the API is none.
        Some(_) if from.is_look() && is_visit(from) => Ok(()),
        Some(site) => Err(foreign(&format!("another page ({})", site.escape_debug()))),
    }
}

fn is_visit(from: &From<'_>) -> bool {
    let is_api = from.path == API || from.path.starts_with("/v1/");
    !is_api
        && from.header("sec-fetch-mode") == Some("navigate")
        && from.header("sec-fetch-dest") == Some("document")
}

fn foreign(who: &str) -> Fault {
    Problem::new(Code::NotAllowed, format!("{who} may not use this gateway"))
        .hint("only its own page may; programs send no `Origin`")
        .into()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    type Pair = (&'static str, &'static str);

    fn ask(method: Method, path: &str, host: &str, secure: bool, pairs: &[Pair]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let host = Host::parse(host).expect("a host");
        let from = From { method: &method, path, headers: &headers, host: &host, secure };
        check(&from).is_ok()
    }

    #[test]
    fn an_origin_is_ours_by_scheme_name_and_port() {
        let post = |origin, host, secure| ask(Method::POST, "/v1/x", host, secure, &[("origin", origin)]);
        assert!(post("http://localhost:7070", "localhost:7070", false));
        assert!(post("http://LOCALHOST:7070", "localhost:7070", false));
        assert!(post("http://[::1]:7070", "[::1]:7070", false));
        assert!(post("https://berth.example.com", "berth.example.com", true));
        assert!(post("https://berth.example.com", "berth.example.com:443", true));
        assert!(post("https://berth.example.com", "berth.example.com", false), "a proxy does TLS");
        assert!(!post("http://berth.example.com", "berth.example.com", true), "never the other way round");
        for foreign in [
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:7070",
            "https://evil.example",
            "null",
            "",
            "file://",
            "localhost:7070",
            "http://localhost:7070.evil.example",
            "http://x@localhost:7070",
        ] {
            assert!(!post(foreign, "localhost:7070", false), "{foreign}");
        }
    }

    #[test]
    fn what_a_browser_says_of_itself_counts() {
        let get = |path, pairs: &[Pair]| ask(Method::GET, path, "localhost:7070", false, pairs);
        let visit = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(get("/", &visit), "a link on another page");
        assert!(!get("/v1/sessions", &visit), "the API is no page");
        assert!(!get("/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]));
        let frame =
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(!get("/", &frame));
        assert!(!get("/v1/events", &[("sec-fetch-site", "same-site")]), "another port of the same machine");
        assert!(get("/v1/events", &[("sec-fetch-site", "same-origin")]));
        assert!(get("/v1/sessions", &[("sec-fetch-site", "none")]), "typed");
        let post = |pairs: &[Pair]| ask(Method::POST, "/login", "localhost:7070", false, pairs);
        assert!(!post(&[
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document")
        ]));
        assert!(post(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(!post(&[("origin", "null"), ("sec-fetch-site", "cross-site")]));
        assert!(!post(&[("origin", "http://localhost:7070"), ("origin", "http://localhost:7070")]));
    }
}
